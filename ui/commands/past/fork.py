"""`sandbur fork`: a new session from a step of another, with an edited state and the files of then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ....state.errors import UsageError
from ...cli.argument_types import edit, position
from ...cli.grammar import ID, Command, flag, switch, word
from ...cli.open_session import opened
from ...terminal.terminal import is_interactive, put, say
from ...terminal.text.sanitize import one_line

if TYPE_CHECKING:
    from ....agent.history.time_travel.restore import Restored, RestorePlan


class ForkCommand(Command):
    session: str = word("ID", ID)
    at: int | None = flag(
        "--at", "the step to fork from; the last one if left out", type=position, metavar="SEQ"
    )
    edits: tuple[str, ...] = flag(
        "--set", "change the state at that step; repeatable", (), action="append", type=edit,
        metavar="PATH=VALUE",
    )  # fmt: skip
    """PATH=VALUE each."""
    files: bool = switch(
        "--files", "bring the files in the session's folder, or -C DIR, back to what they were"
    )
    yes: bool = switch("--yes", "with --files: change them unasked")

    def check(self) -> None:
        if self.yes and not self.files:
            raise UsageError("--yes goes with --files.")

    async def run(self) -> int:
        async with opened(self) as runtime:
            session_id = runtime.store.find(self.session)
            view = runtime.store.show(session_id, self.at)
            changes = {}
            if self.edits:
                from ....agent.history.time_travel.branches import edited

                changes = edited(view.state, self.edits)
            seq = view.summary.steps - 1 if self.at is None else self.at
            named = self.said.get("cwd") is not None
            folder = runtime.settings.cwd if named else Path(view.settings.cwd)
            if self.files:
                await agreed(await runtime.restore_plan(session_id, seq, folder), folder, self.yes)
            forked = await runtime.fork(session_id, self.at, changes)
            put(forked)
            if self.files:
                for line in restored_lines(*await runtime.restore_files(session_id, seq, forked, folder)):
                    say(line)
        say(f"Go on with it: sandbur -r {forked}")
        return 0


async def agreed(plan: RestorePlan, folder: Path, is_sure: bool) -> None:
    """Show which files would change and ask; raises `UsageError` unless the person wants that."""
    if is_sure or not plan.steps:
        return
    say(f"These files in {one_line(str(folder))} would change:")
    for step in plan.steps:
        say(f"  {'goes' if step.content is None else 'is brought back'}: {one_line(str(step.path))}")
    if not is_interactive():
        raise UsageError("Nothing was done: these changes have to be confirmed.", "Add --yes.")
    from ...chat.decisions.questions import OneKey

    if (await OneKey("Change them? [y/n] ", "yn", safe="n").ask_alone()).key != "y":
        raise UsageError("Nothing was done.")


def restored_lines(plan: RestorePlan, done: Restored) -> Iterator[str]:
    """Yield what happened to each file; what was there before is in the store."""
    for paths, what in ((done.restored, "as it was"), (done.recreated, "is back"), (done.removed, "removed")):
        yield from (f"{what}: {one_line(path)}" for path in paths)
    yield from (f"left alone: {one_line(path)}: {one_line(reason)}" for path, reason in done.skipped)
    for path in plan.changed_by_others:
        yield f"{one_line(path)} held changes that no call of the session made; they are in the store."
    if not (plan.steps or done.skipped):
        yield "Every file is as it was then."
