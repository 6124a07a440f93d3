"""Compares the state behind a step with the recorded one, field by field, histories by what they say."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from pydantic import BaseModel

from agent.replay.states import RecordedLogs, Values
from state.application import ApplicationState
from state.messages import Message, ToolResult
from state.plan import VibeStep
from state.transcript import Span, Transcript

UNREPEATABLE = ("duration_ms",)
"""What no second run of a call gives again; left out of every comparison."""


class Difference(NamedTuple):
    """One value that is not the same; None: it is not there at all."""

    path: str
    recorded: Any
    today: Any


def differences(recorded: Values, today: Values, logs: RecordedLogs) -> list[Difference]:
    """Return what differs; values are as JSON has them."""
    found: list[Difference] = []
    for name in ApplicationState.model_fields:
        old, new = recorded[name], today[name]
        if old is new:
            continue
        if isinstance(old, Transcript):
            found += _in_histories(name, old, new, logs)
        elif name == "vibe_plan":
            found += _in_plans(name, old, new, logs)
        elif old != new:
            found += between(name, _json(old), _json(new))
    return found


def _in_plans(
    name: str, old: tuple[VibeStep, ...], new: tuple[VibeStep, ...], logs: RecordedLogs
) -> Iterator[Difference]:
    for at in range(max(len(old), len(new))):
        path = f"{name}[{at}]"
        left, right = old[at : at + 1], new[at : at + 1]
        if not left or not right:
            yield from between(path, *(_json(side[0]) if side else None for side in (left, right)))
        elif left[0] is not right[0]:
            apart = {"chat_history": Transcript()}
            yield from between(path, *(_json(side[0].model_copy(update=apart)) for side in (left, right)))
            histories = left[0].chat_history, right[0].chat_history
            yield from _in_histories(f"{path}.chat_history", *histories, logs)


def _in_histories(path: str, old: Transcript, new: Transcript, logs: RecordedLogs) -> Iterator[Difference]:
    """Compare two histories behind what they share."""
    shared, old_rest, new_rest = _apart(old, new)
    left, right = (list(logs.loaded(rest)) for rest in (old_rest, new_rest))
    for at in range(max(len(left), len(right))):
        sides = left[at : at + 1], right[at : at + 1]
        if sides[0] and sides[1] and sides[0][0] is sides[1][0]:
            continue
        said = (_said(side[0]) if side else None for side in sides)
        yield from between(f"{path}[{shared + at}]", *said)


def _apart(old: Transcript, new: Transcript) -> tuple[int, Transcript, Transcript]:
    """Return how many messages both begin with, as far as their logs tell, and what follows."""
    shared = place = 0
    for left, right in zip(old.spans, new.spans, strict=False):
        if not _is_same_log(left, right) or left.start != right.start:
            break
        length = min(left.end, right.end) - left.start
        shared += length
        if left.end != right.end:
            rests = (_behind(side, place, length) for side in (old, new))
            return shared, *rests  # pyright: ignore[reportReturnType]
        place += 1
    return shared, Transcript(old.spans[place:]), Transcript(new.spans[place:])


def _behind(history: Transcript, place: int, length: int) -> Transcript:
    first = history.spans[place]
    rest = Span(first.log, first.start + length, first.end)
    return Transcript([rest, *islice(history.spans, place + 1, None)])


def _is_same_log(left: Span, right: Span) -> bool:
    if left.log is right.log:
        return True
    name = left.log.session_id, left.log.number
    return None not in name and name == (right.log.session_id, right.log.number)


def _said(message: Message) -> Any:
    """Return a message as JSON without what cannot be the same twice."""
    blocks = tuple(
        block.model_copy(update=dict.fromkeys(UNREPEATABLE)) if isinstance(block, ToolResult) else block
        for block in message.blocks
    )
    return message.model_copy(update={"blocks": blocks}).model_dump(mode="json", exclude_none=True)


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_json(one) for one in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def between(path: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield the innermost values that differ."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from between(f"{path}.{key}", old.get(key), new.get(key))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    elif isinstance(old, list) and isinstance(new, list):
        for at in range(max(len(old), len(new))):  # pyright: ignore[reportUnknownArgumentType]
            sides = (side[at] if at < len(side) else None for side in (old, new))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from between(f"{path}[{at}]", *sides)
    else:
        yield Difference(path, old, new)
