"""Compares the state after a step with the recorded state, field by field, and histories by content."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from pydantic import BaseModel

from ....actions.workspace.paths import format_count
from ....state.application import ApplicationState, VibeStep
from ....state.calls import PendingCall
from ....state.conversation.messages import Message, ToolResult
from ....state.conversation.transcript import Transcript, TranscriptRange
from ....state.trace import RequestShape
from .recorded_ports import Divergence
from .replay_steps import Moment, RecordedLogs, Values


class ReplayDifference(NamedTuple):
    """One differing value, recorded and of today. None: the field is missing on that side."""

    path: str
    recorded: Any
    today: Any


def differences(recorded: Values, today: Values, logs: RecordedLogs) -> list[ReplayDifference]:
    """Return the differing values in their JSON form."""
    found: list[ReplayDifference] = []
    for name in ApplicationState.model_fields:
        old, new = recorded[name], today[name]
        if old is new:
            continue
        if isinstance(old, Transcript):
            found += _compare_histories(name, old, new, logs)
        elif name == "vibe_plan":
            found += _compare_plans(name, old, new, logs)
        elif name == "pending_tool_calls":
            found += compare_values(name, *map(_json, _drop_equal_calls(old, new)))
        elif old != new:
            found += compare_values(name, _json(old), _json(new))
    return found


_Calls = tuple[PendingCall, ...]


def _drop_equal_calls(old: _Calls, new: _Calls) -> tuple[_Calls, _Calls]:
    """Return the differing calls. Two calls that may run, or that wait, count as equal even if their reasons
    differ: a later version may word the reasons better."""
    plain = [_plain(*pair) for pair in zip(old, new, strict=False)]
    shared = len(plain)
    return (*(one for one, _ in plain), *old[shared:]), (*(one for _, one in plain), *new[shared:])


def _plain(*calls: PendingCall) -> tuple[PendingCall, ...]:
    if any(call.decision in ("denied", "invalid") for call in calls):
        return calls
    return tuple(
        call.model_copy(
            update={
                "reason": "",
                "effect": "effect",
                "decided_by": call.decided_by if call.decided_by == "person" else "policy",
            }
        )
        for call in calls
    )


def _compare_plans(
    name: str, old: tuple[VibeStep, ...], new: tuple[VibeStep, ...], logs: RecordedLogs
) -> Iterator[ReplayDifference]:
    for at, (left, right) in enumerate(zip_longest(old, new)):
        path = f"{name}[{at}]"
        if left is None or right is None:
            yield from compare_values(path, _json(left), _json(right))
        elif left is not right:
            apart = {"chat_history": Transcript()}
            yield from compare_values(path, *(_json(side.model_copy(update=apart)) for side in (left, right)))
            yield from _compare_histories(f"{path}.chat_history", left.chat_history, right.chat_history, logs)


def _compare_histories(
    path: str, old: Transcript, new: Transcript, logs: RecordedLogs
) -> Iterator[ReplayDifference]:
    shared, old_rest, new_rest = _split_common(old, new)
    pairs = zip_longest(logs.load_history(old_rest), logs.load_history(new_rest))
    for at, (left, right) in enumerate(pairs, shared):
        if left is not right:
            yield from compare_values(
                f"{path}[{at}]", *(side and _comparable_content(side) for side in (left, right))
            )


def _split_common(old: Transcript, new: Transcript) -> tuple[int, Transcript, Transcript]:
    """Return the length of the common beginning of two histories, and the rest of each. Logs are compared,
    not messages."""
    shared = 0
    for left, right in zip(old.spans, new.spans, strict=False):
        if not _is_same_log(left, right) or left.start != right.start:
            break
        shared += min(left.end, right.end) - left.start
        if left.end != right.end:
            break
    return shared, old.part(shared), new.part(shared)


def _is_same_log(left: TranscriptRange, right: TranscriptRange) -> bool:
    if left.log is right.log:
        return True
    name = left.log.session_id, left.log.number
    return None not in name and name == (right.log.session_id, right.log.number)


def _comparable_content(message: Message) -> Any:
    """Return a message as JSON without the durations of its tool results, which differ in every run."""
    blocks = tuple(
        block.model_copy(update={"duration_ms": None}) if isinstance(block, ToolResult) else block
        for block in message.blocks
    )
    return message.model_copy(update={"blocks": blocks}).model_dump(mode="json", exclude_none=True)


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_json(one) for one in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def compare_values(path: str, old: Any, new: Any) -> Iterator[ReplayDifference]:
    """Yield the innermost differing values."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from compare_values(f"{path}.{key}", old.get(key), new.get(key))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    elif isinstance(old, list) and isinstance(new, list):
        for at, sides in enumerate(zip_longest(old, new)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from compare_values(f"{path}[{at}]", *sides)
    else:
        yield ReplayDifference(path, old, new)


_MOST_LINES = 60
_MOST_CHARS = 300
_CONTEXT_LINES = 2


def diff_lines(differences: Sequence[ReplayDifference]) -> tuple[str, ...]:
    """Return the differences as readable lines. If there are too many, the last line says so."""
    lines = list(islice(_lines(differences), _MOST_LINES + 1))
    if len(lines) <= _MOST_LINES:
        return tuple(lines)
    left = f"... and more: {len(differences)} values differ in all"
    return (*lines[:_MOST_LINES], left)


def _lines(differences: Iterable[ReplayDifference]) -> Iterator[str]:
    for path, recorded, today in differences:
        yield f"  {path}:"
        yield from _list_changes(_format_lines(recorded), _format_lines(today))


def _list_changes(old: list[str], new: list[str]) -> Iterator[str]:
    if len(old) + len(new) <= 2:
        start = _count_equal_chars(old[0], new[0]) if old and new else 0
        yield from (f"- {_cut(line, start)}" for line in old)
        yield from (f"+ {_cut(line, start)}" for line in new)
        return
    for line in islice(unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""), 2, None):
        yield f"{line[:1]} {_cut(line[1:])}" if not line.startswith("@@") else line


def _format_lines(value: object) -> list[str]:
    """Return a value as lines; an empty list for a missing value."""
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines() or ['""']
    if isinstance(value, dict | list):
        return json.dumps(value, indent=1, ensure_ascii=False).splitlines()
    return [json.dumps(value)]


def _count_equal_chars(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(old), len(new)))


def _cut(line: str, around: int = 0) -> str:
    """Cut a long line to the part around its character at `around`."""
    if len(line) <= _MOST_CHARS:
        return line
    first = max(0, around - _MOST_CHARS // 3)
    part = line[first : first + _MOST_CHARS]
    return f"{'... ' if first else ''}{part}{' ...' if first + _MOST_CHARS < len(line) else ''}"


_PLAIN = ("workflow_mode", "execution_mode", "phase", "active_step_id", "turn_open", "last_round_denied")


def loose_differences(before: Values, recorded: Values, today: Values) -> list[ReplayDifference]:
    """Compare two states after the same step without the wording of texts."""
    old, new = (_outline(before, values) for values in (recorded, today))
    return [difference for name in old for difference in compare_values(name, old[name], new[name])]


def _outline(before: Values, values: Values) -> dict[str, Any]:
    state = ApplicationState.model_construct(**values)
    was = ApplicationState.model_construct(**before)
    added = _list_added(was.active_history, state.active_history)
    if was.active_step_id != state.active_step_id:
        added = _list_added(was.chat_history, state.chat_history)
    return {
        "calls": [call.tool for call in state.pending_tool_calls],
        "outcomes": added,
        "finished steps": [f"{step.step_id} {step.status}" for step in state.vibe_plan if step.has_ended],
        **{name: values[name] for name in _PLAIN},
    }


def _list_added(before: Transcript, after: Transcript) -> list[str]:
    """Return tool and outcome of each added result."""
    results = (result for message in after.part(len(before)) for result in message.tool_results)
    return [f"{result.tool} {result.outcome}" for result in results]


def request_divergence(
    moment: Moment, asked: RequestShape | None, tools: Mapping[str, str], after: tuple[str, ...]
) -> Divergence | None:
    """Return how the request of a step differs from the recorded one, or None.

    `tools` maps the name of a current tool to the digest of its declaration. `after` are the lines about the
    difference in the state after the step, which show changed texts.
    """
    recorded = moment.called.request if moment.called is not None else None
    if recorded == asked or recorded is None:
        return None
    if asked is None:
        summary = "The recorded run asked the model here; today's program does not."
        return Divergence(moment.seq, moment.action, "request", summary)
    began = moment.began
    known = began.conditions.tools if began is not None and began.conditions is not None else {}
    found = list(_differences(recorded, asked, known, tools))
    summary = f"The request to the model differs in: {', '.join(one.path for one in found)}."
    lines = diff_lines(found)
    if recorded.histories != asked.histories:
        lines += after
    return Divergence(moment.seq, moment.action, "request", summary, lines)


def _differences(
    recorded: RequestShape, asked: RequestShape, known: Mapping[str, str], tools: Mapping[str, str]
) -> Iterator[ReplayDifference]:
    if recorded.fixed_sha256 != asked.fixed_sha256:
        changed = list(_compare_tools(known, tools))
        yield from changed or [ReplayDifference("system prompt", recorded.fixed_sha256, asked.fixed_sha256)]
    if recorded.forced_tool != asked.forced_tool:
        yield ReplayDifference("forced tool", recorded.forced_tool or "none", asked.forced_tool or "none")
    if recorded.output != asked.output:
        yield ReplayDifference("form of the answer", recorded.output or "none", asked.output or "none")
    if recorded.histories != asked.histories:
        yield ReplayDifference("histories", *(_sizes(shape) for shape in (recorded, asked)))


def _compare_tools(known: Mapping[str, str], tools: Mapping[str, str]) -> Iterator[ReplayDifference]:
    for name in dict.fromkeys((*known, *tools)):
        old, new = known.get(name), tools.get(name)
        if old is None or new is None:
            sides = ("not offered" if digest is None else "offered" for digest in (old, new))
            yield ReplayDifference(f"tool {name}", *sides)
        elif old != new:
            lines = (f"name, description and parameters: digest {digest}" for digest in (old, new))
            yield ReplayDifference(f"tool {name}", *lines)
    if dict(known) == dict(tools) and list(known) != list(tools):
        yield ReplayDifference("order of the tools", ", ".join(known), ", ".join(tools))


def _sizes(shape: RequestShape) -> str:
    return ", ".join(
        f"{format_count(count, 'message')} with {format_count(size, 'byte')}"
        for count, size in shape.histories
    )
