"""Describes each step of a session in one line, and reads the first lines of early messages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...actions.turn.burr_action import StepKind
from ...actions.workspace.paths import format_count
from ...state.calls import PendingCall
from ...state.conversation.approved_plan import ApprovedPlan
from ...state.conversation.content import list_labels
from ...state.conversation.messages import Message, Text, ToolResult, ToolUse, find_subject
from ...state.databases.database import Database
from ...state.lazy_dataclass import dataclass
from ...state.store.call_moves import find_nested_call, list_placed_moves
from ...state.store.integrity import name_damage
from ...state.store.recording import (
    CallMove,
    Fields,
    MessagePages,
    RecordedStep,
    list_early_messages,
    list_objects,
    list_steps,
)
from ...state.store.sessions.listing import load_lineage
from ..graph import traits_of

_MAX_CHARS = 200
_MAX_SUBJECT_CHARS = 60
_MAX_CALLS = 5


class StepText(NamedTuple):
    kind: StepKind
    text: str


def describe_step(
    step: RecordedStep, messages: Sequence[Message | None], subjects: Mapping[str, str]
) -> StepText:
    """Describe a step by the messages that it added. `subjects` maps the id of an earlier call to its
    title."""
    after, known = step.after, [message for message in messages if message is not None]
    if not step.action:
        return StepText("other", "(the record of this step is damaged)")
    match traits_of(step.action).step_kind:
        case "message":
            return _describe_prompt(after, known)
        case "decision":
            return StepText("decision", _join(list(_list_decisions(step, subjects))) or "decided nothing")
        case "results":
            return StepText(
                "results",
                _join(
                    [
                        _describe_result(result, subjects)
                        for message in known
                        for result in message.tool_results
                    ]
                ),
            )
        case "plan" if step.before.get("vibe_plan") != after.get("vibe_plan"):
            return StepText("plan", _describe_plan(after))
        case "summary":
            return StepText(
                "summary", next((line for line in map(_join_words, known) if line), "a step ended")
            )
        case "compression":
            return StepText("compression", "older messages were replaced by a summary")
        case _ if words := _describe_reply(after, known):
            return words
        case _:
            noted = "(no words)" if messages else _describe_unrecorded(after)
            return StepText("other", _name_active_step(after) + noted)


def cut_line(text: str, limit: int = _MAX_CHARS) -> str:
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def _join_words(message: Message) -> str:
    texts = (block.text for block in message.blocks if isinstance(block, Text))
    return cut_line(" ".join((*texts, *list_labels(message.blocks))))


def _describe_prompt(after: Fields, messages: Sequence[Message]) -> StepText:
    for message in messages:
        if message.origin == "person" and not message.is_user_command:
            started: Mapping[str, Any] = after.get("flow") or {}
            kind = "skill" if started.get("kind") in ("skill", "skill_agent") else "flow"
            ending = f" ({kind} {started['name']})" if started else ""
            return StepText("message", f"{_join_words(message)}{ending}")
    return StepText("command", cut_line(after.get("user_input") or ""))


def _name_active_step(after: Fields) -> str:
    active = after.get("active_step_id")
    return f"step {active}: " if active else ""


def _describe_reply(after: Fields, messages: Sequence[Message]) -> StepText | None:
    calls = [title_call(use) for message in messages for use in message.tool_uses]
    if calls:
        waits = any(call["decision"] == "undecided" for call in list_objects(after, "pending_tool_calls"))
        ending = " (waits for a decision)" if waits else ""
        return StepText("calls", f"{_name_active_step(after)}{_join(calls)}{ending}")
    texts = (_join_words(message) for message in messages if message.origin == "model")
    words = next(filter(None, texts), "")
    return StepText("reply", _name_active_step(after) + words) if words else None


def _describe_unrecorded(after: Fields) -> str:
    """Describe a step that added no message."""
    if any(call.get("origin") == "plan" for call in list_objects(after, "pending_tool_calls")):
        return f"steps {', '.join(after.get('parallel_steps', ()))} begin side by side"
    unknown = [
        call["tool"]
        for call in list_objects(after, "pending_tool_calls")
        if call.get("kind") == "outcome_unknown"
    ]
    return f"outcome unknown: {_join(unknown)}" if unknown else "(the state was changed)"


def _describe_plan(after: Fields) -> str:
    steps = [f"{step['step_id']}. {step['description']}" for step in list_objects(after, "vibe_plan")]
    return cut_line(f"{format_count(len(steps), 'step')}: {'; '.join(steps)}")


def list_decided_calls(step: RecordedStep) -> Iterator[dict[str, Any]]:
    """Yield the calls that a step decided or settled, in their stored form after the step."""
    old = {call["call_id"]: call for call in list_objects(step.before, "pending_tool_calls")}
    for call in list_objects(step.after, "pending_tool_calls"):
        was = old.get(call["call_id"], {})
        if any(was.get(name) != call.get(name) for name in ("decision", "settled_as")):
            yield call


def _list_decisions(step: RecordedStep, subjects: Mapping[str, str]) -> Iterator[str]:
    for call in list_decided_calls(step):
        verdict = call.get("settled_as") or call["decision"]
        yield f"{verdict}: {subjects.get(call['call_id'], call['tool'])}"


def _describe_result(result: ToolResult, subjects: Mapping[str, str]) -> str:
    begun = "" if result.plan is None else f" (the approved plan {result.plan.digest[:12]} begins)"
    return f"{result.outcome}: {subjects.get(result.call_id, result.tool)}{begun}"


def list_approved_plans(database: Database, session_id: str) -> Iterator[tuple[int, str]]:
    """Yield the step in which each approved plan of a session began, and the digest of the plan."""
    for step in list_steps(database, session_id):
        plan = step.after.get("approved_plan")
        if plan and plan != step.before.get("approved_plan"):
            yield step.seq, ApprovedPlan.model_validate(plan).digest


def title_call(use: ToolUse | PendingCall) -> str:
    """Return the name of the called tool and its first text argument."""
    return f"{use.tool} {cut_line(find_subject(use.arguments), _MAX_SUBJECT_CHARS)}".strip()


def _join(parts: list[str]) -> str:
    more = f"; {len(parts) - _MAX_CALLS} more" if len(parts) > _MAX_CALLS else ""
    return "; ".join(parts[:_MAX_CALLS]) + more


@dataclass(frozen=True, slots=True)
class TimelineStep:
    seq: int
    at: str
    """The time, UTC in ISO 8601."""
    action: str
    kind: StepKind
    text: str
    """A description on one line, cut to a limited length; untrusted text."""
    session_id: str
    """The session that recorded the step: this session or an ancestor."""
    calls: tuple[str, ...] = ()
    """The calls that tools made while they ran in this step, as lines of an outcome and a title; untrusted
    text.
    """


class _NestedCalls:
    """The calls that tools made while they ran, step by step."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.titles: dict[str, str] = {}
        """Call id -> the title of the call."""
        self._states: dict[int, dict[str, str]] = {}
        """Step -> call id -> how far the call got in this step."""
        for step, move in list_placed_moves(database, load_lineage(database, session_id), only_nested=True):
            if (call := find_nested_call(move)) is not None:
                self.titles[move.call_id] = title_call(call)
            if move.call_id in self.titles and (state := _describe_state(move)):
                self._states.setdefault(step, {})[move.call_id] = state

    def list_lines(self, step: int) -> tuple[str, ...]:
        states = self._states.get(step, {})
        return tuple(f"{state}: {self.titles[call_id]}" for call_id, state in states.items())


def _describe_state(move: CallMove) -> str:
    """Return how far a call got with this move; empty for a decision, which is a step of its own."""
    match move.move:
        case "finished":
            return move.text("outcome")
        case "proposed" | "decided" if move.text("decision") == "undecided":
            return "waits for a decision"
        case "started":
            return "started"
        case _:
            return ""


def list_timeline(database: Database, session_id: str) -> list[TimelineStep]:
    """Return every step of a session, beginning with its ancestors' steps. The text of a damaged step says
    so."""
    pages, nested = MessagePages(database), _NestedCalls(database, session_id)
    subjects = dict(nested.titles)
    with name_damage(database, session_id):
        return [_step(step, pages, subjects, nested) for step in list_steps(database, session_id)]


def _step(
    step: RecordedStep, pages: MessagePages, subjects: dict[str, str], nested: _NestedCalls
) -> TimelineStep:
    messages = pages.load_all(step.added)
    for message in messages:
        subjects |= {use.call_id: title_call(use) for use in message.tool_uses} if message is not None else {}
    found = describe_step(step, messages, subjects)
    calls = nested.list_lines(step.seq)
    return TimelineStep(step.seq, step.at, step.action, found.kind, found.text, step.session_id, calls)


_PAGE_SESSIONS = 200


def list_first_lines(database: Database, session_ids: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Yield, page by page, session id -> the first lines of early messages of people.

    Messages that are too long or cannot be parsed are left out.
    """
    for start in range(0, len(session_ids), _PAGE_SESSIONS):
        found: dict[str, list[str]] = {}
        for session_id, message in list_early_messages(database, session_ids[start : start + _PAGE_SESSIONS]):
            words = next((block.text for block in message.blocks if isinstance(block, Text)), "")
            found.setdefault(session_id, []).append(cut_line(words.strip().partition("\n")[0]))
        yield found
