"""The tool `run_shell_command`: runs a command line, and reports its output and its end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from ....state.calls import Effect
from ...ports import FilesRun, Recovered, ToolContext, ToolOutcome, ToolTraits
from ...workspace.paths import make_absolute
from ..builtin import BuiltinTool
from ..schema import PlainText, ToolArguments, whole

if TYPE_CHECKING:
    from .command_runner import CommandRunner
    from .sandbox.sandbox import Sandbox
    from .sandbox.wall import WallKind

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


class RunShellCommandArguments(ToolArguments):
    command: PlainText = Field(description="The command line.")
    cwd: PlainText | None = Field(None, description="Folder to run in. Default: the working folder.")
    timeout_s: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_S), BeforeValidator(whole)] = Field(
        DEFAULT_TIMEOUT_S,
        description=f"Seconds after which it is killed. Default: {DEFAULT_TIMEOUT_S}, most: {MAX_TIMEOUT_S}.",
    )


class RunShellCommand(BuiltinTool[RunShellCommandArguments]):
    effect: Effect = "effect"
    traits = ToolTraits(
        subject="command", runs_commands=True, word="shell", also_called=("bash", "shell", "exec")
    )

    def __init__(
        self,
        idle_s: float = 300,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        sandbox: Sandbox | None = None,
        wall: WallKind | Literal["best"] = "best",
    ) -> None:
        """`wall`: the sandbox of commands that run without a question because they only read. `best`: the
        best kind that works on this machine.
        """
        description = _DESCRIPTION.format(idle_s=idle_s)
        super().__init__("run_shell_command", description, RunShellCommandArguments)
        self._options = (idle_s, max_output_bytes, sandbox, wall)

    @cached_property
    def _runner(self) -> CommandRunner:
        """Return the runner of commands. A session without a command does not load it."""
        from .command_runner import CommandRunner

        return CommandRunner(*self._options)

    def effect_of(self, arguments: RunShellCommandArguments) -> Effect:
        return "read" if self._runner.is_read_only(arguments.command) else self.effect

    def paths(self, arguments: RunShellCommandArguments) -> Sequence[str]:
        return () if arguments.cwd is None else (arguments.cwd,)

    def files_run(self, arguments: RunShellCommandArguments, cwd: Path) -> FilesRun:
        folder = make_absolute(arguments.cwd or ".", cwd)
        return self._runner.files_named(arguments.command, folder, cwd)

    async def run(self, arguments: RunShellCommandArguments, context: ToolContext) -> ToolOutcome:
        return await self._runner.run(arguments, context)

    async def recover(self, arguments: RunShellCommandArguments, context: ToolContext) -> Recovered:
        return await self._runner.recover(arguments, context)

    def still_running(self, context: ToolContext) -> Sequence[str]:
        return self._runner.still_running(context)
