"""Runs code of a model in its own process, answers the calls of the code, and returns how the code ended."""

import asyncio
import json
import marshal
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ....state.conversation.messages import ToolResult
from ....state.process.cancellation import wait_until_done
from ...workspace.paths import make_private
from ..shell.command_output import MAX_EVENT_BYTES, Captured, LiveOutput, capture
from ..shell.execution.process import run_supervised
from ..shell.execution.spool import CommandLimits, Ended, Spool
from ..shell.execution.supervisor_pool import prepare
from ..shell.sandbox.launch import Launch, open_file
from ..shell.sandbox.seccomp import single_process_filter
from ..shell.sandbox.wall import WallKind
from .confinement import PYTHON, CodeLimits, confine_code
from .frames import BadFrame, CallFrame, CodeChannel, EndFrame

MakeCall = Callable[[str, str], Awaitable[ToolResult]]
"""A function that makes a call. It takes the name of a Python function, and the arguments as JSON text."""

_START = "import marshal, os; exec(marshal.loads(os.read({program}, {size}))); main({channel})"
_PROGRAM = Path(__file__).with_name("inside") / "program.py"
_WHOLE_S = 24 * 3600.0
"""The time limit of the process in seconds. `CodeProcess` itself limits the time of the code."""
_LEAVING_S = 2.0
"""The seconds that a process may take to exit after its last message."""


@cache
def _compile_program() -> bytes:
    """Return the program in the form that the interpreter of the sandbox, which is also this one, loads
    fastest.
    """
    return marshal.dumps(compile(_PROGRAM.read_text("utf-8"), "<program>", "exec"))


class CodeEnd(NamedTuple):
    """How the code ended, and the text that it printed."""

    frame: EndFrame | None
    """The last message of the code; None if the process ended, or was ended, before the code did."""
    printed: Captured
    problem: str = ""
    """Why the process was ended, or ended early, as a clause; empty if there is a `frame`."""
    is_late: bool = False
    """Whether the process was ended because the code exceeded its time limit."""


class CodeProcess:
    """Runs one piece of code in a folder that belongs to this call."""

    def __init__(self, kind: WallKind, folder: Path, limits: CodeLimits) -> None:
        self._kind: WallKind = kind
        self._folder = folder.absolute()
        self._limits = limits

    async def run(
        self,
        code: str,
        functions: Mapping[str, Sequence[str]],
        request: MakeCall,
        emit: Callable[[str], None],
    ) -> CodeEnd:
        """Run the code. `functions` maps each function to the names of its positional parameters.

        Raises `OSError` if the process cannot be started, and the exceptions of `request`. In both cases no
        process is left.
        """
        prepare()
        work = self._folder / "work"
        make_private(work)
        order = {"code": code, "functions": dict(functions), "filter": single_process_filter()}
        with (
            CodeChannel() as channel,
            Spool(self._folder, secrets.token_hex(8)) as spool,
            LiveOutput(emit) as live,
            open_file(_compile_program()) as program,
            confine_code(self._kind, work, self._limits, (channel.descriptor, program)) as launch,
        ):
            start = _START.format(program=program, size=len(_compile_program()), channel=channel.descriptor)
            process = asyncio.ensure_future(self._supervise(start, work, spool, live, launch))
            process.add_done_callback(lambda _: channel.end())
            try:
                await channel.send(order)
                frame, problem, is_late = await self._answer(channel, request)
                ended = await _end(process, 0 if problem else _LEAVING_S)
            except BaseException:
                await _end(process, 0)
                raise
            if frame is None and not problem:
                problem = _describe_end(ended)
            return CodeEnd(frame, capture(spool.output, False), problem, is_late)

    async def _supervise(
        self, start: str, work: Path, spool: Spool, live: LiveOutput, launch: Launch
    ) -> Ended:
        """Run the program that begins with these statements until it ends."""

        def show_news() -> bool:
            chunk, skipped = spool.news(MAX_EVENT_BYTES)
            if chunk:
                live.feed(chunk, skipped)
            return bool(chunk)

        words = [PYTHON, "-S", "-s", "-P", "-c", start]
        limits = CommandLimits(_WHOLE_S, _WHOLE_S, self._limits.max_output_bytes)
        return await run_supervised(words, work, limits, spool, show_news, frozenset(os.environ), launch)

    async def _answer(self, channel: CodeChannel, request: MakeCall) -> tuple[EndFrame | None, str, bool]:
        """Make the calls of the code until it ends. Return its last message, why the process must be ended
        (empty if it need not be), and whether the reason is the time limit.
        """
        now = asyncio.get_running_loop().time
        left_s = self._limits.timeout_s
        while True:
            began = now()
            try:
                async with asyncio.timeout(left_s):
                    frame = await channel.receive()
            except TimeoutError:
                return None, f"it ran for more than {self._limits.timeout_s:g} s of its own time", True
            except BadFrame as broken:
                return None, str(broken), False
            left_s -= now() - began
            if not isinstance(frame, CallFrame):
                return frame, "", False
            answer = await request(frame.function, json.dumps(frame.arguments, ensure_ascii=False))
            await channel.send({"outcome": answer.outcome, "content": answer.display_text})


async def _end(process: asyncio.Future[Ended], patience_s: float) -> Ended:
    """Wait up to `patience_s` seconds for the end of the process, then kill it. Return after its end."""
    if patience_s:
        await asyncio.wait([process], timeout=patience_s)
    if not process.done():
        process.cancel()
    cancelled = await wait_until_done(process, lambda: None)
    if cancelled:
        raise cancelled
    with suppress(asyncio.CancelledError):
        return process.result()
    return Ended(None, "cancelled")


def _describe_end(ended: Ended) -> str:
    """Return a clause that says why a process ended before its code."""
    if ended.problem:
        return ended.problem
    if ended.status is not None and ended.status < 0:
        return f"its process was killed by signal {-ended.status}"
    return f"its process ended early, with status {ended.status}"
