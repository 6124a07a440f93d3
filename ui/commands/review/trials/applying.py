"""`sandbur try apply` and `undo`: write the changes of a trial to the original, and take them back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .....actions.ports.events import Event, RunFinished, ToolFinished
from .....actions.workspace.copies.diff_text import count_lines, diff_files
from .....actions.workspace.copies.difference import Difference
from .....actions.workspace.paths import format_count, format_path
from .....agent.config.load import load_settings
from .....agent.config.settings import Overrides
from .....agent.history.time_travel.branches import restore_files, restore_plan
from .....agent.history.time_travel.restore import RestorePlan, Skipped
from .....agent.review.trials.applying.plan import ApplyPlan, OnConflict, list_conflict_lines, plan_apply
from .....agent.review.trials.applying.record import ApplyRecord, WrittenFiles, change_state, forbid_calls
from .....agent.review.trials.applying.tool import NAME
from .....agent.review.trials.outcome import read_differences, read_folder_modes
from .....agent.review.trials.trial import Trial, TrialPlace, find_trial
from .....agent.runtime.runtime import Runtime
from .....agent.session.decisions import make_decision
from .....agent.session.session import Session
from .....state.errors import UsageError
from ....cli.open_session import read_overrides, tell_notice
from ....headless.headless import explain, resume_line
from ....terminal.drive import drive
from ....terminal.line_question import confirm
from ....terminal.terminal import is_interactive, put, say
from ....terminal.text.sanitize import one_line, plain
from ...past.fork import format_restored
from .report import file_lines, note_lines

if TYPE_CHECKING:
    from .command import TryCommand

_NOT_REACHED = 4
"""The exit code if not everything was applied."""
_MOST_LINES = 50
"""The most files that one part of a question names."""


async def apply(command: TryCommand) -> int:
    """Apply the changes of a trial to the original, after a question; return the exit code."""
    settings = load_settings(read_overrides(command), os.environ)
    trial = find_trial(settings.home, command.trial, settings.cwd)
    return await apply_changes(command, trial, command.yes)


async def apply_changes(command: TryCommand, trial: Trial, is_agreed: bool) -> int:
    """Apply the changes of a trial; return the exit code. Without `is_agreed`, a person is asked.

    The call is recorded in a session of its own. If an earlier one was interrupted, it is continued.
    """
    runtime = Runtime.open(_make_overrides(command, trial), os.environ, tell_notice)
    place = TrialPlace(runtime.settings.home, trial.id)
    try:
        if (session := await _reopen(runtime, place)) is not None:
            say(f"An earlier apply of trial {trial.id} was interrupted. It goes on.")
            return await _run(session, session.carry_on(), is_agreed)
        session = await runtime.create(or_demo=True)
        found = await asyncio.to_thread(read_differences, place, trial, command.ignored)
        if not any(one.files for one in found):
            say(f"Trial {trial.id} changed no files.")
            return 0
        treatment: OnConflict = "merge" if command.merge else "skip" if command.skip_conflicts else "refuse"
        holds_secret = session.ports.masker.holds_secret
        plan = await asyncio.to_thread(plan_apply, found, treatment, None, holds_secret)
        for line in describe_plan(found, plan, treatment):
            say(line)
        if plan.conflicts and treatment == "refuse":
            say("Nothing was written. Add --merge to join the changes, or --skip-conflicts.")
            return _NOT_REACHED
        if plan.steps and not is_agreed:
            _ask(trial, plan)
        arguments = {
            "trial": trial.id,
            "merge": command.merge,
            "skip_conflicts": command.skip_conflicts,
            "ignored": command.ignored,
        }
        events = session.run_tool(NAME, json.dumps(arguments), f"Apply trial {trial.id}")
        code = await _run(session, events, is_agreed)
        return code or (_NOT_REACHED if plan.conflicts and treatment == "merge" else 0)
    finally:
        await runtime.aclose()


def _make_overrides(command: TryCommand, trial: Trial) -> Overrides:
    """Return the settings of a session that works in the originals of all folders of a trial."""
    kept = {key: value for key, value in read_overrides(command).items() if key in ("store", "allow", "deny")}
    others = (Path(one.root) for one in trial.folders if not Path(trial.cwd).is_relative_to(one.root))
    return {**kept, "cwd": Path(trial.cwd), "add_dirs": tuple(others), "mode": "interactive"}


async def _reopen(runtime: Runtime, place: TrialPlace) -> Session | None:
    """Return the session of an apply that was interrupted, or None if there is none."""
    record = ApplyRecord.load(place.folder)
    if record is None or record.state not in ("planned", "writing"):
        return None
    if (record.session_id, record.call_id) in record.taken_back:
        return None
    if not runtime.store.index.exists(record.session_id):
        return None
    pending = runtime.store.show(record.session_id).state.pending_tool_calls
    if not any(call.call_id == record.call_id for call in pending):
        return None
    return await runtime.resume(record.session_id)


def describe_plan(found: Sequence[Difference], plan: ApplyPlan, treatment: OnConflict) -> Iterator[str]:
    """Yield what an apply would do, and what it would not."""
    for difference in found:
        changes = list(diff_files(difference))
        if changes:
            yield f"{format_path(difference.root)}: {count_lines(changes)}"
            yield from file_lines(changes, _MOST_LINES)
    yield from note_lines(found)
    root = found[0].root
    if plan.conflicts:
        yield "These cannot be applied:" if treatment == "refuse" else "These are left out:"
        yield from _cap([f"  {one_line(line)}" for line in list_conflict_lines(plan.conflicts, root)])
    if plan.merged:
        yield "These were changed meanwhile, and both changes are joined:"
        yield from _cap([f"  {format_path(path)}" for path in plan.merged])
    if plan.not_undoable:
        yield "These cannot be brought back by an undo, because they are too large or hold secrets:"
        yield from _cap([f"  {format_path(path)}" for path in plan.not_undoable])


def _cap(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  and {len(lines) - _MOST_LINES} more"


def _ask(trial: Trial, plan: ApplyPlan) -> None:
    """Ask a person to confirm an apply. Raises `UsageError` if the answer is no."""
    if not is_interactive():
        raise UsageError("Nothing was written: the changes have to be confirmed.", "Add --yes.")
    if not confirm(f"Write {format_count(len(plan.steps), 'file')} in {one_line(trial.cwd)}?"):
        raise UsageError("Nothing was written.", f"`sandbur try diff {trial.id}` shows the changes.")


class _ResultView:
    """Keeps the result of the call, and shows nothing."""

    def __init__(self) -> None:
        self.result: ToolFinished | None = None

    def show(self, event: Event) -> None:
        if isinstance(event, ToolFinished):
            self.result = event

    def tick(self) -> None:
        pass


async def _run(session: Session, events: AsyncIterator[Event], is_agreed: bool) -> int:
    """Run the call to its end, print its result, and return the exit code.

    A person in a terminal is asked about a protected place at once.
    """
    view = _ResultView()
    finished = await _drive(session, events, view)
    waiting = session.state.calls_to_decide
    if finished.exit_code == 3 and waiting and is_interactive() and not is_agreed:
        say(f"This needs your approval: {one_line(waiting[0].reason)}.")
        answer = "approve" if confirm("Apply it nevertheless?") else "deny"
        decisions = [make_decision(call.call_id, answer) for call in waiting]
        finished = await _drive(session, session.decide(decisions), view)
    if view.result is not None:
        put(plain(view.result.content))
    if finished.exit_code:
        explain(finished, session)
        return finished.exit_code
    say(f"Undo it with: sandbur try undo, or with /undo in: sandbur -r {session.id}")
    return 0 if view.result is not None and view.result.outcome == "ok" else _NOT_REACHED


async def _drive(session: Session, events: AsyncIterator[Event], view: _ResultView) -> RunFinished:
    finished, _ = await drive(session, events, view, leave=lambda: say(resume_line(session)))
    return finished


async def undo(command: TryCommand) -> int:
    """Take the applied changes of a trial back, after a question; return the exit code."""
    settings = load_settings(read_overrides(command), os.environ)
    trial = find_trial(settings.home, command.trial, settings.cwd)
    place = TrialPlace(settings.home, trial.id)
    record = ApplyRecord.load(place.folder)
    calls = () if record is None else record.calls
    if record is None or record.state == "undone" or not calls:
        raise UsageError(f"Trial {trial.id} is not applied, so there is nothing to take back.")
    runtime = Runtime.open(_make_overrides(command, trial), os.environ, tell_notice)
    try:
        plans = [await _plan_undo(runtime, trial, place, *call) for call in calls]
        if not command.yes:
            _ask_to_undo(plans)
        # A session with an interrupted apply would go on with it.
        record = forbid_calls(place.folder, record)
        skipped = [await _restore(runtime, trial, place, *call) for call in calls]
    finally:
        await runtime.aclose()
    if any(skipped):
        say("Not all is taken back. When the reason is gone, run the command again.")
        return _NOT_REACHED
    change_state(place.folder, record, "undone")
    if trial.state == "applied":
        place.save(trial.model_copy(update={"state": "ended"}))
    return 0


async def _restore(
    runtime: Runtime, trial: Trial, place: TrialPlace, session_id: str, call_id: str
) -> Sequence[Skipped]:
    """Take back one call, print what became of each file, and return the files that were skipped."""
    plan, done = await restore_files(
        runtime.store, session_id, -1, session_id, call_id=call_id, own=_list_roots(trial),
        written=WrittenFiles(place.folder, session_id, call_id).load(),
        folder_modes=await asyncio.to_thread(read_folder_modes, place, trial),
    )  # fmt: skip
    for line in format_restored(plan, done):
        say(line)
    return done.skipped


async def _plan_undo(
    runtime: Runtime, trial: Trial, place: TrialPlace, session_id: str, call_id: str
) -> RestorePlan:
    if not runtime.store.index.exists(session_id):
        raise UsageError(
            f"The session {session_id} that applied trial {trial.id} is deleted, and with it the earlier"
            " contents of the files."
        )
    written = WrittenFiles(place.folder, session_id, call_id).load()
    return await restore_plan(runtime.store, session_id, -1, _list_roots(trial), call_id, written)


def _list_roots(trial: Trial) -> list[Path]:
    return [Path(one.root) for one in trial.folders if not one.is_repository]


def _ask_to_undo(plans: Sequence[RestorePlan]) -> None:
    """Ask a person to confirm an undo. Raises `UsageError` if the answer is no."""
    lines = [
        f"  {'removed' if step.content is None else 'restored'}: {format_path(step.path)}"
        for plan in plans
        for step in plan.steps
    ]
    foreign = [path for plan in plans for path in plan.changed_by_others]
    left_out = [one for plan in plans for one in plan.skipped]
    if left_out:
        say("These files stay as they are:")
        reasons = [f"  {format_path(one.path)}: {one_line(one.reason)}" for one in left_out]
        for line in _cap(reasons):
            say(line)
    if not lines:
        return
    say("These files change:")
    for line in _cap(lines):
        say(line)
    if foreign:
        say("These were changed after the apply; their present contents are kept in the store:")
        for line in _cap([f"  {format_path(path)}" for path in foreign]):
            say(line)
    if not is_interactive():
        raise UsageError("Nothing was done: the changes have to be confirmed.", "Add --yes.")
    if not confirm("Take the changes back?"):
        raise UsageError("Nothing was done.")
