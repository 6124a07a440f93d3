"""Names of properties are not keywords: a parameter may bear any name that JSON Schema knows."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_specifications import REGISTRY
from support.tool_servers.configured import call_server_tool, hostile, open_servers

from sandbur import Tool, openapi_tools, tool
from sandbur.actions.ports import BadArguments, ToolSpec
from sandbur.actions.tools.functions.function_tool import FunctionTool
from sandbur.actions.tools.functions.named_files import NamedFiles
from sandbur.actions.tools.http.table_parser import endpoint_of
from sandbur.actions.tools.http.tables import HttpToolTable
from sandbur.actions.tools.http.tool import HttpTool
from sandbur.actions.turn.output.format import output_format, output_schema
from sandbur.agent.extensions.mcp.schemas import Arguments, usable
from sandbur.agent.models.wires.strict_tools import strict_parameters

Schema = dict[str, Any]
Parse = Callable[[str], Any]

_DOCUMENTS = (REGISTRY.contents(uri) for uri in REGISTRY)
KEYWORDS = sorted(
    {name for one in _DOCUMENTS if isinstance(one, dict) for name in one.get("properties", {})}
    | {"example", "nullable", "discriminator", "xml", "externalDocs", "x-order", "id", "self"}
)
"""The keywords of all versions of JSON Schema, and those of OpenAPI."""
IDENTIFIERS = [name for name in KEYWORDS if name.isidentifier() and name not in ("if", "else", "not")]
DATA = {"$ref": "#/nowhere", "pattern": "(", "format": "path", "type": "array", "properties": {"a": 1}}
"""A value that looks like a schema."""
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "uniqueItems")
names = st.lists(st.sampled_from(KEYWORDS), min_size=1, max_size=20, unique=True)
"""So few that the schemas, whose size grows with the square of the number, are within the limits."""


def make_schema(chosen: list[str], is_closed: bool, depth: int = 1) -> Schema:
    """Return a schema with these properties, which are texts, then objects with these properties again."""
    inner = make_schema(chosen, is_closed, depth - 1) if depth else {"type": "string", "minLength": 1}
    made: Schema = {"type": "object", "properties": dict.fromkeys(chosen, inner), "required": [*chosen]}
    return {**made, "additionalProperties": False} if is_closed else made


def make_value(chosen: list[str], depth: int = 1) -> dict[str, Any]:
    return dict.fromkeys(chosen, make_value(chosen, depth - 1) if depth else "word")


def of_server(schema: Schema) -> tuple[ToolSpec, Parse]:
    spec = ToolSpec("it", "", usable(schema))
    return spec, Arguments("it", spec.parameters).parse_arguments


def of_schema(schema: Schema) -> tuple[ToolSpec, Parse]:
    made: FunctionTool[..., Any] = Tool.from_schema("it", schema, lambda given: given)
    return made.spec, lambda text: made.parse(text).raw


def of_api(schema: Schema) -> tuple[ToolSpec, Parse]:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    api = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {
            "/it": {
                "post": {
                    "operationId": "it",
                    "requestBody": body,
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "api.json")
        file.write_text(json.dumps(api))
        (made,) = openapi_tools(file, ["it"])
    whole = made.spec.parameters["properties"].get("body")
    if whole is None:
        return made.spec, lambda text: made.parse(text).given
    spec = ToolSpec("it", "", whole)
    return spec, lambda text: made.parse(f'{{"body": {text}}}').given["body"]


@pytest.mark.parametrize("make", [of_server, of_schema, of_api])
@given(chosen=names, is_closed=st.booleans())
@settings(max_examples=25)
def test_parameters_are_named_like_any_keyword(
    make: Callable[[Schema], tuple[ToolSpec, Parse]], chosen: list[str], is_closed: bool
) -> None:
    spec, parse = make(make_schema(chosen, is_closed))
    value = make_value(chosen)
    properties = spec.parameters["properties"]
    assert set(properties) == set(chosen)
    assert all(set(one["properties"]) == set(chosen) for one in properties.values())
    assert parse(json.dumps(value)) == value
    if is_closed:
        with pytest.raises(BadArguments, match="another"):
            parse(json.dumps({**value, "another": "x"}))


@given(chosen=names)
@settings(max_examples=25)
def test_strict_forms_keep_parameters_named_like_keywords(chosen: list[str]) -> None:
    spec, _ = of_server(make_schema(chosen, is_closed=True))
    for moved in ((), ("minLength", "maxLength"), LIMITS):
        strict = strict_parameters(spec, moved)
        assert strict is not None
        assert [*strict["properties"]] == chosen
        assert all([*one["properties"]] == chosen for one in strict["properties"].values())
    listed = {"type": "array", "items": spec.parameters}
    form = output_format(output_schema(listed)).request_schema
    assert [*form["properties"]["value"]["items"]["properties"]] == chosen


@given(chosen=st.lists(st.sampled_from(IDENTIFIERS), min_size=1, unique=True))
@settings(max_examples=15)
def test_functions_and_requests_take_parameters_named_like_keywords(chosen: list[str]) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def it({', '.join(f'{name}: str' for name in chosen)}) -> str: ...", namespace)
    value = dict.fromkeys(chosen, "word")
    function = tool(namespace["it"])
    assert function.parse(json.dumps(value)).raw == value
    table = HttpToolTable.model_validate(
        {
            "description": "It.",
            "method": "POST",
            "url": "https://api.example/",
            "parameters": {name: {} for name in chosen},
            "body": {f"the {name}": f"{{{name}}}" for name in chosen},
        }
    )
    request = HttpTool(endpoint_of("it", table, "tools.toml"), {})
    assert request.parse(json.dumps(value)).given == value
    assert set(function.spec.parameters["properties"]) == set(request.spec.parameters["properties"])


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples"])
def test_values_in_a_schema_are_data_even_if_they_look_like_schemas(keyword: str) -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {keyword: DATA if keyword in ("default", "const") else [DATA]}},
    }
    spec, parse = of_server(schema)
    assert parse(json.dumps({"a": DATA})) == {"a": DATA}
    made, parse = of_schema(schema)
    assert parse(json.dumps({"a": DATA})) == {"a": DATA}
    if keyword != "examples":
        assert spec.parameters["properties"]["a"] == made.parameters["properties"]["a"]
    assert not NamedFiles(made.parameters).is_any


def test_properties_by_pattern_are_left_to_the_server_with_what_they_exclude() -> None:
    _, parse = of_server(
        {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    )
    assert parse('{"x-a": "b"}') == {"x-a": "b"}


@pytest.mark.parametrize("schema", [{"type": "object"}, make_schema([], is_closed=True)])
@pytest.mark.parametrize("make", [of_server, of_schema])
def test_null_is_accepted_as_the_arguments_of_a_tool_without_parameters(
    make: Callable[[Schema], tuple[ToolSpec, Parse]], schema: Schema
) -> None:
    _, parse = make(schema)
    assert parse("null") == {}
    _, parse = make(make_schema(["name"], is_closed=True, depth=0))
    with pytest.raises(BadArguments):
        parse("null")


async def test_a_server_whose_tool_has_every_keyword_as_a_parameter_is_called(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(make_schema(KEYWORDS, is_closed=True, depth=0)))
    server = hostile("own_schema", tmp_path)
    server.table.args.append(str(file))
    async with open_servers(server, folder=tmp_path) as (tools, _):
        value = dict.fromkeys(KEYWORDS, "word")
        outcome = await call_server_tool(tools["mcp__own-schema__act"], json.dumps(value))
    assert outcome.outcome == "ok"
    assert json.loads((tmp_path / "calls").read_text()) == value
