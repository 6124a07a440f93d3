"""A planned write: it is recorded before it happens and can be verified after a crash."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....state.calls import FileChange
from ....state.conversation.messages import encodable
from ....state.process.cancellation import wait_until_done
from ...ports import Prepared, ToolOutcome, Verified
from ...workspace.atomic_write import find_missing_folders, remove_leftovers, replace_content
from ...workspace.content_cache import digest_of, format_large_version, read_file_state
from ...workspace.paths import FileProblem, FileStat, format_path
from ...workspace.text import FileText


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The bytes to write, and the version of the file they were made for."""

    target: Path
    content: bytes
    expected: FileStat | None
    report: Callable[[os.stat_result | None], str]
    """Returns the text for the model from the old version of the file."""


async def prepare_in_thread(plan: Callable[[], Prepared]) -> Prepared | ToolOutcome:
    """Return the plan, or why there is none."""
    try:
        return await asyncio.to_thread(plan)
    except FileProblem as error:
        return ToolOutcome("error", str(error))


def plan_write(
    target: Path, old: FileText | None, content: bytes, report: Callable[[os.stat_result | None], str]
) -> Prepared:
    """Describe the replacement of `old`, or of nothing, by `content`."""
    before = None if old is None else digest_of(old.content)
    change = FileChange(
        path=_recordable(target),
        before=before,
        before_mode=None if old is None else old.mode,
        after=digest_of(content),
        after_mode=None if old is None else old.mode,
        new_folders=len(find_missing_folders(target)),
    )
    work = PlannedWrite(target, content, None if old is None else old.version, report)
    return Prepared((change,), {} if old is None or before is None else {before: old.content}, work)


async def write_planned(prepared: Prepared | ToolOutcome) -> ToolOutcome:
    """Write exactly the planned bytes, unless the file has changed since."""
    if isinstance(prepared, ToolOutcome):
        return prepared
    work = prepared.work
    if not isinstance(work, PlannedWrite):
        raise TypeError("this call was prepared by another tool")
    outcome = await run_in_thread(
        lambda: work.report(replace_content(work.target, work.content, work.expected))
    )
    if outcome.outcome != "ok":
        return outcome
    return replace(outcome, seen={change.path: change.after or "" for change in prepared.changes})


async def run_in_thread(work: Callable[[], str]) -> ToolOutcome:
    """Return the result of `work`, or its problem; a cancellation waits until the work has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(_outcome, work))
    if await wait_until_done(running):
        # A thread cannot be stopped. Its result is reported rather than left open.
        raise asyncio.CancelledError(running.result().content)
    return running.result()


def _outcome(work: Callable[[], str]) -> ToolOutcome:
    try:
        return ToolOutcome("ok", work())
    except FileProblem as error:
        return ToolOutcome("error", str(error))


def check_version(prepared: Prepared, known: Mapping[str, str], name: str) -> ToolOutcome | None:
    """Return why a file may not be replaced as a whole: it is not the one that was read."""
    work, [change] = prepared.work, prepared.changes
    if not isinstance(work, PlannedWrite) or work.expected is None or change.before == change.after:
        return None
    version = known.get(change.path)
    if version in (None, change.before, format_large_version(work.expected.size, work.expected.modified_ns)):
        return None
    return ToolOutcome("error", f"{name} has changed since you read it: nothing was written. Read it again.")


async def verify_write(changes: Sequence[FileChange]) -> Verified:
    """Determine from the files whether a write happened, and remove the temporary file of one that did
    not."""
    return await asyncio.to_thread(_verify, changes)


def _verify(changes: Sequence[FileChange]) -> Verified:
    found: set[Verified] = {_verify_change(change) for change in changes}
    for folder in {Path(change.path).parent for change in changes}:
        remove_leftovers(folder)
    return found.pop() if len(found) == 1 else "unknown"


def _verify_change(change: FileChange) -> Verified:
    now = read_file_state(Path(change.path))
    if now.digest is not None and now.digest == change.after:
        return "done"
    is_as_before = now.version is None if change.before_mode is None else now.digest == change.before
    return "not_done" if is_as_before and change.is_restorable else "unknown"


def _recordable(path: Path) -> str:
    text = str(path)
    if encodable(text) != text:
        raise FileProblem(
            f"{format_path(path)} cannot be written: its name is no valid UTF-8, so that the change could not"
            " be recorded. Use a shell command."
        )
    return text
