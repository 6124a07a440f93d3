"""Flows: a message of a known form gets a plan, an answer or instructions without a decision of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....actions.ports import ModelRequest, Reply
from ....actions.turn.decision_tools import START_PLAN, SUBMIT_PLAN
from ....state.application import Usage
from ....state.conversation.messages import Message, ToolUse, assistant_message, runtime_message
from ....state.conversation.transcript import Transcript
from ..middleware.middleware import FEATURE, Middleware, NextModelCall
from .document import ParsedFile
from .phrase import Phrase, fill_gaps, find_gaps, parse_phrase
from .schema import Flow


@dataclass(frozen=True, slots=True)
class ReadyFlow:
    """A flow with its parsed phrases."""

    flow: Flow
    phrases: tuple[Phrase, ...]


def prepare_flows(flows: Sequence[Flow], document: ParsedFile) -> tuple[ReadyFlow, ...]:
    """Parse the phrases of the flows; raises `ConfigError` with file, line and key."""
    ready: list[ReadyFlow] = []
    names: set[str] = set()
    for number, flow in enumerate(flows):
        place = ("flows", number)
        if flow.name in names:
            document.refuse((*place, "name"), f"is the name of a second flow: {flow.name}", "Rename one.")
        names.add(flow.name)
        phrases: list[Phrase] = []
        for index, text in enumerate(flow.phrases):
            at = (*place, "trigger") if isinstance(flow.trigger, str) else (*place, "trigger", index)
            try:
                phrases.append(parse_phrase(text))
            except ValueError as problem:
                document.refuse(at, str(problem), "Write the words that start the flow.")
            if lacking := {name for one in flow.texts for name in find_gaps(one)} - find_gaps(text):
                name = min(lacking)
                document.refuse(at, f"has no {{{name}}}, which the flow uses", f"Write {{{name}}} in it.")
        ready.append(ReadyFlow(flow, tuple(phrases)))
    return tuple(ready)


class FlowRouter(Middleware):
    """Answers the model calls that a flow decides. All other calls go to the model.

    An answer of a flow is recorded as the reply of a model that cost nothing, so a killed run resumes like
    any other run.
    """

    priority = FEATURE
    name = "flows"

    def __init__(self, flows: Sequence[ReadyFlow]) -> None:
        self._flows = flows
        self._has_prompts = any(ready.flow.prompt is not None for ready in flows)

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        if request.purpose != "turn":
            return await next(request)
        history = request.histories[0]
        message, later = _newest_request(history)
        found = None if message is None else self._find(message)
        if found is not None and message is not None and len(request.histories) == 1:
            reply = _decide(found[0], found[1], message, later, request)
            if reply is not None:
                return reply
        return await next(self._with_instructions(request))

    def _find(self, message: Message) -> tuple[Flow, Mapping[str, str]] | None:
        """Return the first flow that the person's message starts, and the values of the gaps in its
        phrase."""
        text = message.text
        for ready in self._flows:
            for phrase in ready.phrases:
                values = phrase.match(text)
                if values is not None:
                    return ready.flow, values
        return None

    def _with_instructions(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the instructions of flows, each after the message that started the flow."""
        if not self._has_prompts:
            return request
        changed: list[Message] = []
        has_any = False
        for message in request.histories[0]:
            changed.append(message)
            found = self._find(message) if _is_of_person(message) else None
            if found is not None and found[0].prompt is not None:
                has_any = True
                changed.append(runtime_message(fill_gaps(found[0].prompt, found[1])))
        if not has_any:
            return request
        return replace(request, histories=(Transcript.of(*changed), *request.histories[1:]))


def _is_of_person(message: Message) -> bool:
    return message.role == "user" and message.origin == "person" and not message.tool_uses


def _newest_request(history: Transcript) -> tuple[Message | None, list[Message]]:
    """Return the newest message of a person, or None, and the messages after it."""
    later: list[Message] = []
    for message in reversed(history):
        if _is_of_person(message):
            return message, later[::-1]
        later.append(message)
    return None, []


def _decide(
    flow: Flow, values: Mapping[str, str], message: Message, later: Sequence[Message], request: ModelRequest
) -> Reply | None:
    """Return the reply that the flow gives in place of the model, or None if the model has to answer."""
    is_first = not any(one.role == "assistant" for one in later)
    if flow.reply is not None:
        answer = assistant_message(fill_gaps(flow.reply, values))
        return Reply(answer, "stop", Usage(cost_usd=0.0)) if is_first else None
    if flow.plan is None:
        return None
    if is_first and request.forced_tool is None:
        goal = fill_gaps(flow.goal, values) if flow.goal is not None else message.text
        return _call(START_PLAN.name, {"goal": goal})
    was_submitted = any(use.tool == SUBMIT_PLAN.name for one in later for use in one.tool_uses)
    if request.forced_tool == SUBMIT_PLAN.name and not was_submitted:
        steps = [{"description": fill_gaps(step, values)} for step in flow.plan]
        return _call(SUBMIT_PLAN.name, {"steps": steps})
    return None


def _call(tool: str, arguments: Mapping[str, object]) -> Reply:
    use = ToolUse(call_id=f"flow_{tool}", tool=tool, arguments=json.dumps(arguments, ensure_ascii=False))
    made = Message(role="assistant", origin="model", blocks=(use,))
    return Reply(made, "tool_calls", Usage(cost_usd=0.0))
