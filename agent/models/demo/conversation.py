"""What a request shows the demo: which of the few situations it is in, and what was said and found there."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ....actions.ports import ModelRequest
from ....actions.turn.decision_tools import PLAN_FINISHED, RESERVED_NAMES
from ....state.json_text import json_object
from ....state.messages import Message, ToolResult, ToolUse

Situation = Literal["turn", "results", "plan", "step", "report", "summary"]

_STEP_LINE = re.compile(r"^(?:assistant: )?Step (\S+) (completed|failed): (.*)$", re.MULTILINE)
_STEP_TITLE = re.compile(r"^Step (\S+) of \d+: (.+)$", re.MULTILINE)
_PINNED_STEP = re.compile(r"^Plan step (\S+) \[in_progress\]: (.+)$", re.MULTILINE)
_PINNED_MESSAGE = re.compile(r"^The user's last message: (.+)$", re.MULTILINE)
_PINNED_GOAL = re.compile(r"^Goal: (.+)$", re.MULTILINE)
_ASKS_FOR_SUMMARY = "Below is the older part of this session"


class Done(NamedTuple):
    """A working call and its result."""

    use: ToolUse
    result: ToolResult


class StepLine(NamedTuple):
    step_id: str
    status: str
    summary: str


@dataclass(frozen=True, slots=True)
class Conversation:
    situation: Situation
    text: str
    """What the person said last; the goal of a plan; the text of a summary request."""
    tools: frozenset[str]
    length: int
    """Messages so far, in all histories."""
    done: tuple[Done, ...] = ()
    """Since the person spoke, or in the step."""
    step_id: str = ""
    step_title: str = ""
    step_lines: tuple[StepLine, ...] = ()
    """How the steps since the person spoke ended."""


def read_conversation(request: ModelRequest) -> Conversation:
    main = list(request.histories[0]) if request.histories else []
    child = list(request.histories[1]) if len(request.histories) > 1 else []
    turn = _since_person(main)
    step = _step(child)
    return Conversation(
        situation=_situation(request, main, child),
        text=_goal(turn) if request.forced_tool else _said(turn),
        tools=frozenset(spec.name for spec in request.tools),
        length=len(main) + len(child),
        done=_done(child if child else turn),
        step_id=step[0],
        step_title=step[1],
        step_lines=tuple(StepLine(*line) for message in turn for line in _STEP_LINE.findall(message.text)),
    )


def _situation(request: ModelRequest, main: Sequence[Message], child: Sequence[Message]) -> Situation:
    if request.forced_tool:
        return "plan"
    if child:
        return "step"
    last = main[-1] if main else None
    if last is not None and last.origin == "runtime" and last.text.startswith(PLAN_FINISHED[:20]):
        return "report"
    if last is not None and last.text.startswith(_ASKS_FOR_SUMMARY) and last.origin == "runtime":
        return "summary"
    return "results" if last is not None and last.role == "tool" else "turn"


def _since_person(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages from the person's last one on; all, if a summary took its place."""
    starts = (at for at in range(len(messages) - 1, -1, -1) if messages[at].origin == "person")
    return messages[next(starts, 0) :]


def _said(turn: Sequence[Message]) -> str:
    if not turn:
        return ""
    return _first(_PINNED_MESSAGE, turn[0].text) if _is_summary(turn[0]) else turn[0].text


def _goal(turn: Sequence[Message]) -> str:
    uses = (use for message in reversed(turn) for use in message.tool_uses if use.tool == "start_plan")
    use = next(uses, None)
    if use is not None:
        goal = (json_object(use.arguments) or {}).get("goal")
        if goal is not None:
            return str(goal)
    pinned = _first(_PINNED_GOAL, turn[0].text) if turn and _is_summary(turn[0]) else ""
    return pinned or _said(turn)


def _is_summary(message: Message) -> bool:
    return message.origin == "runtime" and _PINNED_MESSAGE.search(message.text) is not None


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else text


def _step(child: Sequence[Message]) -> tuple[str, str]:
    text = child[0].text if child else ""
    found = _STEP_TITLE.search(text) or _PINNED_STEP.search(text)
    return (found[1], found[2].strip()) if found else ("", "")


def _done(messages: Sequence[Message]) -> tuple[Done, ...]:
    uses = {use.call_id: use for message in messages for use in message.tool_uses}
    results = (result for message in messages for result in message.tool_results)
    return tuple(
        Done(uses[result.call_id], result)
        for result in results
        if result.call_id in uses and result.tool not in RESERVED_NAMES
    )


@dataclass(frozen=True, slots=True)
class Move:
    """What the demo says, and the call that it makes."""

    text: str
    tool: str = ""
    """Empty: none."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


def finish(status: Literal["completed", "failed"], summary: str) -> Move:
    return Move("", "finish_step", {"status": status, "summary": summary})
