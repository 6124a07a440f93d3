"""`sandbur fork`: starts a new session from a step of another one; can edit the state and restore files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....agent.history.time_travel.branches import apply_edits, restore_files, restore_plan
from ....agent.history.time_travel.restore import Restored, RestorePlan
from ....state.errors import UsageError
from ...chat.decisions.questions import OneKey
from ...cli.open_session import open_runtime
from ...terminal.terminal import is_interactive, put, say
from ...terminal.text.sanitize import one_line
from .command import ForkCommand


async def fork_session(command: ForkCommand) -> int:
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session)
        view = runtime.store.show(session_id, command.at)
        changes = {}
        if command.edits:
            changes = apply_edits(view.state, command.edits)
        seq = view.summary.steps - 1 if command.at is None else command.at
        named = command.overrides.get("cwd") is not None
        folder = runtime.settings.cwd if named else Path(view.settings.cwd)
        if command.files:
            plan = await restore_plan(runtime.store, session_id, seq, [folder])
            await ask_to_restore(plan, folder, command.yes)
        forked = await runtime.fork(session_id, command.at, changes)
        put(forked)
        if command.files:
            for line in format_restored(*await restore_files(runtime.store, session_id, seq, forked, folder)):
                say(line)
    say(f"Continue it with: sandbur -r {forked}")
    return 0


async def ask_to_restore(plan: RestorePlan, folder: Path, is_sure: bool) -> None:
    """Print which files would change, and ask the person. Raises `UsageError` if the answer is no."""
    if is_sure or not plan.steps:
        return
    say(f"These files in {one_line(str(folder))} would change:")
    for step in plan.steps:
        say(f"  {'removed' if step.content is None else 'restored'}: {one_line(str(step.path))}")
    if not is_interactive():
        raise UsageError("Nothing was done: these changes have to be confirmed.", "Add --yes.")

    if (await OneKey("Change them? [y/n] ", "yn", safe="n").ask_alone()).key != "y":
        raise UsageError("Nothing was done.")


def format_restored(plan: RestorePlan, done: Restored) -> Iterator[str]:
    """Yield a line for each file of a restore; the replaced contents are in the store."""
    for paths, what in (
        (done.restored, "restored"),
        (done.recreated, "recreated"),
        (done.removed, "removed"),
    ):
        yield from (f"{what}: {one_line(path)}" for path in paths)
    yield from (f"unchanged: {one_line(path)}: {one_line(reason)}" for path, reason in done.skipped)
    for path in plan.changed_by_others:
        yield f"{one_line(path)} had changes that no call of the session made; they are in the store."
    if not (plan.steps or done.skipped):
        yield "Every file already is as it was at that step."
