"""The tool `run_shell_command`: run a command line and tell all about how it ended."""

import asyncio
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from actions.ports import ToolContext, ToolOutcome
from actions.tools.arguments import Arguments, PlainText, parsed, spec_of, whole
from actions.tools.capture import Capture
from actions.tools.files import FileProblem
from actions.tools.live_output import LiveOutput
from actions.tools.places import resolved, shown
from actions.tools.process import Limits, run_supervised
from actions.tools.search_root import require_folder
from actions.tools.shell_report import outcome_of
from state.calls import Effect

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 3600
MAX_OUTPUT_BYTES = 50_000_000

_DESCRIPTION = (
    "Run a command line with bash (sh where there is none) and return its output, both streams in order, and"
    " its exit code. Nothing can be typed in: stdin is empty, there is no terminal. Each call starts afresh:"
    " cd and variables do not last. Every process is killed when the command ends, so nothing stays in the"
    " background; it is also killed after {idle_s:g} s without output, or"
    f" {MAX_OUTPUT_BYTES // 1_000_000} MB of it. Long output is cut in the middle."
)


class RunShellCommandArguments(Arguments):
    command: PlainText = Field(description="The command line.")
    cwd: PlainText | None = Field(None, description="Folder to run in. Default: the working folder.")
    timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S), BeforeValidator(whole)] = Field(
        DEFAULT_TIMEOUT_S,
        description=f"Seconds after which it is killed. Default: {DEFAULT_TIMEOUT_S}, most: {MAX_TIMEOUT_S}.",
    )


class RunShellCommand:
    effect: Effect = "effect"

    def __init__(self, idle_s: float = 300, max_output_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self.spec = spec_of("run_shell_command", _DESCRIPTION.format(idle_s=idle_s), RunShellCommandArguments)
        self._idle_s = idle_s
        self._max_output_bytes = max_output_bytes

    def parse(self, arguments: str) -> RunShellCommandArguments:
        return parsed(self.spec, RunShellCommandArguments, arguments)

    def subject(self, arguments: RunShellCommandArguments) -> str:
        return arguments.command

    def paths(self, arguments: RunShellCommandArguments) -> Sequence[str]:
        return () if arguments.cwd is None else (arguments.cwd,)

    async def run(self, arguments: RunShellCommandArguments, context: ToolContext) -> ToolOutcome:
        try:
            cwd = require_folder(resolved(arguments.cwd or ".", context.cwd))
        except FileProblem as error:
            return ToolOutcome("error", f"The command was not run: {error}")
        limits = Limits(arguments.timeout_s, self._idle_s)
        with Capture(self._max_output_bytes) as capture, LiveOutput(context.emit) as live:

            def take(chunk: bytes) -> bool:
                live.feed(chunk)
                return capture.feed(chunk)

            try:
                ended = await run_supervised(_shell(), arguments.command, cwd, limits, take)
            except OSError as error:
                return ToolOutcome("error", f"The command was not run: {_start_problem(error, cwd)}.")
            except asyncio.CancelledError:
                raise asyncio.CancelledError(capture.read().text) from None
            captured = await asyncio.to_thread(capture.read)
            return outcome_of(captured, capture.problem, ended, limits)


def _shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def _start_problem(error: OSError, cwd: Path) -> str:
    if error.errno == errno.E2BIG:
        return "the command line is longer than the system takes; write it to a file and run that"
    if isinstance(error, PermissionError):
        return f"the folder {shown(cwd)} may not be entered"
    return (error.strerror or str(error)).lower()
