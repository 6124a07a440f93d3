"""Runs a command under its supervisor and brings back how it ended; nothing of it is left afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import cast

from ....state.cancellation import to_the_end
from ....state.crashpoints import reach
from .sandbox.launch import NO_SANDBOX, Launch
from .spool import CommandLimits, Ended, Reason, Spool, ended
from .supervisor.supervise import OVER
from .supervisor.watch import KILLING_S, REASONS, STOP_GRACE_S

CALL_VARIABLE = "SANDBUR_CALL"
"""Set in every process of a call, so that they can be found when their supervisor was killed."""

_SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "PYTHONUNBUFFERED": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
_PROVIDERS = (
    "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GOOGLE_GENERATIVE_AI", "DEEPSEEK", "DASHSCOPE", "OPENROUTER",
    "OLLAMA", "MISTRAL", "GROQ", "XAI", "TOGETHER", "FIREWORKS", "COHERE", "CO", "PERPLEXITY", "CEREBRAS",
    "MOONSHOT", "ZHIPUAI", "ZAI", "MINIMAX", "NVIDIA", "AZURE_OPENAI", "SILICONFLOW", "VOYAGE",
)  # fmt: skip
_SECRETS = frozenset(
    {f"{provider}_API_KEY" for provider in _PROVIDERS}
    | {"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_ADMIN_KEY", "AWS_BEARER_TOKEN_BEDROCK"}
)
_COLOURS = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM"})


def shell_environment(
    outer: Mapping[str, str], call: str, withheld: Set[str] = frozenset()
) -> dict[str, str]:
    """Return what a command sees of the `outer` environment, without `withheld` names; `call` marks it."""
    kept = {
        name: value
        for name, value in outer.items()
        if name not in _SECRETS
        and name not in withheld
        and name not in _COLOURS
        and not name.startswith("SANDBUR_")
    }
    return {**kept, **_SETTINGS, CALL_VARIABLE: call}


_MOST_ROUNDS = 20


def kill_marked(*markers: str) -> int:
    """Kill all of them, also those that are started meanwhile; return how many were found."""
    wanted = {f"{CALL_VARIABLE}={marker}".encode() for marker in markers}
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        marked = [pid for pid in _pids() if wanted & _environment(pid) and pid != os.getpid()]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            break
        killed.update(marked)
    return len(killed)


def marked_processes(marker: str) -> list[str]:
    """Return those of one call that are there, as `pid name`."""
    wanted = f"{CALL_VARIABLE}={marker}".encode()
    return [f"{pid} {_name(pid)}" for pid in _pids() if wanted in _environment(pid) and pid != os.getpid()]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"


def _pids() -> list[int]:
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from supervisor.program import main; main(*sys.argv[2:])",
    str(Path(__file__).parent),
)
"""A module, so that its bytecode is kept, and without the packages around it, so that they are not loaded."""
_LETTERS = {reason: letter for letter, reason in REASONS.items()}
_STOPPING_S = STOP_GRACE_S + KILLING_S + 1
_REAPING_S = 1.0


async def run_supervised(
    shell: str,
    command: str,
    cwd: Path,
    limits: CommandLimits,
    spool: Spool,
    grew: Callable[[], bool],
    withheld: Set[str] = frozenset(),
    launch: Launch = NO_SANDBOX,
) -> Ended:
    """Run a command with `shell -c`; `grew` looks into the spool, and tells whether there was something new.

    It sees the environment but for the names in `withheld`.

    Raises `OSError` if nothing could be started. A cancellation leaves when every process is gone.
    """
    run = _Run(shell, command, cwd, limits, spool, grew, withheld, launch)
    reason: Reason = "cancelled"
    try:
        await to_the_end(run.connect())
        reason = await run.wait()
    finally:
        end = await to_the_end(run.end(reason))
    return end


class _Run:
    """One command with its two pipes: a line to the supervisor, and the news from it."""

    def __init__(
        self,
        shell: str,
        command: str,
        cwd: Path,
        limits: CommandLimits,
        spool: Spool,
        grew: Callable[[], bool],
        withheld: Set[str],
        launch: Launch,
    ) -> None:
        self._limits = limits
        self._marker = spool.marker
        self._news = _News(grew)
        own_words = (str(limits.max_bytes), str(launch.orders), *launch.words)
        own = {"SANDBUR_COMMAND": command, "SANDBUR_FOLDER": str(spool.folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", *_PROGRAM, shell, *own_words],
            cwd=cwd,
            env={**shell_environment(os.environ, spool.marker, withheld), **launch.environment, **own},
            pass_fds=launch.descriptors,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        reach("spawned")

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self._news, self._process.stdout)

    async def wait(self) -> Reason:
        """Return when the command ended by itself, or with the reason to stop it."""
        now = asyncio.get_running_loop().time
        latest = now() + self._limits.timeout_s
        while not self._news.is_closed:
            silent = self._news.last_growth + self._limits.idle_s
            if now() >= min(latest, silent):
                return "timeout" if now() >= latest else "idle"
            await self._news.change(min(latest, silent) - now())
        return ""

    async def end(self, reason: Reason) -> Ended:
        """Have everything killed that is left, and let go of the pipes."""
        if reason:
            self._ask_to_stop(reason)
        await self._until_closed()
        end = ended(bytes(self._news.report), reason, self._limits)
        if end.status is None:
            self._process.kill()
            await asyncio.to_thread(kill_marked, self._marker)
        self._news.close()
        await self._reap()
        return end

    def _ask_to_stop(self, reason: Reason) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(_LETTERS[reason])
            # The command may have stopped its supervisor.
            self._process.send_signal(signal.SIGCONT)

    async def _until_closed(self) -> None:
        now = asyncio.get_running_loop().time
        latest = now() + _STOPPING_S
        while not self._news.is_closed and now() < latest:
            await self._news.change(latest - now())

    async def _reap(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        latest = asyncio.get_running_loop().time() + _REAPING_S
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() > latest:
                self._process.kill()
            await asyncio.sleep(0.002)


class _News(asyncio.Protocol):
    """What the supervisor says: that the output grew, and in the end its report."""

    def __init__(self, grew: Callable[[], bool]) -> None:
        self.last_growth = asyncio.get_running_loop().time()
        self.report = bytearray()
        self.is_closed = False
        self._grew = grew
        self._changed = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    async def change(self, timeout_s: float) -> None:
        """Wait until there is something to look at, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        # Empty lines are no part of the report; kept, they would fill the memory in a long run.
        if self.report or data.strip(b"\n"):
            self.report += data
        self._look()
        if self.report.endswith(OVER):
            # All is said; that this process ends, too, is waited for elsewhere.
            self.is_closed = True
            self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look()
        self.is_closed = True
        self._changed.set()

    def close(self) -> None:
        """Look for the last time: the spool may be closed after this."""
        self._look()
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    def _look(self) -> None:
        if not self.is_closed and self._grew():
            self.last_growth = asyncio.get_running_loop().time()
