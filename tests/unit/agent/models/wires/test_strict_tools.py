"""Tools are declared strictly where their schemas allow it, and what that adds to arguments is taken away."""

from pathlib import Path
from typing import Any

import pytest
from support.models.server import ModelServer, Request, call, fail, say
from support.models.talk import connect_to_model, environment, talk

from sandbur import Agent, tool
from sandbur.actions.ports import ModelRequest, ToolSpec, build_object_schema
from sandbur.actions.turn.output.strict_schema import without_added_nulls
from sandbur.agent.models.wires.strict_tools import StrictBudget, select_strict, strict_parameters
from sandbur.state.conversation.messages import person_message
from sandbur.state.conversation.transcript import Transcript


def spec(properties: dict[str, Any], required: list[str], name: str = "act") -> ToolSpec:
    return ToolSpec(name, "Act.", build_object_schema(properties, required))


def test_every_field_is_required_and_an_optional_one_may_be_null() -> None:
    inner = build_object_schema({"street": {"type": "string"}, "floor": {"type": "integer"}}, ["street"])
    made = strict_parameters(spec({"city": {"type": "string"}, "to": inner}, ["city"]))
    assert made is not None
    assert made["required"] == ["city", "to"]
    assert made["properties"]["to"]["anyOf"][1] == {"type": "null"}
    place = made["properties"]["to"]["anyOf"][0]
    assert place["required"] == ["street", "floor"]
    assert place["additionalProperties"] is False
    assert place["properties"]["floor"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "array"},
        {},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}},
        {"allOf": [{"type": "string"}]},
    ],
)
def test_a_schema_that_nobody_enforces_makes_the_tool_not_strict(schema: dict[str, Any]) -> None:
    assert strict_parameters(spec({"x": schema}, ["x"])) is None


def test_what_strict_schemas_cannot_hold_is_part_of_the_description() -> None:
    made = strict_parameters(
        spec(
            {
                "unit": {"type": "string", "default": "km", "description": "How far."},
                "link": {"type": "string", "format": "uri", "minLength": 3},
                "format": {"type": "string", "format": "date"},
            },
            ["link", "format"],
        )
    )
    assert made is not None
    fields = made["properties"]
    assert fields["unit"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": 'How far. Null means "km".',
    }
    assert fields["link"] == {"type": "string", "description": "{format: uri} {minLength: 3}"}
    assert fields["format"] == {"type": "string", "format": "date"}


def test_nulls_that_a_strict_schema_made_necessary_are_dropped_at_any_depth() -> None:
    inner = build_object_schema({"a": {"type": "string"}, "b": {"type": ["string", "null"]}}, ["a"])
    schema = build_object_schema({"one": inner, "many": {"type": "array", "items": inner}}, [])
    given = {"one": None, "many": [{"a": "x", "b": None}, {"a": None, "b": "y"}]}
    assert without_added_nulls(schema, given, schema) == {
        "many": [{"a": "x", "b": None}, {"a": None, "b": "y"}]
    }


def test_a_request_holds_no_more_strict_tools_than_the_provider_accepts() -> None:
    tools = [spec({"x": {"type": "string"}}, [], f"tool_{n}") for n in range(6)]
    assert list(select_strict(tools, (), StrictBudget(tools=4, unions=9))) == [f"tool_{n}" for n in range(4)]
    assert list(select_strict(tools, (), StrictBudget(tools=9, unions=2))) == ["tool_0", "tool_1"]


MODELS = {
    "chat": "openai-chat/gpt-test",
    "responses": "openai-responses/gpt-test",
    "messages": "anthropic/claude-sonnet-5-5",
}
SEARCH = spec({"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"], "search")
ANYTHING = spec({"value": {}}, ["value"], "store")


def ask(strict_tools: bool) -> ModelRequest:
    history = Transcript.of(person_message("hello"))
    return ModelRequest("", (SEARCH, ANYTHING), (history,), strict_tools=strict_tools)


def declared(request: Request) -> dict[str, dict[str, Any]]:
    """Return the declarations of the tools in a request by name."""
    tools = [tool.get("function", tool) for tool in request.body["tools"]]
    return {tool["name"]: tool for tool in tools}


@pytest.mark.parametrize("wire", MODELS)
async def test_a_tool_is_strict_where_its_schema_allows_it(wire: str) -> None:
    async with ModelServer([say("Hi.")] * 2) as server, connect_to_model(server, MODELS[wire]) as model:
        await talk(model, ask(strict_tools=True))
        await talk(model, ask(strict_tools=False))
        strict, plain = map(declared, server.requests)
    key = "input_schema" if wire == "messages" else "parameters"
    assert strict["search"]["strict"] is True
    assert strict["search"][key]["required"] == ["query", "limit"]
    assert not strict["store"].get("strict")
    assert strict["store"][key] == ANYTHING.parameters
    assert not plain["search"].get("strict")
    assert plain["search"][key] == SEARCH.parameters


REFUSALS = {
    "chat": "Unknown parameter: 'tools[0].function.strict'.",
    "responses": "Invalid schema for function 'search': 'limit' is not permitted.",
    "messages": "tools.0.custom.strict: Extra inputs are not permitted",
}


@pytest.mark.parametrize("wire", MODELS)
async def test_a_server_that_refuses_strict_tools_gets_plain_ones_from_then_on(wire: str) -> None:
    turns = [fail(400, REFUSALS[wire]), say("Hi."), say("Hi.")]
    async with ModelServer(turns) as server, connect_to_model(server, MODELS[wire]) as model:
        await talk(model, ask(strict_tools=True))
        await talk(model, ask(strict_tools=True))
        found = [bool(declared(request)["search"].get("strict")) for request in server.requests]
    assert found == [True, False, False]


async def test_an_unknown_server_gets_plain_tools() -> None:
    async with ModelServer([say("Hi.")]) as server, connect_to_model(server, "openai/gpt-test") as model:
        await talk(model, ask(strict_tools=True))
        [request] = server.requests
    assert "strict" not in declared(request)["search"]


@tool(effect="read")
def count(word: str, limit: int = 3, note: str | None = None) -> str:
    """Count a word."""
    return f"{word} {limit} {note}"


async def test_a_session_keeps_the_form_of_tools_that_it_began_with(tmp_path: Path) -> None:
    turns = [call("count", word="a", limit=None, note=None), say("Three."), say("Again."), say("New.")]
    async with ModelServer(turns) as server:
        env = environment(server) | {"SANDBUR_HOME": str(tmp_path)}
        store = f"sqlite:///{tmp_path}/runs.db"
        plain = Agent(MODELS["chat"], tools=[count], store=store, env=env, strict_tools=False)
        first = await plain.run("hello", session_id="old")
        agent = Agent(MODELS["chat"], tools=[count], store=store, env=env)
        await agent.run("again", session_id="old")
        await agent.run("hello", session_id="new")
        messages = server.requests[1].body["messages"]
        tools = [request.body["tools"] for request in server.requests]
    assert first.output == "Three."
    assert messages[-1]["content"] == "a 3 None"
    assert tools[0] == tools[1] == tools[2]
    assert "strict" not in str(tools[0])
    assert tools[3][0]["function"]["strict"] is True
