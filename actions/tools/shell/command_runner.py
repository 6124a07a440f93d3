"""Runs a shell command for its tool: prepares its sandbox or wall, reads its output, and finds
changed files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from ....state.calls import NO_FILE_CHANGES, FileChanges
from ....state.process.cancellation import run_to_end
from ....state.process.crashpoints import reach
from ...ports import Recovered, ToolContext, ToolOutcome
from ...workspace.paths import FileProblem, format_path, make_absolute, require_folder
from ...workspace.snapshot import FilesBefore, compare_saved_snapshot, take_snapshot
from .command_output import MAX_EVENT_BYTES, Captured, LiveOutput, capture, outcome_of
from .execution.command_recovery import recover, still_running
from .execution.process import run_supervised, shell_words
from .execution.spool import CommandLimits, Spool, provide_folder
from .execution.supervisor_pool import prepare
from .failure_hints import advice_on
from .language.scripts import files_named
from .read_only import is_read_only
from .sandbox.launch import NO_SANDBOX, Launch
from .sandbox.sandbox import Sandbox, SandboxKind, Workplace, sandbox_kind
from .sandbox.wall import Wall, WallKind, find_wall_failure, wall_kind

_SHORT_BYTES = 8192

_FAILED_AT_WALL = (
    "it only reads, but it failed in the read-only view in which such commands run unasked ({line});"
    " once approved, it runs again without that view"
)


class CommandArguments(Protocol):
    """The arguments of a call that a command uses."""

    command: str
    cwd: str | None
    timeout_s: int


class CommandRunner:
    """Runs commands under supervisors, analyses commands, and finds the outcome of commands whose
    agent died.
    """

    def __init__(
        self,
        idle_s: float,
        max_output_bytes: int,
        sandbox: Sandbox | None,
        wall: WallKind | Literal["best"],
    ) -> None:
        self._idle_s = idle_s
        self._max_output_bytes = max_output_bytes
        self._sandbox = sandbox
        self._has_noted = False
        self._wall_kind: WallKind | Literal["best"] | None = wall
        self._walls: dict[object, Wall] = {}

    is_read_only = staticmethod(is_read_only)
    files_named = staticmethod(files_named)

    async def run(self, arguments: CommandArguments, context: ToolContext) -> ToolOutcome:
        try:
            cwd = require_folder(make_absolute(arguments.cwd or ".", context.cwd))
        except FileProblem as error:
            return ToolOutcome("error", f"The command was not run: {error}")
        # While the supervisor starts, the folder is created and files are checked.
        prepare()
        with ExitStack() as stack:
            try:
                folder = provide_folder(context.scratch, stack)
                spool = stack.enter_context(Spool(folder, secrets.token_hex(8)))
            except OSError as error:
                return _report_refusal(f"its output cannot be kept: {(error.strerror or str(error)).lower()}")
            before = FilesBefore()
            if not is_read_only(arguments.command):
                before = await asyncio.to_thread(_snapshot_before, context, spool.folder)
            return await self._run(arguments, cwd, spool, before, context)

    async def _run(
        self,
        arguments: CommandArguments,
        cwd: Path,
        spool: Spool,
        before: FilesBefore,
        context: ToolContext,
    ) -> ToolOutcome:
        limits, wall = self._limits(arguments), await self._choose_wall(context)
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
                        shell_words(arguments.command),
                        cwd,
                        limits,
                        spool,
                        show_news,
                        context.withheld,
                        launch,
                    )
            except OSError as error:
                return _report_refusal(_start_problem(error, cwd))
            except asyncio.CancelledError:
                changed = await run_to_end(asyncio.to_thread(before.compare))
                raise asyncio.CancelledError(capture(spool.output, True).text, changed) from None
        if ended.is_refused:
            return _report_refusal("another process took the call over")
        changed = await asyncio.to_thread(before.compare)
        found = await _read_output(spool.output, context.takes_file)
        if wall is not None and ended.status and (why := find_wall_failure(found.text, cwd)):
            return ToolOutcome("error", found.text, asks=_FAILED_AT_WALL.format(line=why))
        has_failed = bool(ended.status or ended.reason)
        advice = advice_on(found.text, self._sandbox_status(context)) if has_failed else ""
        notes = filter(None, [advice, self._take_note(before)])
        outcome = outcome_of(found, ended, limits, *notes)
        return replace(outcome, changed=changed)

    async def recover(self, arguments: CommandArguments, context: ToolContext) -> Recovered:

        if context.scratch is None:
            return Recovered(None)
        found = await recover(context.scratch, self._limits(arguments), context.takes_file) or Recovered(None)
        if found.is_not_started:
            return found
        changed = await asyncio.to_thread(_compare_with_saved, context, context.scratch)
        if found.outcome is None:
            return replace(found, changed=changed)
        return replace(found, outcome=replace(found.outcome, changed=changed))

    def still_running(self, context: ToolContext) -> Sequence[str]:

        return [] if context.scratch is None else still_running(context.scratch)

    async def _choose_wall(self, context: ToolContext) -> Wall | None:
        """Return the wall for a command that runs only because it is proved to be read-only, or None for
        other commands.
        """
        if not context.is_walled:
            return None

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

        if wall is not None:
            return wall.launch(cwd)
        if context.in_sandbox and (self._sandbox is None or self._sandbox.has_network):
            return _open_sandbox_once(cwd, context)
        if self._sandbox is None:
            return nullcontext(NO_SANDBOX)
        is_approved = context.allowed_by != "policy" and not context.in_sandbox
        return self._sandbox.launch(cwd, is_approved)

    def _sandbox_status(self, context: ToolContext) -> str:
        """Return the sandbox of a command in a few words; empty if it had none."""
        if self._sandbox is not None:
            return self._sandbox.status
        return "network off" if context.in_sandbox else ""

    def _take_note(self, before: FilesBefore) -> str:
        """Return a note about what cannot be undone, only once per session; empty if everything can."""
        if self._has_noted:
            return ""
        self._has_noted = bool(before.note)
        return before.note

    def _limits(self, arguments: CommandArguments) -> CommandLimits:

        return CommandLimits(arguments.timeout_s, self._idle_s, self._max_output_bytes)


@asynccontextmanager
async def _open_sandbox_once(cwd: Path, context: ToolContext) -> AsyncGenerator[Launch]:
    """Prepare one command that runs in a sandbox without a network. Raises `OSError` if no sandbox works."""

    kind: SandboxKind | None = await asyncio.to_thread(sandbox_kind)
    if kind is None:
        raise OSError(errno.ENOTSUP, "it may only run in a sandbox, and no sandbox works here")
    roots = tuple(map(Path, context.reach.roots)) or (context.cwd,)
    place = Workplace(roots, Path.home(), context.private, temp=context.temp)
    with closing(Sandbox(kind, place)) as sandbox:
        async with sandbox.launch(cwd) as launch:
            yield launch


def _snapshot_before(context: ToolContext, folder: Path) -> FilesBefore:
    if context.cache is None:
        return FilesBefore()
    is_secret = None if context.masker is None else context.masker.holds_secret
    return take_snapshot(context.cwd, context.cache, folder, context.private, is_secret)


def _compare_with_saved(context: ToolContext, folder: Path) -> FileChanges:
    return NO_FILE_CHANGES if context.cache is None else compare_saved_snapshot(context.cache, folder)


async def _read_output(output: int, takes_file: bool) -> Captured:
    """Return the output. A short output is read directly, because this is faster than a thread."""

    if os.fstat(output).st_size <= _SHORT_BYTES:
        return capture(output, takes_file)
    return await asyncio.to_thread(capture, output, takes_file)


def _report_refusal(why: str) -> ToolOutcome:
    return ToolOutcome("error", f"The command was not run: {why}.")


def _start_problem(error: OSError, cwd: Path) -> str:
    if error.errno == errno.E2BIG:
        return "the command line is longer than the system allows; write it to a file and run that"
    if isinstance(error, PermissionError):
        return f"the folder {format_path(cwd)} may not be entered"
    return (error.strerror or str(error)).lower()
