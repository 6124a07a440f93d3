"""The steps of a session as lines for people and as JSON for programs."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ui.sanitize import one_line
from ui.times import local_time

if TYPE_CHECKING:
    from state.store.timeline import TimelineStep

SIGNS = {"message": "you: ", "command": "you: ", "reply": "agent: "}


def step_lines(steps: "Iterable[TimelineStep]", session_id: str) -> Iterator[str]:
    """Yield a line for each step; `sandbur fork ID --at` takes the number in front."""
    owner = session_id
    for step in steps:
        if step.session_id != owner:
            whose = "its own steps" if step.session_id == session_id else "steps it was forked from"
            yield f"({whose}: {step.session_id})"
            owner = step.session_id
        yield step_line(step)


def step_line(step: "TimelineStep") -> str:
    text = f"{SIGNS.get(step.kind, '')}{one_line(step.text)}"
    return f"{step.seq:>5}  {local_time(step.at)}  {one_line(step.action):<20} {text}".rstrip()


def step_objects(steps: "Iterable[TimelineStep]") -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]
