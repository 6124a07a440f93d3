"""Translates the events of a run to those of AG-UI, in the order that its clients require."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .....state.lazy_dataclass import dataclass
from ....headless.json_output import Object
from .wire import OUTCOME_SCHEMA, PROTOCOL_VERSION, make_approval_schema, make_event

_ANSWERED = ("done", "denied")
"""The statuses of runs that ended with an answer."""
_ENDS = {
    "drain": "The server ends. The run goes on; send the thread again without a message to follow it.",
    "deleted": "The session was deleted.",
    "refused": "The token is no longer valid.",
}
_FINISHED_STEPS = ("completed", "failed", "skipped", "abandoned")


@dataclass(slots=True)
class _Voice:
    """The message that the agent, or one of its sub-agents, is writing."""

    subagent_run_id: str | None
    text_id: str = ""
    """The id of the message that is being written; empty: none is."""
    text: str = ""
    reasoning_id: str = ""
    last_id: str | None = None
    """The message to which the next calls belong."""


class Translator:
    """The state of one run of AG-UI."""

    def __init__(self, thread_id: str, run_id: str, own_message: str | None) -> None:
        """`own_message` is the text that the client sent, so that it does not get it back."""
        self._thread_id, self._run_id = thread_id, run_id
        self._own_message = own_message
        self._voices = {"": _Voice(None)}
        self._steps: list[str] = []
        self._agents: list[str] = []
        self._ids = 0
        self._model = ""

    def begin(self) -> Object:
        ids = {"thread_id": self._thread_id, "run_id": self._run_id}
        return make_event("RUN_STARTED", **ids, protocol_version=PROTOCOL_VERSION)

    def translate(self, event: Object) -> Iterator[Object]:
        """Yield the events of AG-UI for one event of a run; none for a type that AG-UI does not have."""
        voice = self._voices.get(event.get("agent_id", ""), self._voices[""])
        if event["type"] != "thinking":
            yield from self._end_reasoning(voice)
        if (translate := _TRANSLATIONS.get(event["type"])) is not None:
            yield from translate(self, voice, event)

    def finish(self, event: Object) -> Iterator[Object]:
        """Yield the last events of the run, for its result or for an event about the stream."""
        yield from self._close_all()
        if event["type"] in _ENDS:
            yield make_event("RUN_ERROR", message=_ENDS[event["type"]], code=event["type"])
            return
        status, usage = event["status"], [self._usage(event["usage"])]
        if event["pending"]:
            outcome = {"type": "interrupt", "interrupts": make_interrupts(event["pending"])}
            yield self._finish_with(outcome, usage)
        elif status in _ANSWERED:
            yield self._finish_with({"type": "success"}, usage, event["result"])
        elif status == "interrupted":
            yield self._finish_with({"type": "cancelled"}, usage)
        else:
            error = event["error"] or {"code": status, "message": f"The run ended: {status}."}
            yield make_event("RUN_ERROR", message=error["message"], code=error["code"], usage=usage)

    def finish_idle(self, status: str, pending: Sequence[Object]) -> Iterator[Object]:
        """Yield the last events for a session that nothing runs; `pending` are the calls that wait."""
        yield from self._close_all()
        if pending:
            yield self._finish_with({"type": "interrupt", "interrupts": make_interrupts(pending)})
        elif status in ("error", "failed", "parked"):
            yield make_event("RUN_ERROR", message="The run failed. The server's log has more.", code=status)
        else:
            yield self._finish_with({"type": "success"})

    def _finish_with(
        self, outcome: Object, usage: list[Object] | None = None, result: str | None = None
    ) -> Object:
        ids = {"thread_id": self._thread_id, "run_id": self._run_id}
        return make_event("RUN_FINISHED", **ids, outcome=outcome, usage=usage, result=result)

    def _close_all(self) -> Iterator[Object]:
        for voice in list(self._voices.values()):
            yield from self._end_reasoning(voice)
            yield from self._end_text(voice)
        while self._agents:
            yield from self._finish_agent(self._agents[-1], "needs_approval")
        while self._steps:
            yield make_event("STEP_FINISHED", step_name=self._steps.pop())

    def _make_id(self) -> str:
        self._ids += 1
        return f"{self._run_id}-{self._ids}"

    def think(self, voice: _Voice, event: Object) -> Iterator[Object]:
        own = {"subagent_run_id": voice.subagent_run_id}
        if not voice.reasoning_id:
            voice.reasoning_id = self._make_id()
            yield make_event("REASONING_START", message_id=voice.reasoning_id, **own)
            yield make_event(
                "REASONING_MESSAGE_START", message_id=voice.reasoning_id, role="reasoning", **own
            )
        yield make_event(
            "REASONING_MESSAGE_CONTENT", message_id=voice.reasoning_id, delta=event["delta"], **own
        )

    def _end_reasoning(self, voice: _Voice) -> Iterator[Object]:
        if voice.reasoning_id:
            own = {"message_id": voice.reasoning_id, "subagent_run_id": voice.subagent_run_id}
            voice.reasoning_id = ""
            yield make_event("REASONING_MESSAGE_END", **own)
            yield make_event("REASONING_END", **own)

    def write_piece(self, voice: _Voice, event: Object) -> Iterator[Object]:
        yield from self._write(voice, event["delta"])

    def _write(self, voice: _Voice, delta: str, role: str = "assistant") -> Iterator[Object]:
        own = {"subagent_run_id": voice.subagent_run_id}
        if not voice.text_id:
            voice.text_id, voice.text = self._make_id(), ""
            yield make_event("TEXT_MESSAGE_START", message_id=voice.text_id, role=role, **own)
        voice.text += delta
        yield make_event("TEXT_MESSAGE_CONTENT", message_id=voice.text_id, delta=delta, **own)

    def _end_text(self, voice: _Voice) -> Iterator[Object]:
        if voice.text_id:
            voice.last_id = voice.text_id
            own = {"message_id": voice.text_id, "subagent_run_id": voice.subagent_run_id}
            voice.text_id = ""
            yield make_event("TEXT_MESSAGE_END", **own)

    def end_message(self, voice: _Voice, event: Object) -> Iterator[Object]:
        """Complete a message whose pieces were sent, or send it whole."""
        content = event["content"]
        if event["role"] == "user":
            if content == self._own_message:
                self._own_message = None
                return
            yield from self._end_text(voice)
            yield from self._write(voice, content, "user")
        elif voice.text_id and content.startswith(voice.text):
            rest = content[len(voice.text) :]
            yield from self._write(voice, rest) if rest else ()
        else:
            # The client was too slow for some pieces, or they were of an answer that was given up.
            yield from self._end_text(voice)
            yield from self._write(voice, content)
        yield from self._end_text(voice)

    def call(self, voice: _Voice, event: Object) -> Iterator[Object]:
        yield from self._end_text(voice)
        own = {"tool_call_id": event["call_id"], "subagent_run_id": voice.subagent_run_id}
        yield make_event(
            "TOOL_CALL_START", tool_call_name=event["tool"], parent_message_id=voice.last_id, **own
        )
        arguments = event["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield make_event("TOOL_CALL_ARGS", delta=text, **own)
        yield make_event("TOOL_CALL_END", **own)

    def result(self, voice: _Voice, event: Object) -> Iterator[Object]:
        voice.last_id = None
        yield make_event(
            "TOOL_CALL_RESULT",
            message_id=f"{event['call_id']}-result",
            tool_call_id=event["call_id"],
            content=event["content"],
            role="tool",
            subagent_run_id=voice.subagent_run_id,
            metadata={"outcome": event["outcome"]},
        )

    def plan(self, voice: _Voice, event: Object) -> Iterator[Object]:
        yield make_event(
            "ACTIVITY_SNAPSHOT",
            message_id=f"{self._thread_id}-plan",
            activity_type="PLAN",
            content={"steps": event["steps"]},
            replace=True,
        )

    def step(self, voice: _Voice, event: Object) -> Iterator[Object]:
        name = event["step_id"]
        if name not in self._steps:
            self._steps.append(name)
            yield make_event("STEP_STARTED", step_name=name)
        if event["status"] in _FINISHED_STEPS:
            self._steps.remove(name)
            yield make_event("STEP_FINISHED", step_name=name)

    def start_agent(self, voice: _Voice, event: Object) -> Iterator[Object]:
        own = event["agent_id"]
        if own in self._voices:
            # It was interrupted and goes on.
            return
        self._voices[own] = _Voice(own)
        self._agents.append(own)
        parent = event.get("parent_id")
        yield make_event(
            "SUBAGENT_STARTED",
            subagent_run_id=own,
            name=event["agent"],
            description=event["description"] or None,
            parent_subagent_run_id=parent if parent in self._agents else None,
        )

    def end_agent(self, voice: _Voice, event: Object) -> Iterator[Object]:
        yield from self._finish_agent(event["agent_id"], event["status"])

    def _finish_agent(self, agent_id: str, status: str) -> Iterator[Object]:
        if agent_id not in self._agents:
            return
        self._agents.remove(agent_id)
        yield from self._end_reasoning(self._voices[agent_id])
        yield from self._end_text(self._voices[agent_id])
        if status in ("needs_approval", "needs_decision", "interrupted", *_ANSWERED):
            kind = "success" if status in _ANSWERED else "suspended"
            yield make_event("SUBAGENT_FINISHED", subagent_run_id=agent_id, outcome={"type": kind})
        else:
            yield make_event("SUBAGENT_ERROR", subagent_run_id=agent_id, message=f"It ended: {status}.")

    def note_model(self, voice: _Voice, event: Object) -> Iterator[Object]:
        self._model = event["model"]
        yield from ()

    def notice(self, voice: _Voice, event: Object) -> Iterator[Object]:
        yield make_event("CUSTOM", name="notice", value={"message": event["message"]})

    def _usage(self, usage: Any) -> Object:
        provider, _, model = self._model.partition("/")
        labels = {"provider": provider if model else None, "model": model or self._model or None}
        counts = {
            "inputTokens": usage.get("input_tokens"),
            "outputTokens": usage.get("output_tokens"),
            "cachedInputTokens": usage.get("cache_read_tokens"),
            "cacheWriteInputTokens": usage.get("cache_write_tokens"),
        }
        return {name: value for name, value in {**labels, **counts}.items() if value is not None}


_TRANSLATIONS: dict[str, Callable[[Translator, _Voice, Object], Iterator[Object]]] = {
    "init": Translator.note_model,
    "thinking": Translator.think,
    "text": Translator.write_piece,
    "message": Translator.end_message,
    "tool_use": Translator.call,
    "tool_result": Translator.result,
    "plan": Translator.plan,
    "step": Translator.step,
    "notice": Translator.notice,
    "agent_started": Translator.start_agent,
    "agent_finished": Translator.end_agent,
}


def make_interrupts(pending: Iterable[Object]) -> list[Object]:
    """Return the interrupts of calls that wait for a decision. The id of an interrupt is that of its call."""
    return [_make_interrupt(call) for call in pending]


def _make_interrupt(call: Object) -> Object:
    is_approval = call["kind"] == "approval"
    schema = make_approval_schema("agent_id" not in call) if is_approval else OUTCOME_SCHEMA
    return {
        "id": call["call_id"],
        "reason": "tool_call" if is_approval else "outcome_unknown",
        "message": f"{call['tool']}: {call['reason']}",
        "toolCallId": call["call_id"],
        "responseSchema": schema,
        "metadata": {name: call[name] for name in ("tool", "arguments", "kind", "changes") if name in call},
    }
