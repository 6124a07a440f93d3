"""Schemas that others wrote become tools, in whatever words, and arguments are checked against them."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.samples.texts import any_text
from support.tool_servers.foreign_schemas import Foreign, functions, questions
from support.tools.tool_calls import call, context

from sandbur import RunContext, Tool
from sandbur.actions.ports import BadArguments, build_object_schema
from sandbur.actions.tools.functions.function_tool import FunctionTool
from sandbur.actions.tools.functions.schemas.schema_tool import usable_name
from sandbur.state.errors import UsageError

TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def tool_of(schema: Any, name: str = "act", description: str = "") -> FunctionTool[..., Any]:
    return Tool.from_schema(name, schema, echo, description=description)


def foreign(one: Foreign) -> FunctionTool[..., Any]:
    """Return the tool; that of a function which stands in many questions is made once."""
    key = json.dumps(one)
    if key not in _MADE:
        _MADE[key] = tool_of(one.parameters, one.name, one.description)
    return _MADE[key]


_MADE: dict[str, FunctionTool[..., Any]] = {}


def filling(schema: Any) -> Any:
    """Return a value that fits a schema."""
    if not isinstance(schema, dict):
        return "x"
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        required = dict.fromkeys(schema.get("required", ()), "x")
        return {**required, **{name: filling(one) for name, one in schema.get("properties", {}).items()}}
    if kind == "array":
        return [filling(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
    plain = {"string": "x", "number": 0.5, "integer": schema.get("minimum", 1), "boolean": True}
    return plain.get(kind, "x")


def types_of(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type", [])
    found = set(kind) if isinstance(kind, list) else {kind}
    inside = [*schema.get("properties", {}).values(), schema.get("items")]
    return found.union(*map(types_of, inside))


@pytest.mark.slow
def test_every_schema_of_others_becomes_a_tool_in_the_usual_words():
    count = 0
    for one in functions():
        made = foreign(one)
        assert made.spec.parameters["type"] == "object"
        assert types_of(made.spec.parameters) <= TYPES
        assert set(made.spec.parameters["properties"]) == set(one.parameters.get("properties", {}))
        assert usable_name(made.spec.name) == made.spec.name
        count += 1
    assert count > 4000


@pytest.mark.slow
def test_what_fits_a_schema_of_others_is_taken_and_what_does_not_is_answered():
    for made in {id(made): made for made in map(foreign, functions())}.values():
        fitting = filling(made.spec.parameters)
        try:
            assert made.parse(json.dumps(fitting)).values == {"arguments": fitting}
        except BadArguments as error:
            # An enum of another type than the one that is declared for it: nothing fits.
            assert "is not of type" in str(error)  # noqa: PT017
        for wrong in ("[]", "{", '"x"', "null", json.dumps({name: {"no": [1]} for name in fitting})):
            answered(made, wrong)
        for missing in made.spec.parameters["required"]:
            rest = {name: value for name, value in fitting.items() if name != missing}
            with pytest.raises(BadArguments, match=r"is a required property|is not"):
                made.parse(json.dumps(rest))


@pytest.mark.slow
def test_the_answers_that_are_known_to_be_right_are_taken():
    """All but those few that do not fit their own schema."""
    right, refused = 0, []
    for question in questions():
        made = {one.name: foreign(one) for one in question.functions}
        for name, arguments in question.answers:
            if name in made:
                right += 1
                refused += answered(made[name], json.dumps(arguments))
    assert right > 3000
    assert len(refused) < right * 0.015
    assert all("Expected: " in sentence for sentence in refused)


def answered(made: FunctionTool[..., Any], text: str) -> list[str]:
    """Return the sentence that refuses the arguments, if one does."""
    try:
        made.parse(text)
    except BadArguments as told:
        return [str(told)]
    return []


async def test_the_function_gets_the_arguments_and_what_is_injected():
    async def send(given: dict[str, Any], run: RunContext) -> list[Any]:
        return [given, run.call_id]

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = Tool.from_schema("send", schema, send, effect="read")
    assert (await call(made, context(), a=1)).content == '[{"a":1},"c1"]'
    assert made.effect == "read"


SCHEMA = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "pattern": "^[^@]+@[^@]+$"},
        "count": {"type": "integer", "minimum": 1},
        "to": {"$ref": "#/$defs/Place"},
    },
    "required": ["email"],
    "additionalProperties": False,
    "$defs": {"Place": {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", 'act: "email" is a required property. Expected: email (string), count (integer, optional)'),
        ('{"email": "a@b", "count": 0}', "act: count is less than the minimum of 1, got 0. Expected"),
        ('{"email": "a@b", "to": {"city": 5}}', 'act: to.city is not of type "string", got 5. Expected'),
        ('{"email": "hunter2"}', 'act: email does not match "^[^@]+@[^@]+$", got a string. Expected'),
        ('{"email": "a@b", "x": 1}', "act: Additional properties are not allowed ('x' was unexpected)."),
        ('{"email": "a@b", "email": "c@d"}', '"email" is given more than once'),
    ],
)
def test_what_does_not_fit_is_said_without_repeating_texts(text: str, told: str):
    with pytest.raises(BadArguments) as raised:
        tool_of(SCHEMA).parse(text)
    assert told in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_null_for_what_may_be_left_out_is_left_out():
    assert tool_of(SCHEMA).parse('{"email": "a@b", "count": null, "to": null}').raw == {"email": "a@b"}
    with pytest.raises(BadArguments, match="email is not of type"):
        tool_of(SCHEMA).parse('{"email": null}')


def test_the_model_gets_the_schema_without_references_and_titles():
    made = tool_of({**SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://x/y"})
    assert made.spec.parameters["properties"]["to"] == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
    }
    assert not {"$defs", "$schema", "$id"} & set(made.spec.parameters)


def test_words_of_programming_languages_and_older_drafts_become_the_usual_ones():
    made = tool_of({
        "type": "dict",
        "properties": {
            "a": {"type": "HashMap"},
            "b": {"type": "any", "required": True},
            "c": {"type": "tuple", "items": [{"type": "float"}, {"type": "String"}]},
            "d": {"type": ["int", "none"], "minimum": 0, "exclusiveMinimum": True},
        },
    })  # fmt: skip
    assert made.spec.parameters["properties"] == {
        "a": {"type": "object"},
        "b": {},
        "c": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]},
        "d": {"type": ["integer", "null"], "exclusiveMinimum": 0},
    }
    assert answered(made, '{"d": 0}')
    assert made.parse('{"d": 1}').raw == {"d": 1}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, "The tool act: its parameters must be an object, not string."),
        ({"properties": {"a": {"pattern": "("}}}, "The tool act: its parameters are not a JSON schema"),
        ({"properties": {"a": {"minimum": "x"}}}, "The tool act: its parameters are not a JSON schema"),
        (
            {"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}},
            "The tool act: its parameters are not a JSON",
        ),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "The tool act: its parameters are not a JSON schema"),
    ],
)
def test_what_is_no_schema_is_one_sentence(schema: Any, told: str):
    with pytest.raises(UsageError) as raised:
        tool_of(schema)
    assert str(raised.value).startswith(told)
    assert "\n" not in str(raised.value)


def test_a_schema_that_is_nested_without_end_is_one_sentence():
    schema: Any = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(UsageError, match="nested too deeply"):
        tool_of(schema)


def test_a_pattern_that_would_search_for_ever_gives_up():
    made = tool_of({"properties": {"a": {"type": "string", "pattern": r"^(?=(a+)+$)(a|a)*\1$"}}})
    began = time.monotonic()
    answered(made, json.dumps({"a": "a" * 40 + "!"}))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda: None, "its function does not take `city`"),
        (lambda city: None, "its function does not take `days`"),
        (lambda city, days, more: None, "its function needs `more`, which is not in its schema"),
    ],
)
def test_a_function_that_cannot_take_the_arguments_is_refused(function: Any, problem: str):
    schema = build_object_schema({"city": {"type": "string"}, "days": {"type": "integer"}})
    with pytest.raises(UsageError, match=problem):
        _ = Tool.from_schema("act", schema, function).spec


async def test_a_function_takes_the_arguments_by_name_or_as_one_dict():
    schema = {"type": "object", "properties": {"city": {"type": "str"}, "days": {"type": "int"}}}

    async def by_name(days: int = 1, *, city: str, run: RunContext) -> str:
        return f"{city} {days} {run.call_id}"

    def rest(**arguments: Any) -> dict[str, Any]:
        return arguments

    for function, found in ((by_name, "Oslo 1 c1"), (rest, '{"city":"Oslo"}'), (echo, '{"city":"Oslo"}')):
        assert (await call(Tool.from_schema("look", schema, function), city="Oslo")).content == found


def test_names_that_are_not_ascii_stay_different():
    names = ("天气", "时间", "math.add", "math_add2")
    made = [tool_of({}, name).spec.name for name in names]
    assert len(set(made)) == len(names)
    assert made[2:] == ["math_add", "math_add2"]
    assert all(usable_name(name) == name for name in made)


@given(any_text(min_size=1))
def test_every_name_becomes_one_that_models_can_call(name: str):
    assert tool_of({}, usable_name(name)).spec.name == usable_name(name)


SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from([*sorted(TYPES), "dict", "Any", "float", 3])}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "dict", "array", "list"]),
            "properties": st.dictionaries(any_text(max_size=5), inner, max_size=3),
            "items": inner | st.lists(inner, max_size=2) | st.booleans(),
            "required": st.lists(any_text(max_size=5), max_size=2) | st.booleans(),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(st.integers(), max_size=2) | any_text(),
            "title": any_text(),
            "description": any_text() | st.integers(),
        },
    ),
    max_leaves=8,
)


@given(SCHEMAS, any_text())
def test_any_schema_is_a_tool_or_a_sentence_and_so_are_its_arguments(schema: Any, text: str):
    try:
        made = tool_of(schema)
    except UsageError:
        return
    json.dumps(dict(made.spec.parameters))
    for arguments in (text, "{}", json.dumps({text: None}), json.dumps(filling(made.spec.parameters))):
        answered(made, arguments)
