"""Begins the action of a flow for a message, and closes the turn with the flow's answer, without a model."""

from __future__ import annotations

import json
from typing import Any

from ....state.application import RUN_BY_FLOW, ApplicationState, FlowMatch, VibeStep
from ....state.conversation.messages import (
    ToolResult,
    ToolUse,
    UserContent,
    encodable,
    flow_answer,
    parse_json_object,
    runtime_message,
)
from ....state.trace import FlowStarted
from ...masking.references import find_placeholder
from ...ports import Ports
from ...ports.events import FlowMatched, MessageAdded, Notice, PlanChanged, TextDelta, ToolRequested
from ...ports.message_router import RoutedMessage
from ...ports.sub_agents import remove_reference
from ..burr_action import Changes
from ..calls.proposals import propose_own
from ..calls.user_command import find_free_id
from ..commands import answer_command
from ..output.answer_check import is_free
from ..run_end import ask_hooks_to_continue
from .flow_templates import BadResult, fill_answer, fill_failure

_ANSWERS = ("reply", "tool", "agent", "skill_agent", "plan")
"""The kinds of flows whose answer has a form of its own, instead of the output type of the run."""
MOST_CHARS = 10_000
"""A longer message starts no flow."""


async def route_message(content: UserContent, state: ApplicationState, ports: Ports) -> RoutedMessage | None:
    """Return what a message starts; None: the model decides.

    A run that asks for an output type, a done tool or a tool choice gets no answer of a flow or a sub-agent.
    """
    if ports.router is None or not isinstance(content, str) or len(content) > MOST_CHARS:
        return None
    routed = await ports.router.route(content)
    is_free_turn = is_free(state, ports) and not state.run_options.tool_choice
    if is_free_turn or routed is None or routed.match.kind not in _ANSWERS:
        return routed
    if routed.match.kind != "skill_agent":
        return None
    # The model reads the text of the skill instead.
    match = FlowMatch(name=routed.match.name, kind="skill", why=routed.match.why)
    return RoutedMessage(match, text=routed.text)


def route_to_speaker(state: ApplicationState, ports: Ports) -> RoutedMessage | None:
    """Return the call that passes a message to the agent that has the conversation.

    None: the agent of the session itself has it, or can hand nothing over any more.
    """
    speaker = state.hand_off
    if speaker is None or speaker.tool not in ports.toolbox:
        return None
    why = "it has the conversation"
    match = FlowMatch(name=speaker.agent, kind="hand_off", why=why, target=speaker.tool, on_failure="model")
    return RoutedMessage(match, arguments=json.dumps({"agent": speaker.agent}))


def answer_by_command(routed: RoutedMessage, state: ApplicationState, ports: Ports) -> Changes:
    """Return the changes of a match that answers as a command does; `state` has no open turn."""
    changes = _record_match(routed.match, state, ports)
    if routed.match.kind == "refused":
        ports.emit(Notice(routed.match.answer))
        return changes
    answer = answer_command(routed.match.target, state)
    assert answer is not None, "this flow does not run a command"
    ports.emit(Notice(answer.notice))
    return {**changes, **answer.changes}


def _record_match(match: FlowMatch, state: ApplicationState, ports: Ports) -> Changes:
    ports.trace.add(FlowStarted(name=match.name, does=match.kind, why=match.why))
    if match.kind != "refused":
        ports.emit(FlowMatched(match.name, match.kind, match.why))
    # An older program would not know the way on.
    return {"flow": match, "graph_version": max(state.graph_version, RUN_BY_FLOW)}


async def begin_flow(routed: RoutedMessage, state: ApplicationState, ports: Ports) -> Changes:
    """Return the changes that a match adds to a turn that has just been opened with its message."""
    match = routed.match
    changes = _record_match(match, state, ports)
    state = state.model_copy(update=changes)
    match match.kind:
        case "reply":
            more = await _answer(fill_answer(match, ""), state, ports)
        case "tool" | "agent" | "skill_agent" | "hand_off":
            more = await _propose(routed, state, ports)
        case "plan":
            more = _plan(routed, state, ports)
        case _:
            more = {"chat_history": state.chat_history.append(runtime_message(routed.text))}
    return {**changes, **more}


async def _propose(routed: RoutedMessage, state: ApplicationState, ports: Ports) -> Changes:
    """Propose the call of a flow: the gate judges it like a model's call."""
    use = ToolUse(
        call_id=find_free_id("flow", state, ports),
        tool=routed.match.target,
        arguments=routed.arguments,
        masked=bool(find_placeholder(parse_json_object(routed.arguments))),
    )
    call = await propose_own(use, ports, state, "flow")
    ports.emit(ToolRequested(call.call_id, call.tool, call.arguments))
    return {"workflow_mode": "ops", "pending_tool_calls": (call,)}


def _plan(routed: RoutedMessage, state: ApplicationState, ports: Ports) -> Changes:
    """Return the changes that begin a plan with fixed steps."""
    steps = tuple(VibeStep(step_id=str(n), description=text) for n, text in enumerate(routed.steps, 1))
    ports.emit(PlanChanged(steps))
    return {
        "workflow_mode": "vibe",
        "phase": "working",
        "current_goal": routed.goal or state.user_input,
        "vibe_plan": steps,
    }


async def _answer(text: str, state: ApplicationState, ports: Ports) -> Changes:
    """Close the turn with an answer, unless a hook continues it."""
    assert state.flow is not None, "an answer of no flow"
    text = ports.masker.text(encodable(text))
    if ports.hooks is not None:
        text = ports.masker.text(encodable(await ports.hooks.rewrite_answer(text)))
    ports.emit(TextDelta(text))
    ports.emit(MessageAdded("assistant", text))
    history = state.chat_history.append(flow_answer(text, state.flow.name))
    if more := await ask_hooks_to_continue(state, ports, text):
        return {"chat_history": history.append(more)}
    return {"chat_history": history, "turn_open": False, "phase": "idle"}


def is_flow_round(state: ApplicationState) -> bool:
    """Return whether the pending calls are those of a flow, with the calls that its tool or agent made."""
    calls = [call for call in state.pending_tool_calls if not call.parent_call_id]
    return state.flow is not None and bool(calls) and all(call.origin == "flow" for call in calls)


async def conclude_flow(state: ApplicationState, result: ToolResult, ports: Ports) -> dict[str, Any]:
    """Return the changes that answer a message with the result of a flow's call; empty if the model has to
    answer.

    The history in `state` already contains the result.
    """
    match = state.flow
    if match is None or match.kind == "hand_off":
        return {}
    content = remove_reference(result.display_text) if match.starts_agent else result.display_text
    try:
        if result.outcome != "ok":
            raise BadResult(content)
        text = fill_answer(match, content)
    except BadResult as problem:
        if match.on_failure == "model":
            return {}
        text = fill_failure(match, str(problem))
    return await _answer(text, state, ports)
