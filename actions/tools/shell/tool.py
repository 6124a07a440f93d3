"""The tool `run_shell_command`: run a command line and tell all about how it ended."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from ....state.calls import NO_FILE_CHANGES, Effect, FileChanges
from ....state.process.cancellation import run_to_end
from ....state.process.crashpoints import reach
from ...ports import FilesRun, Recovered, ToolContext, ToolOutcome, ToolTraits
from ...workspace.paths import FileProblem, format_path, make_absolute, require_folder
from ..builtin import BuiltinTool
from ..schema import PlainText, ToolArguments, whole

if TYPE_CHECKING:
    from ...workspace.snapshot import FilesBefore
    from .execution.spool import CommandLimits, Spool
    from .output import Captured
    from .sandbox.launch import Launch
    from .sandbox.sandbox import Sandbox
    from .sandbox.wall import Wall, WallKind

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 3600
MAX_OUTPUT_BYTES = 50_000_000
_SHORT_BYTES = 8192

_DESCRIPTION = (
    "Run a command line with bash (sh where there is none) and return its output, both streams in order, and"
    " its exit code. Nothing can be typed in: stdin is empty, there is no terminal. Each call starts afresh:"
    " cd and variables do not last. Every process is killed when the command ends, so nothing stays in the"
    " background; it is also killed after {idle_s:g} s without output, or"
    f" {MAX_OUTPUT_BYTES // 1_000_000} MB of it. Long output is cut in the middle."
)


_FAILED_AT_WALL = (
    "it only reads, but it failed in the read-only view in which such commands run unasked ({line});"
    " once approved, it runs again without that view"
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
        """`wall`: what commands are held by that run because they only read; `best`: what works here."""
        description = _DESCRIPTION.format(idle_s=idle_s)
        super().__init__("run_shell_command", description, RunShellCommandArguments)
        self._idle_s = idle_s
        self._max_output_bytes = max_output_bytes
        self._sandbox = sandbox
        self._has_noted = False
        self._wall_kind: WallKind | Literal["best"] | None = wall
        self._walls: dict[object, Wall] = {}

    def effect_of(self, arguments: RunShellCommandArguments) -> Effect:
        from .read_only import is_read_only

        return "read" if is_read_only(arguments.command) else self.effect

    def paths(self, arguments: RunShellCommandArguments) -> Sequence[str]:
        return () if arguments.cwd is None else (arguments.cwd,)

    def files_run(self, arguments: RunShellCommandArguments, cwd: Path) -> FilesRun:
        from .language.scripts import files_named

        return files_named(arguments.command, make_absolute(arguments.cwd or ".", cwd), cwd)

    async def run(self, arguments: RunShellCommandArguments, context: ToolContext) -> ToolOutcome:
        from ...workspace.snapshot import FilesBefore
        from .execution.spool import Spool
        from .execution.supervisor_pool import prepare

        try:
            cwd = require_folder(make_absolute(arguments.cwd or ".", context.cwd))
        except FileProblem as error:
            return ToolOutcome("error", f"The command was not run: {error}")
        # Meanwhile the folder is made and files are looked at.
        prepare()
        with ExitStack() as stack:
            try:
                spool = stack.enter_context(Spool(_folder_of(context, stack), secrets.token_hex(8)))
            except OSError as error:
                return _not_run(f"its output cannot be kept: {(error.strerror or str(error)).lower()}")
            before = FilesBefore()
            if self.effect_of(arguments) != "read":
                before = await asyncio.to_thread(_look, context, spool.folder)
            return await self._run(arguments, cwd, spool, before, context)

    async def _run(
        self,
        arguments: RunShellCommandArguments,
        cwd: Path,
        spool: Spool,
        before: FilesBefore,
        context: ToolContext,
    ) -> ToolOutcome:
        from .execution.process import run_supervised
        from .failure_hints import advice_on
        from .output import MAX_EVENT_BYTES, LiveOutput, captured, outcome_of
        from .sandbox.wall import failed_at_wall

        limits, wall = self._limits(arguments), await self._wall(context)
        with LiveOutput(context.emit) as live:

            def show_news() -> bool:
                chunk, skipped = spool.news(MAX_EVENT_BYTES)
                if chunk:
                    reach("effect_mid")
                    live.feed(chunk, skipped)
                return bool(chunk)

            try:
                async with self._launch(cwd, context, wall) as launch:
                    ended = await run_supervised(
                        arguments.command,
                        cwd,
                        limits,
                        spool,
                        show_news,
                        context.withheld,
                        launch,
                    )
            except OSError as error:
                return _not_run(_start_problem(error, cwd))
            except asyncio.CancelledError:
                changed = await run_to_end(asyncio.to_thread(before.compare))
                raise asyncio.CancelledError(captured(spool.output, True).text, changed) from None
        if ended.is_refused:
            return _not_run("another process took the call over")
        changed = await asyncio.to_thread(before.compare)
        found = await _found(spool.output, context.takes_file)
        if wall is not None and ended.status and (why := failed_at_wall(found.text, cwd)):
            return ToolOutcome("error", found.text, asks=_FAILED_AT_WALL.format(line=why))
        notes = filter(
            None, [advice_on(found.text, ended, self._sandbox_status(context)), self._new_note(before)]
        )
        outcome = outcome_of(found, ended, limits, *notes)
        return replace(outcome, changed=changed)

    async def recover(self, arguments: RunShellCommandArguments, context: ToolContext) -> Recovered:
        from .execution.recovery import recover

        if context.scratch is None:
            return Recovered(None)
        found = await recover(context.scratch, self._limits(arguments), context.takes_file) or Recovered(None)
        if found.is_not_started:
            return found
        changed = await asyncio.to_thread(_left, context, context.scratch)
        if found.outcome is None:
            return replace(found, changed=changed)
        return replace(found, outcome=replace(found.outcome, changed=changed))

    def still_running(self, context: ToolContext) -> Sequence[str]:
        from .execution.recovery import still_running

        return [] if context.scratch is None else still_running(context.scratch)

    async def _wall(self, context: ToolContext) -> Wall | None:
        """Return what holds a command that nothing but a proof lets run; None: nothing does."""
        if not context.is_walled:
            return None
        from .sandbox.wall import Wall, wall_kind

        if self._wall_kind == "best":
            self._wall_kind = await asyncio.to_thread(wall_kind)
        if (kind := self._wall_kind) is None:
            return None
        place = (tuple(map(Path, context.reach.roots)) or (context.cwd,), context.private)
        if place not in self._walls:
            self._walls.clear()
            self._walls[place] = Wall(kind, place[0], Path.home(), place[1])
        return self._walls[place]

    def _launch(
        self, cwd: Path, context: ToolContext, wall: Wall | None
    ) -> AbstractAsyncContextManager[Launch]:
        from .sandbox.launch import NO_SANDBOX

        if wall is not None:
            return wall.launch(cwd)
        if context.in_sandbox and (self._sandbox is None or self._sandbox.has_network):
            return _sandboxed_once(cwd, context)
        if self._sandbox is None:
            return nullcontext(NO_SANDBOX)
        is_approved = context.allowed_by != "policy" and not context.in_sandbox
        return self._sandbox.launch(cwd, is_approved)

    def _sandbox_status(self, context: ToolContext) -> str:
        """Return what a command ran in, in a few words; empty if that was no sandbox."""
        if self._sandbox is not None:
            return self._sandbox.status
        return "network off" if context.in_sandbox else ""

    def _new_note(self, before: FilesBefore) -> str:
        """Return what cannot be undone, the first time that there is anything."""
        if self._has_noted:
            return ""
        self._has_noted = bool(before.note)
        return before.note

    def _limits(self, arguments: RunShellCommandArguments) -> CommandLimits:
        from .execution.spool import CommandLimits

        return CommandLimits(arguments.timeout_s, self._idle_s, self._max_output_bytes)


@asynccontextmanager
async def _sandboxed_once(cwd: Path, context: ToolContext) -> AsyncGenerator[Launch]:
    """Put one command into a sandbox without a network. Raises `OSError` where there is none."""
    from .sandbox.sandbox import Sandbox, SandboxKind, Workplace, sandbox_kind

    kind: SandboxKind | None = await asyncio.to_thread(sandbox_kind)
    if kind is None:
        raise OSError(errno.ENOTSUP, "it may run in a sandbox only, and none works here")
    roots = tuple(map(Path, context.reach.roots)) or (context.cwd,)
    place = Workplace(roots, Path.home(), context.private, temp=context.temp)
    with closing(Sandbox(kind, place)) as sandbox:
        async with sandbox.launch(cwd) as launch:
            yield launch


def _look(context: ToolContext, folder: Path) -> FilesBefore:
    from ...workspace.snapshot import FilesBefore, take_snapshot

    if context.cache is None:
        return FilesBefore()
    is_secret = None if context.masker is None else context.masker.holds_secret
    return take_snapshot(context.cwd, context.cache, folder, context.private, is_secret)


def _left(context: ToolContext, folder: Path) -> FileChanges:
    from ...workspace.snapshot import compare_saved_snapshot

    return NO_FILE_CHANGES if context.cache is None else compare_saved_snapshot(context.cache, folder)


def _folder_of(context: ToolContext, stack: ExitStack) -> Path:
    """Return the folder of this call; without one, a folder that goes with the command."""
    if context.scratch is not None:
        return context.scratch
    folder = tempfile.TemporaryDirectory(prefix="sandbur-", ignore_cleanup_errors=True)
    return Path(stack.enter_context(folder))


async def _found(output: int, takes_file: bool) -> Captured:
    """Read what was written; what is short is read at once, which takes less than to ask a thread for it."""
    from .output import captured

    if os.fstat(output).st_size <= _SHORT_BYTES:
        return captured(output, takes_file)
    return await asyncio.to_thread(captured, output, takes_file)


def _not_run(why: str) -> ToolOutcome:
    return ToolOutcome("error", f"The command was not run: {why}.")


def _start_problem(error: OSError, cwd: Path) -> str:
    if error.errno == errno.E2BIG:
        return "the command line is longer than the system takes; write it to a file and run that"
    if isinstance(error, PermissionError):
        return f"the folder {format_path(cwd)} may not be entered"
    return (error.strerror or str(error)).lower()
