"""The form of an answer on the three wires: asked for natively where that is known to work, else a tool."""

import json
from typing import Any

import pytest
from support.models.server import ModelServer, Request, call, fail, say
from support.models.talk import SHELL, WIRES, connect_to_model, environment, talk

from sandbur.actions.ports import ModelRequest
from sandbur.actions.turn.output.format import OutputFormat, output_format, output_schema
from sandbur.actions.turn.plan.decision_tools import FINAL_ANSWER, final_answer
from sandbur.agent.models.connect import connect
from sandbur.state.conversation.messages import person_message
from sandbur.state.conversation.transcript import Transcript

SCHEMA = {
    "title": "Weather report",
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "degrees": {"type": "integer", "minimum": -90, "description": "Celsius."},
        "wind": {"type": "number"},
    },
    "required": ["city", "degrees"],
}
ANSWER = '{"city": "Oslo", "degrees": -3, "wind": null}'
MODELS = {
    "chat": "openai-chat/gpt-test",
    "responses": "openai-responses/gpt-test",
    "messages": "anthropic/claude-sonnet-5-5",
}


def form(schema: Any = SCHEMA) -> OutputFormat:
    return output_format(output_schema(schema))


def asking(output: OutputFormat, forced: str | None = None) -> ModelRequest:
    tools = (SHELL, final_answer(output.request_schema))
    return ModelRequest("You are a test.", tools, (Transcript.of(person_message("hello")),), forced, output)


def native(request: Request) -> dict[str, Any] | None:
    """Return what a request says of the form of its answer."""
    body = request.body
    if "response_format" in body:
        assert body["response_format"]["type"] == "json_schema"
        return body["response_format"]["json_schema"]
    if "text" in body:
        assert body["text"]["format"]["type"] == "json_schema"
        return body["text"]["format"]
    if "format" in body.get("output_config", {}):
        assert body["output_config"]["format"]["type"] == "json_schema"
        return body["output_config"]["format"]
    return None


def closed(schema: Any) -> bool:
    """Tell whether every object is closed and requires every field, as providers want it."""
    if isinstance(schema, list):
        return all(map(closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    return all(map(closed, schema.values()))


@pytest.mark.parametrize("wire", WIRES)
async def test_the_form_is_asked_for_natively_and_tools_stay_offered(wire: str) -> None:
    async with ModelServer([say(ANSWER)]) as server, connect_to_model(server, MODELS[wire]) as model:
        reply = (await talk(model, asking(form()))).reply
        [request] = server.requests
    assert reply.message.text == ANSWER
    asked = native(request)
    assert asked is not None
    assert closed(asked["schema"])
    assert set(asked["schema"]["properties"]) == {"city", "degrees", "wind"}
    if wire != "messages":
        assert (asked["name"], asked["strict"]) == ("Weather_report", True)
    assert "run_shell_command" in json.dumps(request.body["tools"])
    assert "tool_choice" not in request.body


async def test_limits_that_claude_does_not_know_are_told_in_words() -> None:
    async with ModelServer([say(ANSWER)]) as server, connect_to_model(server, MODELS["messages"]) as model:
        await talk(model, asking(form()))
        asked = native(server.requests[0])
    assert asked is not None
    assert asked["schema"]["properties"]["degrees"] == {
        "type": "integer",
        "description": "Celsius. {minimum: -90}",
    }
    assert "minLength: 2" in asked["schema"]["properties"]["city"]["description"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_calls_tools_before_it_answers(wire: str) -> None:
    turns = [call("run_shell_command", command="ls"), say(ANSWER)]
    async with ModelServer(turns) as server, connect_to_model(server, MODELS[wire]) as model:
        reply = (await talk(model, asking(form()))).reply
    assert [use.tool for use in reply.message.tool_uses] == ["run_shell_command"]


REFUSALS = {
    "chat": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "responses": "Invalid schema for text.format: not supported by this model",
    "messages": "output_config: Extra inputs are not permitted",
}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_does_not_know_it_is_asked_without(wire: str) -> None:
    turns = [fail(400, REFUSALS[wire]), say(ANSWER), call(FINAL_ANSWER, city="Oslo", degrees=1, wind=None)]
    async with ModelServer(turns) as server, connect_to_model(server, MODELS[wire]) as model:
        await talk(model, asking(form()))
        await talk(model, asking(form(), forced=FINAL_ANSWER))
        first, second, third = server.requests
    assert [native(one) is not None for one in (first, second, third)] == [True, False, False]
    assert first.body["tools"] == second.body["tools"]
    is_thinking = wire == "messages"
    assert ("tool_choice" in third.body) is not is_thinking


@pytest.mark.parametrize("wire", WIRES)
async def test_a_repair_is_native_too_and_forces_no_tool(wire: str) -> None:
    async with ModelServer([say(ANSWER)]) as server, connect_to_model(server, MODELS[wire]) as model:
        await talk(model, asking(form(), forced=FINAL_ANSWER))
        [request] = server.requests
    assert native(request) is not None
    assert "tool_choice" not in request.body


FOREIGN = ["openai/gpt-test", "anthropic/claude-test", "deepseek/x", "openrouter/x/y", "gemini/gemini-4"]


@pytest.mark.parametrize("name", FOREIGN)
async def test_where_it_might_keep_a_model_from_calling_tools_there_is_the_tool_alone(name: str) -> None:
    answer = call(FINAL_ANSWER, city="Oslo", degrees=1, wind=None)
    async with ModelServer([answer] * 2) as server, connect_to_model(server, name) as model:
        reply = (await talk(model, asking(form()))).reply
        await talk(model, asking(form(), forced=FINAL_ANSWER))
        assert [native(request) for request in server.requests] == [None, None]
        assert FINAL_ANSWER in json.dumps(server.requests[1].body["tool_choice"])
    assert [use.tool for use in reply.message.tool_uses] == [FINAL_ANSWER]


def test_the_provider_itself_is_asked_natively_at_its_own_address() -> None:
    model = connect("openai/gpt-6.1-sol", env={"OPENAI_API_KEY": "sk-test"})
    assert model._dialect.formats(form(), frozenset())
    with ModelServer() as server:
        foreign = connect("openai/gpt-6.1-sol", env=environment(server))
    assert not foreign._dialect.formats(form(), frozenset())


@pytest.mark.parametrize("wire", WIRES)
async def test_a_schema_that_nobody_can_be_held_to_is_a_hint_or_a_tool(wire: str) -> None:
    open_form = form({"type": "object", "additionalProperties": {"type": "integer"}})
    async with ModelServer([say('{"a": 1}')]) as server, connect_to_model(server, MODELS[wire]) as model:
        await talk(model, asking(open_form))
        asked = native(server.requests[0])
    assert (asked is None) == (wire == "messages")
    if asked is not None:
        assert asked["strict"] is False


@pytest.mark.parametrize("wire", WIRES)
async def test_a_request_with_a_form_extends_one_without(wire: str) -> None:
    async with ModelServer([say(ANSWER)] * 2) as server, connect_to_model(server, MODELS[wire]) as model:
        with_form = asking(form())
        without = ModelRequest(with_form.system, with_form.tools, with_form.histories)
        await talk(model, without)
        await talk(model, with_form)
        one, other = (request.raw for request in server.requests)
    shared = len(one.rstrip(b"]}")) - len(b',"output_config":{"effort":"x"')
    assert other[:shared] == one[:shared]


async def test_effort_and_form_share_one_field_of_a_claude_request() -> None:
    async with ModelServer([say(ANSWER)]) as server:
        async with connect_to_model(server, MODELS["messages"], effort="low") as model:
            await talk(model, asking(form()))
        [request] = server.requests
    assert request.body["output_config"]["effort"] == "low"
    assert native(request) is not None
    assert request.raw.count(b'"output_config"') == 1
