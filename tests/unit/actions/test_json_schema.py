"""Values are checked by a JSON schema: what does not fit is named, and what cannot be checked is refused."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.samples.texts import any_text

from sandbur.actions.turn.output.json_schema import BadSchema, problems, require_schema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {"node": {
        "type": "object",
        "properties": {
            "value": {"type": "number"},
            "below": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
        "required": ["value"],
    }},
    "$ref": "#/$defs/node",
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "x"], [1, None, ["x"]]),
        ({"type": "integer"}, [0, -1, 3.0], [True, 3.5, "3", None]),
        ({"type": "number"}, [0, 2.5], [False, "1"]),
        ({"type": "boolean"}, [True], [0, "true"]),
        ({"type": "null"}, [None], [0, False, ""]),
        ({"type": ["string", "null"]}, ["x", None], [1]),
        ({"enum": ["a", 1, None, [1]]}, ["a", 1, 1.0, None, [1]], [True, "b", [2]]),
        ({"const": {"a": [1]}}, [{"a": [1]}], [{"a": [True]}, {"a": [1, 1]}, {"b": [1]}]),
        ({"minimum": 1, "maximum": 3}, [1, 3, "no number"], [0, 4]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
        ({"multipleOf": 0.1}, [0.3, 1, 0], [0.35]),
        ({"minLength": 2, "maxLength": 3}, ["ab", "äöü", 7], ["a", "abcd"]),
        ({"pattern": "^a.c$"}, ["abc", 1], ["abcd", ""]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
         [[1]], [[], [1, 2, 3], ["a"]]),
        ({"uniqueItems": True}, [[1, 2], [1, True]], [[1, 1], [1, 1.0], [{"a": 1}, {"a": 1}]]),
        ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], []], [["a", 1], [1]]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}],
          "additionalItems": False}, [["a"]], [["a", 1]]),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        (PERSON, [{"name": "x"}, {"name": "x", "age": 3}], [{}, {"name": 1}, {"name": "x", "b": 1}, []]),
        ({"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": {"type": "string"}},
         [{"n_a": 1, "b": "x"}], [{"n_a": "x"}, {"b": 1}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["x", 1], [None, 1.5]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [2, 1.5]),
        ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, [2], [1, 2.5]),
        ({"not": {"type": "string"}}, [1], ["x"]),
        (TREE, [{"value": 1, "below": [{"value": 2}]}], [{"value": 1, "below": [{}]}]),
        ({}, [1, None, {"a": []}], []),
        ({"properties": {"a": False}}, [{}], [{"a": 1}]),
        ({"type": "object", "properties": {"a": {"$ref": "#/definitions/x~1y"}},
          "definitions": {"x/y": {"type": "string"}}}, [{"a": "s"}], [{"a": 1}]),
    ],
)  # fmt: skip
def test_what_fits_passes_and_what_does_not_is_found(schema: Any, good: list[Any], bad: list[Any]) -> None:
    require_schema(schema)
    assert [problems(schema, value) for value in good] == [[]] * len(good)
    assert all(problems(schema, value) for value in bad)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": 1}, 'name: it is not of type "string"'),
        ({"age": 1}, 'the answer: "name" is a required property'),
        ({"name": "x", "age": -1}, "age: it is less than the minimum of 0"),
        ({"name": "x", "street": 1}, "'street' was unexpected"),
        ([], 'the answer: it is not of type "object"'),
    ],
)
def test_a_problem_says_where_and_what(value: Any, said: str) -> None:
    assert said in "; ".join(problems(PERSON, value))


def test_of_several_forms_the_one_that_comes_nearest_is_told_of() -> None:
    schema = {"properties": {"who": {"anyOf": [PERSON, {"type": "null"}]}}}
    assert problems(schema, {"who": {"name": 1}}) == ['who.name: it is not of type "string"']


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "it is not an object"),
        ("x", "it is not an object"),
        ({"type": "text"}, '"text" is not valid'),
        ({"properties": []}, "properties: "),
        ({"properties": {"a": 1}}, "properties.a: "),
        ({"required": "a"}, "required: "),
        ({"minimum": True}, "minimum: "),
        ({"pattern": "("}, "pattern: "),
        ({"multipleOf": 0}, "multipleOf: "),
        ({"$ref": "#/$defs/a"}, "does not exist"),
        ({"$ref": "https://example.org/a.json"}, "https://example.org/a.json"),
        ({"$ref": "#"}, "refers to itself"),
    ],
)
def test_a_schema_that_cannot_be_checked_by_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(BadSchema) as refused:
        require_schema(schema)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_work_is_bounded_whatever_the_schema_and_the_value_are() -> None:
    circle = {"anyOf": [{"$ref": "#"}, {"type": "string"}]}
    require_schema(circle)
    assert isinstance(problems(circle, 1), list)
    value: Any = 1
    for _ in range(400):
        value = {"a": value}
    deep = {"properties": {"a": {"$ref": "#"}}, "type": ["object", "string"]}
    assert len(problems(deep, value)) == 1
    nested: Any = {}
    for _ in range(600):
        nested = {"items": nested}
    with pytest.raises(BadSchema, match="Recursion limit"):
        require_schema(nested)
    slow = {"pattern": r"^(a|a)*(?=b)$"}
    require_schema(slow)
    assert problems(slow, "a" * 60 + "c")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text(),
    lambda inner: st.lists(inner) | st.dictionaries(any_text(), inner),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(JSON, JSON)
def test_any_json_is_either_refused_as_a_schema_or_checks_any_value(schema: Any, value: Any) -> None:
    try:
        require_schema(schema)
    except BadSchema:
        return
    assert all(isinstance(problem, str) for problem in problems(schema, value))
    assert not problems({"const": json.loads(json.dumps(value))}, value)
