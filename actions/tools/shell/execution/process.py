"""Runs a command under its supervisor and returns its result. Afterwards, none of its processes is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import cast

from .....state.process.cancellation import run_to_end
from .....state.process.crashpoints import reach
from ....workspace.paths import make_argument
from ..sandbox.launch import NO_SANDBOX, Launch
from ..supervisor.order import Order
from ..supervisor.supervise import OVER
from ..supervisor.watch import KILLING_S, REASONS, STOP_GRACE_S
from .process_marker import kill_marked, shell_environment
from .spool import CommandLimits, Ended, Reason, Spool, parse_report
from .supervisor_pool import PACKAGE, WaitingSupervisor, send_order

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from supervisor.program import main; main(*sys.argv[2:])"
"""The start of a supervisor. It imports a module file, so that the bytecode is cached. The file is imported
outside of its package, so that the package is not loaded.
"""
_LETTERS = {reason: letter for letter, reason in REASONS.items()}
_STOPPING_S = STOP_GRACE_S + KILLING_S + 1
_REAPING_S = 1.0
_CLAIMING_S = 3.0
"""If a waiting supervisor has not claimed the call after these seconds, it is not allowed to claim it any
more.
"""


async def run_supervised(
    command: Sequence[str],
    cwd: Path,
    limits: CommandLimits,
    spool: Spool,
    grew: Callable[[], bool],
    withheld: Set[str] = frozenset(),
    launch: Launch = NO_SANDBOX,
) -> Ended:
    """Run a program with its arguments. `grew` reads the spool and returns whether there was new output.

    The command gets the environment except for the variables in `withheld`.

    Raises `OSError` if the command could not be started. A cancellation waits until every process has ended.
    """
    run = _Run([*launch.words, *command], cwd, limits, spool, grew, withheld, launch)
    reason: Reason = "cancelled"
    try:
        await run_to_end(run.start())
        reason = await run.wait()
    finally:
        end = await run_to_end(run.end(reason))
    return end


def shell_words(command: str) -> list[str]:
    """Return the program and the arguments that run a command line."""
    return ["/bin/bash" if Path("/bin/bash").exists() else "/bin/sh", "-c", command]


class _Run:
    """One command with its two pipes: one for messages to the supervisor, one for messages from it."""

    def __init__(
        self,
        command: list[str],
        cwd: Path,
        limits: CommandLimits,
        spool: Spool,
        grew: Callable[[], bool],
        withheld: Set[str],
        launch: Launch,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._limits = limits
        self._spool = spool
        self._withheld = withheld
        self._launch = launch
        self._news = _News(grew)
        self._lifeline = -1
        self._process: subprocess.Popen[bytes] | WaitingSupervisor | None = None
        self._claim_by = float("inf")

    async def start(self, with_spares: bool = True) -> None:
        """Start the command with a waiting supervisor, or with a new one if none waits."""
        command_end, self._lifeline = os.pipe()
        news_end, report_end = os.pipe()
        news = os.fdopen(news_end, "rb", buffering=0)
        order = self._make_order()
        try:
            if with_spares:
                self._process = await send_order(
                    order, str(self._cwd), (command_end, report_end), self._launch.descriptors
                )
            if self._process is None:
                self._process = self._start_program(order, command_end, report_end)
            reach("spawned")
            loop = asyncio.get_running_loop()
            if isinstance(self._process, WaitingSupervisor):
                self._claim_by = loop.time() + _CLAIMING_S
            await loop.connect_read_pipe(lambda: self._news, news)
        except BaseException:
            news.close()
            raise
        finally:
            os.close(command_end)
            os.close(report_end)

    def _make_order(self) -> Order:
        environment = shell_environment(os.environ, self._spool.marker, self._withheld)
        return Order(
            call=(str(self._spool.folder), self._spool.marker),
            command=list(map(make_argument, self._command)),
            environment={**environment, **self._launch.environment},
            most_bytes=self._limits.max_bytes,
            sandbox=(self._launch.words[0] if self._launch.words else "", self._launch.orders),
        )

    def _start_program(self, order: Order, command_end: int, report_end: int) -> subprocess.Popen[bytes]:
        *words, last = order.command
        own = {"SANDBUR_COMMAND": last, "SANDBUR_FOLDER": order.folder}
        arguments = (order.around, str(order.most_bytes), str(order.steps), *words)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, PACKAGE, *arguments],
            cwd=self._cwd,
            env={**order.environment, **own},
            pass_fds=self._launch.descriptors,
            stdin=command_end,
            stdout=report_end,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def wait(self) -> Reason:
        """Wait for the end of the command. Return an empty reason if it ended by itself, else the reason to
        stop it.
        """
        now = asyncio.get_running_loop().time
        latest = now() + self._limits.timeout_s
        while not self._news.is_closed or await self._restart_if_refused():
            silent = self._news.last_growth + self._limits.idle_s
            if now() >= min(latest, silent):
                return "timeout" if now() >= latest else "idle"
            if now() >= self._claim_by:
                await self._restart_if_refused()
            await self._news.change(min(latest, silent, self._claim_by) - now())
        return ""

    async def _restart_if_refused(self) -> bool:
        """Start a new supervisor if the waiting one has not claimed the call and never will. Return whether
        it was started.
        """
        is_spare, self._claim_by = isinstance(self._process, WaitingSupervisor), float("inf")
        if not is_spare or self._news.report or not self._spool.renew():
            return False
        self._let_go()
        self._news = self._news.successor()
        await run_to_end(self.start(with_spares=False))
        return True

    async def end(self, reason: Reason) -> Ended:
        """Kill all remaining processes and close the pipes."""
        if reason:
            self._ask_to_stop(reason)
        await self._wait_until_closed()
        end = parse_report(bytes(self._news.report), reason, self._limits)
        if end.status is None and self._process is not None:
            self._process.kill()
            await asyncio.to_thread(kill_marked, self._spool.marker)
        self._news.close()
        await self._reap()
        self._let_go()
        return end

    def _ask_to_stop(self, reason: Reason) -> None:
        with suppress(OSError):
            os.write(self._lifeline, _LETTERS[reason])
        if self._process is not None:
            # The command may have stopped its supervisor with a signal.
            self._process.send_signal(signal.SIGCONT)

    async def _wait_until_closed(self) -> None:
        now = asyncio.get_running_loop().time
        latest = now() + _STOPPING_S
        while self._process is not None and not self._news.is_closed and now() < latest:
            await self._news.change(latest - now())

    async def _reap(self) -> None:
        """End the supervisor, whose work is done. Wait for it if it is a child of this process."""
        is_over = self._news.report.endswith(OVER)
        if self._process is None:
            return
        if is_over:
            self._process.kill()
        now = asyncio.get_running_loop().time
        latest, nap_s = now() + _REAPING_S, 0.0002
        while self._process.poll() is None and not (is_over and isinstance(self._process, WaitingSupervisor)):
            if now() > latest:
                self._process.kill()
            await asyncio.sleep(nap_s)
            nap_s = min(2 * nap_s, 0.005)

    def _let_go(self) -> None:
        """Close our ends of the pipes. A supervisor that still waits for an order notices that the agent is
        gone.
        """
        self._news.close()
        if isinstance(self._process, WaitingSupervisor):
            self._process.kill()
            self._process.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._process, self._lifeline = None, -1


class _News(asyncio.Protocol):
    """Receives the messages of the supervisor: the output grew, and at the end the report."""

    def __init__(self, grew: Callable[[], bool]) -> None:
        self.last_growth = asyncio.get_running_loop().time()
        self.report = bytearray()
        self.is_closed = False
        self._grew = grew
        self._changed = asyncio.Event()
        self._transport: asyncio.ReadTransport | None = None

    async def change(self, timeout_s: float) -> None:
        """Wait for new output, at most `timeout_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    def successor(self) -> _News:
        """Return a receiver for another supervisor of the same command."""
        return _News(self._grew)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        # Empty lines are not part of the report. In a long run they would fill the memory.
        if self.report or data.strip(b"\n"):
            self.report += data
        self._look()
        if self.report.endswith(OVER):
            # The report is complete. Other code waits for the end of the process.
            self.is_closed = True
            self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look()
        self.is_closed = True
        self._changed.set()

    def close(self) -> None:
        """Read the spool a last time, because it may be closed after this."""
        self._look()
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    def _look(self) -> None:
        if not self.is_closed and self._grew():
            self.last_growth = asyncio.get_running_loop().time()
