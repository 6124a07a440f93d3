"""Stored messages and steps in one line each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

StepKind = Literal[
    "message", "command", "reply", "calls", "results", "decision", "plan", "summary", "compression", "other"
]

_MAX_CHARS = 200
_MAX_SUBJECT_CHARS = 60
_MAX_CALLS = 5


class StepText(NamedTuple):
    kind: StepKind
    text: str


@dataclass(frozen=True, slots=True)
class MessageLine:
    """What a line needs of a message."""

    origin: str = ""
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Call id and what is called."""
    results: tuple[tuple[str, str, str], ...] = ()
    """Call id, tool and outcome."""


def message_line(body: str) -> MessageLine:
    """Read a stored message; a damaged one has nothing to say."""
    try:
        message = json.loads(body)
        blocks = cast(list[dict[str, Any]], message["blocks"])
        return MessageLine(
            origin=message["origin"],
            text=cut(" ".join(block["text"] for block in blocks if block["kind"] == "text")),
            calls=tuple(_call(block) for block in blocks if block["kind"] == "tool_use"),
            results=tuple(
                (block["call_id"], block["tool"], block["outcome"])
                for block in blocks
                if block["kind"] == "tool_result"
            ),
        )
    except (ValueError, KeyError, TypeError):
        return MessageLine()


def step_text(
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    said: Sequence[MessageLine],
    subjects: Mapping[str, str],
) -> StepText:
    """Say what a step did; `subjects` names the calls known so far."""
    match action:
        case "prompt":
            return _prompted(after, said)
        case "human_confirm":
            return StepText("decision", _listed(list(_decided(before, after, subjects))) or "decided nothing")
        case "execute_tools":
            return StepText("results", _listed([_result(result, subjects) for result in _results(said)]))
        case "vibe_planner" if before["vibe_plan"] != after["vibe_plan"]:
            return StepText("plan", _planned(after))
        case "step_summarizer":
            return StepText("summary", next((line.text for line in said if line.text), "a step ended"))
        case "context_compressor":
            return StepText("compression", "older messages were replaced by a summary")
        case _:
            return _replied(after, said)


def cut(text: str, limit: int = _MAX_CHARS) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def _prompted(after: Mapping[str, Any], said: Sequence[MessageLine]) -> StepText:
    for line in said:
        if line.origin == "person":
            return StepText("message", line.text)
    return StepText("command", cut(after["user_input"] or ""))


def _replied(after: Mapping[str, Any], said: Sequence[MessageLine]) -> StepText:
    where = f"step {after['active_step_id']}: " if after["active_step_id"] else ""
    words = next((line.text for line in said if line.origin == "model" and line.text), "")
    calls = [subject for line in said for _, subject in line.calls]
    if not calls:
        return StepText("reply", where + words) if words else StepText("other", where + _noted(after, said))
    waits = any(call["decision"] == "undecided" for call in _elements(after, "pending_tool_calls"))
    ending = " (waits for a decision)" if waits else ""
    return StepText("calls", f"{where}{_listed(calls)}{ending}")


def _noted(after: Mapping[str, Any], said: Sequence[MessageLine]) -> str:
    """Say what a step is about in which the model said nothing."""
    if said:
        return "(no words)"
    unknown = [
        c["tool"] for c in _elements(after, "pending_tool_calls") if c.get("kind") == "outcome_unknown"
    ]
    return f"outcome unknown: {_listed(unknown)}" if unknown else "(the state was changed)"


def _planned(after: Mapping[str, Any]) -> str:
    steps = [f"{step['step_id']}. {step['description']}" for step in _elements(after, "vibe_plan")]
    return cut(f"{len(steps)} steps: {'; '.join(steps)}")


def _decided(
    before: Mapping[str, Any], after: Mapping[str, Any], subjects: Mapping[str, str]
) -> Iterator[str]:
    old = {call["call_id"]: call for call in _elements(before, "pending_tool_calls")}
    for call in _elements(after, "pending_tool_calls"):
        was = old.get(call["call_id"], {})
        verdict = call.get("settled_as") or call["decision"]
        if verdict != (was.get("settled_as") or was.get("decision")):
            yield f"{verdict}: {subjects.get(call['call_id'], call['tool'])}"


def _results(said: Sequence[MessageLine]) -> Iterator[tuple[str, str, str]]:
    for line in said:
        yield from line.results


def _result(result: tuple[str, str, str], subjects: Mapping[str, str]) -> str:
    call_id, tool, outcome = result
    return f"{outcome}: {subjects.get(call_id, tool)}"


def _call(block: Mapping[str, Any]) -> tuple[str, str]:
    """Name a call by its tool and its first argument that is a text."""
    try:
        arguments = json.loads(block["arguments"])
    except (ValueError, RecursionError):
        arguments = {}
    values = cast(dict[str, Any], arguments).values() if isinstance(arguments, dict) else ()
    subject = next((value for value in values if isinstance(value, str)), "")
    return block["call_id"], f"{block['tool']} {cut(subject, _MAX_SUBJECT_CHARS)}".strip()


def _listed(parts: list[str]) -> str:
    more = f"; {len(parts) - _MAX_CALLS} more" if len(parts) > _MAX_CALLS else ""
    return "; ".join(parts[:_MAX_CALLS]) + more


def _elements(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the elements of a field; those that a damaged record leaves open are left out."""
    return [element for element in fields.get(name) or () if element is not None]
