"""The tool `apply_trial`: writes the difference of a trial to the original folders."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

from pydantic import Field

from .....actions.ports import BadArguments, Prepared, Tool, ToolContext, ToolOutcome, ToolTraits, Verified
from .....actions.tools.schema import PlainText, ToolArguments, parse_arguments, spec_of
from .....actions.workspace.atomic_write import sync_folder
from .....actions.workspace.content_cache import FileState, read_file_state
from .....actions.workspace.copies.diff_text import count_lines, diff_files, list_change_texts
from .....actions.workspace.copies.difference import Difference
from .....actions.workspace.paths import FileProblem, format_count, format_path_from
from .....state.calls import Effect, FileChange, FileChanges, FingerprintedFile
from .....state.conversation.messages import encodable
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .....state.process.cancellation import wait_until_done
from .....state.process.crashpoints import reach
from ..outcome import keep_originals, read_differences
from ..trial import Trial, TrialPlace, find_trial
from .files import Applied, apply_steps, remove_emptied_folders
from .plan import (
    ApplyPlan,
    Conflict,
    OnConflict,
    digest_differences,
    list_conflict_lines,
    plan_apply,
)
from .record import ApplyRecord, WrittenFiles, begin_record, change_state

NAME = "apply_trial"
_DESCRIPTION = (
    "Write what a sub-agent changed in its copy of the folder to the folder itself. Look at its difference"
    " first. Files that changed meanwhile are not overwritten: nothing is written then, unless `merge` or"
    " `skip_conflicts` is true."
)
_MOST_LISTED = 20
"""The most files that one part of a result names."""
_MOST_DIFF_CHARS = 20_000
_MOST_FILES = 100
"""The most characters of diffs, and the most files, in a question."""


class ApplyArguments(ToolArguments):
    trial: PlainText = Field(description="The id of the trial.")
    merge: bool = Field(
        False, description="Join both changes of a file that changed meanwhile; leave it out if that fails."
    )
    skip_conflicts: bool = Field(False, description="Leave out files that changed meanwhile.")
    ignored: bool = Field(False, description="Also write files that git ignores.")


@dataclass(frozen=True, slots=True)
class ApplyOrder:
    """The parsed arguments of a call. The same difference is judged, approved and applied."""

    trial: Trial
    place: TrialPlace
    differences: tuple[Difference, ...]
    """One for each folder of the trial."""
    on_conflict: OnConflict
    digest: str
    """The SHA-256 of the difference."""
    paths: tuple[str, ...]
    """The absolute path of every file that the call may write, and of every target of a new link."""


class ApplyTool:
    """Implements `Tool`, `Verifiable`, `ShowsChanges` and `Fingerprinted`.

    A call may run again after a crash: it leaves alone what has its new content already.
    """

    effect: Effect = "idempotent"
    spec = spec_of(NAME, _DESCRIPTION, ApplyArguments)

    def __init__(self, home: Path, is_listed: bool = False) -> None:
        """`home` is the data folder. If `is_listed` is false, only a person can call the tool."""
        self._home = home
        self.traits = ToolTraits(
            subject="trial", word="apply", writes_files=True, has_write_rules=True, is_resumable=True,
            is_of_flow=not is_listed,
        )  # fmt: skip

    def parse(self, arguments: str) -> ApplyOrder:
        parsed = parse_arguments(self.spec, ApplyArguments, arguments)
        if parsed.merge and parsed.skip_conflicts:
            raise BadArguments("`merge` and `skip_conflicts` contradict each other: keep one of them.")
        try:
            trial = find_trial(self._home, parsed.trial, Path("/"))
            place = TrialPlace(self._home, trial.id)
            found = tuple(read_differences(place, trial, parsed.ignored))
        except UsageError as problem:
            raise BadArguments(" ".join(filter(None, (problem.message, problem.hint)))) from None
        on_conflict: OnConflict = "merge" if parsed.merge else "skip" if parsed.skip_conflicts else "refuse"
        return ApplyOrder(
            trial, place, found, on_conflict, digest_differences(found), tuple(_list_paths(found))
        )

    def effect_of(self, arguments: ApplyOrder) -> Effect:
        return self.effect

    def subject(self, arguments: ApplyOrder) -> str:
        return arguments.trial.id

    def paths(self, arguments: ApplyOrder) -> Sequence[str]:
        return arguments.paths

    def show_changes(self, arguments: ApplyOrder) -> str:
        """Return the files with their sizes and diffs, in a text of limited size."""
        changes = [change for one in arguments.differences for change in diff_files(one)]
        texts = list_change_texts(changes, _MOST_DIFF_CHARS, _MOST_FILES)
        return "\n".join((f"{count_lines(changes)}:", *texts)) if changes else "It changed no files."

    def take_fingerprints(self, arguments: ApplyOrder) -> Sequence[FingerprintedFile]:
        """Return what an approval depends on: the difference. The call itself compares the files."""
        name = f"the difference of the trial {arguments.trial.id}"
        return (FingerprintedFile(path=name, real=name, content=arguments.digest),)

    async def prepare(self, arguments: ApplyOrder, context: ToolContext) -> Prepared | ToolOutcome:
        return await asyncio.to_thread(_prepare, arguments, context)

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Return `not_done`: the call runs again, and looks at each file itself."""
        return "not_done"

    async def run(self, arguments: ApplyOrder, context: ToolContext) -> ToolOutcome:
        prepared = context.prepared or await self.prepare(arguments, context)
        if isinstance(prepared, ToolOutcome):
            return prepared
        stop = threading.Event()
        work: _Work = prepared.work
        running = asyncio.ensure_future(asyncio.to_thread(work.run, stop.is_set))
        if cancelled := await wait_until_done(running, stop.set):
            # The call stays open, and the next run continues it.
            raise cancelled
        return running.result()

    def describe_stop(self, session_id: str, call_id: str) -> str:
        return (
            "Interrupted: a part of the files may have their new content. Apply the trial again for the rest,"
            " or undo it."
        )


@dataclass(frozen=True, slots=True)
class _Work:
    order: ApplyOrder
    plan: ApplyPlan
    record: ApplyRecord
    cwd: Path
    is_begun: bool
    """Whether an earlier start of the call may have written files."""

    def run(self, is_cancelled: Callable[[], bool]) -> ToolOutcome:
        try:
            with self.order.place.hold():
                return self._run(is_cancelled)
        except UsageError as problem:
            return ToolOutcome("error", f"Nothing was written: {problem.message} {problem.hint}")

    def _run(self, is_cancelled: Callable[[], bool]) -> ToolOutcome:
        place, trial = self.order.place, self.order.trial
        if trial.state == "running":
            # The process of the trial was killed before it kept them. An undo gives the files other times.
            keep_originals(place, trial)
        record = change_state(place.folder, self.record, "writing")
        written = WrittenFiles(place.folder, record.session_id, record.call_id)
        written.begin()
        reach("apply_begun")
        done = apply_steps(self.plan.steps, is_cancelled, written.add)
        if done.is_stopped:
            return ToolOutcome("interrupted", "Stopped.")
        if self.is_begun:
            # The removals of an earlier start of the call.
            gone = {path for path in map(Path, written.load() or ()) if not os.path.lexists(path)}
            roots = [one.root for one in self.order.differences]
            sources = ((path, root) for path in gone for root in roots if root in path.parents)
            for folder in set(remove_emptied_folders(sources)):
                sync_folder(folder)
        reach("apply_written")
        if not done.failed:
            place.save(trial.model_copy(update={"state": "applied"}))
        change_state(place.folder, record, "applied")
        text = "\n".join(_describe(self.order, self.plan, done, self.cwd))
        changed = FileChanges(tuple(self._list_unwritten(done, written.load() or frozenset())))
        return ToolOutcome("error" if done.failed else "ok", text, changed=changed)

    def _list_unwritten(self, done: Applied, written: Set[str]) -> Iterator[FileChange]:
        """Yield the recorded changes that were not made, as changes from the present state to itself."""
        # An earlier start of the call may have planned what is left out now.
        for conflict in (*done.failed, *(self.plan.conflicts if self.is_begun else ())):
            if str(conflict.path) in written or encodable(str(conflict.path)) != str(conflict.path):
                continue
            try:
                now = read_file_state(conflict.path)
            except (OSError, FileProblem):
                now = FileState()
            yield FileChange(
                path=str(conflict.path), before=now.digest, before_mode=now.mode,
                after=now.digest, after_mode=now.mode,
            )  # fmt: skip


def _prepare(order: ApplyOrder, context: ToolContext) -> Prepared | ToolOutcome:
    folder = order.place.folder
    session_id, call_id = context.session_id, context.call_id
    known = ApplyRecord.load(folder)
    if known is not None and (session_id, call_id) in known.taken_back:
        return ToolOutcome(
            "error",
            "Nothing was written: an undo took this apply back. Apply the trial again for it.",
        )
    is_again = known is not None and known.is_of(session_id, call_id)
    # What was begun is finished: then a file that changed meanwhile is left out.
    is_begun = known is not None and is_again and known.state in ("writing", "applied")
    on_conflict: OnConflict = "skip" if is_begun and order.on_conflict == "refuse" else order.on_conflict
    earlier = known.load_merges(folder) if known is not None and is_again else {}
    holds_secret = None if context.masker is None else context.masker.holds_secret
    plan = plan_apply(order.differences, on_conflict, earlier, holds_secret)
    if plan.conflicts and on_conflict == "refuse":
        return ToolOutcome("error", "\n".join(_refuse(order, plan, context.cwd)))
    if not plan.steps and not is_begun:
        return ToolOutcome("ok", "\n".join(_describe(order, plan, Applied(), context.cwd)))
    try:
        record = begin_record(folder, session_id, call_id, plan)
    except (OSError, FileProblem) as problem:
        return ToolOutcome("error", f"Nothing was written: the trial's folder cannot be written ({problem}).")
    pre_images = {
        step.now.digest: step.now.content
        for step in plan.steps
        if step.now.digest is not None and step.now.content is not None
    }
    work = _Work(order, plan, record, context.cwd, is_begun)
    return Prepared(tuple(step.change for step in plan.steps), pre_images, work)


def _list_paths(differences: Sequence[Difference]) -> list[str]:
    found: list[str] = []
    for one in differences:
        for file in one.files:
            path = one.root / file.path
            found.append(str(path))
            if file.source is not None and file.after_mode is not None and stat.S_ISLNK(file.after_mode):
                # A later write through the link would change its target.
                found.append(os.path.normpath(path.parent / _read_target(file.source)))
    return found


def _read_target(link: Path) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 -- a Path would not keep the exact text
    except OSError:
        return ""


def _refuse(order: ApplyOrder, plan: ApplyPlan, cwd: Path) -> list[str]:
    count = format_count(len(plan.conflicts), "file")
    return [
        f"Nothing was written: {count} of the trial {order.trial.id} cannot simply be applied.",
        *_list_conflicts(plan.conflicts, cwd),
        "Merge the changes (--merge), or leave these files out (--skip-conflicts).",
    ]


def _describe(order: ApplyOrder, plan: ApplyPlan, done: Applied, cwd: Path) -> list[str]:
    counts = [
        f"{format_count(number, 'file')} {what}"
        for number, what in ((done.added, "added"), (done.changed, "changed"), (done.removed, "removed"))
        if number
    ]
    lines = [f"Applied the trial {order.trial.id}: {', '.join(counts) or 'nothing was left to write'}."]
    if plan.done:
        lines.append(f"{format_count(plan.done, 'file')} had the new content already.")
    if plan.merged:
        lines.append(f"Merged with changes made meanwhile: {_join_names(plan.merged, cwd)}.")
    if plan.conflicts:
        lines += ["Left out:", *_list_conflicts(plan.conflicts, cwd)]
    if done.failed:
        lines += ["Not written:", *_list_conflicts(done.failed, cwd)]
    if plan.not_undoable:
        lines.append(f"An undo does not restore: {_join_names(plan.not_undoable, cwd)}.")
    return lines


def _list_conflicts(conflicts: Sequence[Conflict], cwd: Path) -> list[str]:
    lines = [f"  {line}" for line in list_conflict_lines(conflicts[:_MOST_LISTED], cwd)]
    more = len(conflicts) - len(lines)
    return [*lines, *([f"  and {more} more"] if more else [])]


def _join_names(paths: Sequence[Path], cwd: Path) -> str:
    names = [format_path_from(path, cwd) for path in paths[:_MOST_LISTED]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


class ApplySource:
    """Implements `actions.ports.ToolSource`: it provides the tool `apply_trial`."""

    name = "trials"

    def __init__(self, home: Path, is_listed: bool) -> None:
        """The arguments are those of `ApplyTool`."""
        self._tool = ApplyTool(home, is_listed)

    async def tools(self) -> Sequence[Tool]:
        return (self._tool,)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the tool holds no resources."""
