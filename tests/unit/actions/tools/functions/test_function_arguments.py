"""What a model gives is checked, and what does not fit is said so that it can be put right."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from support.samples.texts import any_text

from sandbur import tool
from sandbur.actions.ports import BadArguments


class Address(BaseModel):
    street: str
    number: int = 1


@dataclass
class Point:
    x: int
    y: int = 0


@tool
def order(
    email: str,
    count: Annotated[int, Field(ge=1, le=9)] = 1,
    home: Address | None = None,
    size: Literal["s", "m"] = "s",
    tags: list[str] = [],  # noqa: B006
    key: int | str = 0,
) -> None: ...


EXPECTED = (
    'Expected: email (string), count (integer, optional), home (object, optional), size (one of "s", "m",'
    " optional), tags (array, optional), key (integer or string, optional)."
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "email is missing"),
        ('{"email": 3}', "email must be a valid string, got 3"),
        ('{"email": "a", "mail": 1}', 'there is no argument "mail"'),
        ('{"email": "a", "count": 10}', "count must be less than or equal to 9, got 10"),
        ('{"email": "a", "count": "many"}', "count must be a valid integer, got a string"),
        ('{"email": "a", "home": {}}', "home.street is missing"),
        (
            '{"email": "a", "home": {"street": 1, "number": []}}',
            "home.number must be a valid integer, got an array",
        ),
        ('{"email": "a", "tags": ["x", 2]}', "tags[1] must be a valid string, got 2"),
        ('{"email": "a", "size": "xl"}', "size must be 's' or 'm', got a string"),
        ('{"email": "a", "key": []}', "key must be a valid integer or a valid string, got an array"),
        ('{"email": null}', "email must be a valid string, got null"),
        ("[]", "the arguments must be one JSON object, not an array"),
        ('{"email": "a", "email": "b"}', '"email" is given more than once'),
        ('{"email": NaN}', "NaN is not a JSON number"),
        ('{"email', "the arguments are not valid JSON"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(text: str, told: str):
    with pytest.raises(BadArguments) as raised:
        order.parse(text)
    assert str(raised.value).startswith("order: ")
    assert told in str(raised.value)
    assert str(raised.value).endswith(EXPECTED)
    assert "\n" not in str(raised.value)


def test_many_problems_are_counted():
    with pytest.raises(BadArguments, match=r"; and 2 more\. Expected"):
        order.parse('{"count": 0, "size": 1, "tags": 1, "key": []}')


def test_a_long_name_that_a_model_made_up_is_cut():
    with pytest.raises(BadArguments) as raised:
        order.parse(json.dumps({"email": "a", "x" * 10_000: 1}))
    assert len(str(raised.value)) < 500


def test_a_text_that_does_not_fit_is_not_repeated():
    with pytest.raises(BadArguments) as raised:
        order.parse('{"email": "a", "count": "hunter2"}')
    assert "hunter2" not in str(raised.value)


def test_null_for_what_has_a_default_is_the_default():
    given = order.parse('{"email": "a", "count": null, "home": null, "tags": null}')
    assert given.values == {"email": "a", "count": 1, "home": None, "size": "s", "tags": [], "key": 0}
    assert given.raw == {"email": "a"}


def test_null_stays_null_where_it_means_something():
    @tool
    def limit(to: int | None = 5) -> None: ...

    assert limit.parse('{"to": null}').values == {"to": None}
    assert limit.parse("{}").values == {"to": 5}


def test_a_number_in_quotes_and_a_whole_float_are_taken_for_the_integer_they_are():
    assert order.parse('{"email": "a", "count": "3"}').values["count"] == 3
    assert order.parse('{"email": "a", "count": 3.0}').values["count"] == 3


def test_infinity_is_no_number():
    @tool
    def wait(seconds: float) -> None: ...

    for text in ("1e999", '"inf"', '"nan"'):
        with pytest.raises(BadArguments, match="seconds must be a finite number"):
            wait.parse(f'{{"seconds": {text}}}')


def test_values_have_the_types_of_the_signature():
    @tool
    def act(home: Address, at: Point, day: date, pair: tuple[int, str], names: set[str]) -> None: ...

    values = act.parse(
        '{"home": {"street": "A"}, "at": {"x": 1}, "day": "2026-02-03", "pair": [1, "b"], "names": ["n"]}'
    ).values
    assert values == {
        "home": Address(street="A"),
        "at": Point(1),
        "day": date(2026, 2, 3),
        "pair": (1, "b"),
        "names": {"n"},
    }


def answered(text: str) -> Any:
    """Return what the tool takes the arguments for, or the sentence that refuses them."""
    try:
        return order.parse(text)
    except BadArguments as told:
        return str(told).removeprefix("order: ")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["email", "count", "home", "size", "tags", "key", "other"], ANYTHING)
    )
)
def test_whatever_a_model_sends_is_taken_or_answered(arguments: dict[str, Any]):
    answer = answered(json.dumps(arguments))
    assert isinstance(answer, str) or isinstance(answer.values["email"], str)


@given(any_text(max_size=200))
def test_whatever_text_comes_in_place_of_arguments_is_answered(text: str):
    assert answered(text)


@pytest.mark.parametrize(
    "kind",
    [int, str, bool, list[int], dict[str, int], Address, Point, date, int | None, list[Address]],
    ids=str,
)
def test_what_pydantic_writes_is_read_back(kind: Any):
    def act(value: Any) -> None: ...

    act.__annotations__["value"] = kind
    made, adapter = tool(act), TypeAdapter(kind)

    @given(st.from_type(kind))
    def holds(value: Any) -> None:
        written = adapter.dump_json(value).decode()
        assert made.parse(f'{{"value": {written}}}').values == {"value": value}

    holds()
