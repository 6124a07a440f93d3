"""Finds the stretches of a session that were work on one step of its plan."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from agent.tracking.recording import RecordedStep


class Stretch(NamedTuple):
    """The steps from index `first` to before `end`."""

    name: str
    """The step's id; a later plan that counts from 1 again gets `1.2` and so on."""
    first: int
    end: int


def stretches(steps: Sequence[RecordedStep]) -> list[Stretch]:
    """Return the work on each step of the plan, in the order in which it was done."""
    found: list[Stretch] = []
    used: Counter[str] = Counter()
    began: tuple[str, int] | None = None
    for index, step in enumerate(steps):
        now, before = step.after.get("active_step_id"), step.before.get("active_step_id")
        if began is not None and now != began[0]:
            # The step that closes it still works on it.
            is_closing = before == began[0] and now is None
            found.append(_stretch(used, *began, index + is_closing))
            began = None
        if began is None and now is not None:
            began = now, index
    if began is not None:
        found.append(_stretch(used, *began, len(steps)))
    return found


def _stretch(used: Counter[str], step_id: str, first: int, end: int) -> Stretch:
    used[step_id] += 1
    count = used[step_id]
    return Stretch(step_id if count == 1 else f"{step_id}.{count}", first, end)
