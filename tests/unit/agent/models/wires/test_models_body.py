"""Bodies of long histories: rendered once, joined once, flat in cost."""

import json
import statistics
import time

from support.models.talk import SYSTEM, TOOLS

from sandbur.actions.ports import ModelRequest
from sandbur.agent.models.providers import PROFILES, Endpoint
from sandbur.agent.models.requests import Bodies
from sandbur.agent.models.wires.anthropic_messages import AnthropicMessagesDialect
from sandbur.agent.models.wires.openai_chat import OpenAIChatDialect
from sandbur.agent.models.wires.openai_responses import OpenAIResponsesDialect
from sandbur.state.conversation.messages import Message, ToolResult, ToolUse, person_message, tool_message
from sandbur.state.conversation.transcript import Transcript

WITH_ALL: frozenset[str] = frozenset()


def dialects() -> list[OpenAIChatDialect | OpenAIResponsesDialect | AnthropicMessagesDialect]:
    ends = [
        Endpoint(PROFILES[name], "m", "http://h", "k", "K", sends_ambient_headers=False)
        for name in ("openai-chat", "openai-responses", "anthropic")
    ]
    return [OpenAIChatDialect(ends[0]), OpenAIResponsesDialect(ends[1]), AnthropicMessagesDialect(ends[2])]


def round_of(number: int) -> tuple[Message, Message]:
    use = ToolUse(call_id=f"call_{number}", tool="t", arguments='{"n": 1}')
    result = ToolResult(call_id=use.call_id, tool="t", outcome="ok", content=f"{number} " + "x" * 2000)
    return Message(role="assistant", origin="model", blocks=(use,)), tool_message(result)


def test_a_body_built_step_by_step_equals_one_built_at_once():
    for dialect, fresh in zip(dialects(), dialects(), strict=True):
        bodies, history = Bodies(dialect), Transcript.of(person_message("go"))
        for number in range(300):
            history = history.append(*round_of(number))
            stepwise = bodies.build(ModelRequest(SYSTEM, TOOLS, (history,)), WITH_ALL)
        at_once = Bodies(fresh).build(ModelRequest(SYSTEM, TOOLS, (history,)), WITH_ALL)
        assert stepwise.content == at_once.content
        assert (
            len(json.loads(stepwise.content)[{"responses": "input"}.get(dialect.path[1:], "messages")]) >= 600
        )


def test_a_late_turn_costs_little_more_than_an_early_one():
    for dialect in dialects():
        bodies, history, times = Bodies(dialect), Transcript.of(person_message("go")), []
        for number in range(800):
            history = history.append(*round_of(number))
            request = ModelRequest(SYSTEM, TOOLS, (history,))
            began = time.perf_counter()
            bodies.build(request, WITH_ALL)
            times.append(time.perf_counter() - began)
        # Copying 1.7 MB into one piece is all that grows.
        assert statistics.median(times[-50:]) < statistics.median(times[:50]) + 0.002


def test_two_histories_that_share_their_beginning_do_not_mix():
    (dialect, *_) = dialects()
    bodies = Bodies(dialect)
    shared = Transcript.of(person_message("start"))
    left = shared.append(person_message("left"))
    right = shared.append(person_message("right"))
    for history, last in (
        (left, "left"),
        (right, "right"),
        (shared, "start"),
        (left, "left"),
        (right, "right"),
    ):
        body = json.loads(bodies.build(ModelRequest(SYSTEM, TOOLS, (history,)), WITH_ALL).content)
        assert [message["content"] for message in body["messages"]][-1] == last
        assert len(body["messages"]) == 1 + len(history)


def test_many_sessions_can_share_one_model():
    (dialect, *_) = dialects()
    bodies = Bodies(dialect)
    histories = [Transcript.of(person_message(f"session {n}")) for n in range(20)]
    for turn in range(3):
        for number, history in enumerate(histories):
            body = json.loads(bodies.build(ModelRequest(SYSTEM, TOOLS, (history,)), WITH_ALL).content)
            assert body["messages"][1]["content"] == f"session {number}"
            assert len(body["messages"]) == 2 + 2 * turn
            histories[number] = history.append(*round_of(turn))


def test_each_session_keeps_its_own_system_prompt_and_tools():
    (dialect, *_) = dialects()
    bodies = Bodies(dialect)
    history = Transcript.of(person_message("hi"))
    for system in ("one", "two", "one"):
        body = json.loads(bodies.build(ModelRequest(system, TOOLS, (history,)), WITH_ALL).content)
        assert body["messages"][0]["content"] == system
    assert "tools" not in json.loads(bodies.build(ModelRequest("one", (), (history,)), WITH_ALL).content)
