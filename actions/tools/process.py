"""Runs a command under its supervisor and brings back how it ended; nothing of it is left afterwards."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, cast

from actions.tools import supervisor
from actions.tools.shell_environment import CALL_VARIABLE, shell_environment

Reason = Literal["", "timeout", "idle", "output", "cancelled"]
"""Why a command was stopped; empty if it was not."""

_STOPPING_S = supervisor.STOP_GRACE_S + supervisor.KILLING_S + 1
_DRAINING_S = 0.3
_REAPING_S = 1.0

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    idle_s: float
    """Without any output."""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int | None
    """Exit code, or a negative signal; None if the supervisor was killed."""
    reason: Reason
    leftovers: tuple[str, ...]
    """Processes that were still there when the command ended, as `pid name`."""
    too_many: int
    """Processes at once, if that was why it was killed."""
    survivors: int
    """Processes that not even SIGKILL ended in time."""


async def run_supervised(
    shell: str, command: str, cwd: Path, limits: Limits, take: Callable[[bytes], bool]
) -> Ended:
    """Run a command with `shell -c`; `take` gets its output and returns False when it wants no more.

    Raises `OSError` if nothing could be started. A cancellation leaves when every process is gone.
    """
    run = _Run(shell, command, cwd, take)
    reason: Reason = "cancelled"
    try:
        await _to_the_end(run.connect())
        reason = await run.wait(limits)
    finally:
        ended = await _to_the_end(run.end(reason))
    return ended


class _Run:
    """One command with its three pipes: a line to the supervisor, the output, the report."""

    def __init__(self, shell: str, command: str, cwd: Path, take: Callable[[bytes], bool]) -> None:
        self._changed = asyncio.Event()
        self._output = _Pipe(take, self._changed)
        self._report_bytes = bytearray()
        self._report = _Pipe(self._add_to_report, self._changed)
        self._marker = secrets.token_hex(8)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, shell],
            cwd=cwd,
            env=shell_environment(os.environ, self._marker) | {supervisor.COMMAND_VARIABLE: command},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: self._output, self._process.stdout)
        await loop.connect_read_pipe(lambda: self._report, self._process.stderr)

    async def wait(self, limits: Limits) -> Reason:
        """Return when the command ended by itself, or with the reason to stop it."""
        now = asyncio.get_running_loop().time
        latest = now() + limits.timeout_s
        while not self._report.is_closed:
            if self._output.is_full:
                return "output"
            silent = self._output.last + limits.idle_s
            if now() >= min(latest, silent):
                return "timeout" if now() >= latest else "idle"
            await self._change(min(latest, silent) - now())
        return ""

    async def end(self, reason: Reason) -> Ended:
        """Have everything killed that is left, and let go of the pipes."""
        if reason:
            self._ask_to_stop()
        await self._until_closed(self._report, _STOPPING_S)
        facts = self._facts()
        if "status" not in facts:
            self._process.kill()
            await asyncio.to_thread(_kill_marked, self._marker)
        if not self._output.is_full:
            await self._until_closed(self._output, _DRAINING_S)
        self._output.close()
        self._report.close()
        await self._reap()
        return Ended(
            status=int(facts["status"][0]) if "status" in facts else None,
            reason=reason,
            leftovers=tuple(facts.get("left", ())),
            too_many=int(facts.get("too_many", ["0"])[0]),
            survivors=int(facts.get("survivors", ["0"])[0]),
        )

    def _add_to_report(self, piece: bytes) -> bool:
        self._report_bytes += piece
        return True

    def _ask_to_stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"x")
            # The command may have stopped its supervisor.
            self._process.send_signal(signal.SIGCONT)

    async def _change(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    async def _until_closed(self, pipe: "_Pipe", timeout_s: float) -> None:
        now = asyncio.get_running_loop().time
        latest = now() + timeout_s
        while not pipe.is_closed and now() < latest:
            await self._change(latest - now())

    def _facts(self) -> dict[str, list[str]]:
        """Read the supervisor's report; it is a part of one if the supervisor was killed."""
        facts: dict[str, list[str]] = {}
        for line in self._report_bytes.decode(errors="replace").splitlines():
            name, _, value = line.partition(" ")
            facts.setdefault(name, []).append(value)
        return facts

    async def _reap(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        latest = asyncio.get_running_loop().time() + _REAPING_S
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() > latest:
                self._process.kill()
            await asyncio.sleep(0.002)


class _Pipe(asyncio.Protocol):
    """The reading end of a pipe; holds back the writer when nobody wants more."""

    def __init__(self, take: Callable[[bytes], bool], changed: asyncio.Event) -> None:
        self.last = asyncio.get_running_loop().time()
        """When something came."""
        self.is_full = False
        self.is_closed = False
        self._take = take
        self._changed = changed
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self.last = asyncio.get_running_loop().time()
        if not self._take(data) and not self.is_full:
            self.is_full = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._changed.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _to_the_end(work: Coroutine[None, None, ResultT]) -> ResultT:
    """Await `work` whatever happens; a cancellation waits for it."""
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    return task.result()


def _kill_marked(marker: str) -> None:
    """Kill what carries the marker in its environment: the processes of a supervisor that was killed."""
    wanted = f"{CALL_VARIABLE}={marker}".encode()
    for _ in range(20):
        marked = [pid for pid in _pids() if wanted in _environment(pid)]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            return


def _pids() -> list[int]:
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
