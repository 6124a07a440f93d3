"""Calls are compared with the right ones by the rules of BFCL."""

from typing import Any

import pytest

from sandbur.agent.review.evaluation.suites.call_match import choose_arguments, find_difference

SCHEMA: dict[str, Any] = {
    "type": "dict",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "limit": {"type": "float"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "dict"},
        "exact": {"type": "boolean"},
    },
    "required": ["city"],
}
ALLOWED: dict[str, Any] = {
    "city": ["New York, NY", "NYC"],
    "days": [3, ""],
    "limit": [2.0, ""],
    "tags": [["a", "b"], ""],
    "place": [{"street": ["Main St."], "number": [5, ""]}, ""],
    "exact": [True, ""],
}


def compare(**arguments: Any) -> str:
    return find_difference([("find", arguments)], [("find", ALLOWED)], {"find": SCHEMA})


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "NYC"},
        {"city": "new york ny", "days": 3},
        {"city": "NYC", "limit": 2},
        {"city": "NYC", "tags": ["A", "b"]},
        {"city": "NYC", "place": {"street": "main st", "number": 5}},
        {"city": "NYC", "place": {"street": "Main St."}, "exact": True},
    ],
)
def test_allowed_values_match_whatever_their_case_and_punctuation(arguments: dict[str, Any]) -> None:
    assert compare(**arguments) == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "without city"),
        ({"city": "Boston"}, "city is 'Boston'"),
        ({"city": "NYC", "days": "3"}, "days is '3'"),
        ({"city": "NYC", "days": 3.0}, "days is 3.0"),
        ({"city": "NYC", "days": True}, "days is True"),
        ({"city": "NYC", "tags": ["b", "a"]}, "tags is"),
        ({"city": "NYC", "place": {"number": 5}}, "place is"),
        ({"city": "NYC", "place": {"street": "Main St.", "zip": 1}}, "place is"),
        ({"city": "NYC", "exact": 1}, "exact is 1"),
        ({"city": "NYC", "other": 1}, "no right argument other"),
    ],
)
def test_another_value_type_or_argument_does_not_match(arguments: dict[str, Any], problem: str) -> None:
    assert problem in compare(**arguments)


def test_an_argument_that_is_not_optional_may_not_be_missing() -> None:
    allowed = {"city": ["NYC"], "days": [3]}
    assert "without days" in find_difference(
        [("find", {"city": "NYC"})], [("find", allowed)], {"find": SCHEMA}
    )


def test_several_calls_match_in_any_order_and_each_once() -> None:
    right = [("find", {"city": ["A"]}), ("find", {"city": ["B"]})]
    schemas = {"find": SCHEMA}
    assert find_difference([("find", {"city": "B"}), ("find", {"city": "A"})], right, schemas) == ""
    assert find_difference([("find", {"city": "A"}), ("find", {"city": "A"})], right, schemas) != ""
    assert "1 calls instead of 2" in find_difference([("find", {"city": "A"})], right, schemas)
    assert "look was called" in find_difference([("look", {}), ("find", {"city": "B"})], right, schemas)


def test_the_chosen_arguments_are_right() -> None:
    chosen = choose_arguments({**ALLOWED, "unknown": ["x", ""]}, SCHEMA)
    assert chosen["place"] == {"street": "Main St.", "number": 5}
    assert "unknown" not in chosen
    assert compare(**chosen) == ""
