"""`sandbur fork`: a new session from a step of another, with an edited state and the files of then."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..arguments import Arguments
from ..open_session import opened
from ..terminal.sanitize import one_line
from ..terminal.terminal import put, say

if TYPE_CHECKING:
    from ...agent.history.time_travel.restore import Restored, RestorePlan


async def fork_session(arguments: Arguments) -> int:
    async with opened(arguments) as runtime:
        session_id = runtime.store.find(arguments.session)
        view = runtime.store.show(session_id, arguments.at)
        changes = {}
        if arguments.edits:
            from ...agent.history.time_travel.branches import edited

            changes = edited(view.state, arguments.edits)
        forked = await runtime.fork(session_id, arguments.at, changes)
        put(forked)
        if arguments.files:
            seq = view.summary.steps - 1 if arguments.at is None else arguments.at
            for line in restored_lines(*await runtime.restore_files(session_id, seq, forked)):
                say(line)
    say(f"Go on with it: sandbur -r {forked}")
    return 0


def restored_lines(plan: "RestorePlan", done: "Restored") -> Iterator[str]:
    """Yield what happened to each file; what was there before is in the store."""
    for paths, what in ((done.restored, "as it was"), (done.recreated, "is back"), (done.removed, "removed")):
        yield from (f"{what}: {one_line(path)}" for path in paths)
    yield from (f"left alone: {one_line(path)}: {one_line(reason)}" for path, reason in done.skipped)
    for path in plan.changed_by_others:
        yield f"{one_line(path)} held changes that no call of the session made; they are in the store."
    if not (plan.steps or done.skipped):
        yield "Every file is as it was then."
