"""The form of an answer is made of a Python type, and an answer becomes a value of that type."""

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from sandbur.actions.turn.output.answer_check import read_answer
from sandbur.actions.turn.output.format import output_format, output_schema
from sandbur.actions.turn.output.json_schema import problems
from sandbur.actions.turn.output.types import output_format_of
from sandbur.state.errors import UsageError


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    price: float = Field(default=1.0, ge=0)
    color: Color = Color.RED


class Report(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date
    items: list[Item] = []
    note: str | None = None
    level: Literal["low", "high"] = "low"
    next: "Report | None" = None

    @field_validator("note")
    @classmethod
    def _polite(cls, note: str | None) -> str | None:
        if note == "rude":
            raise ValueError("be polite")
        return note


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    name: str
    point: Point


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


ANY_PET = Annotated[Cat | Dog, Field(discriminator="kind")]

VALUES: list[tuple[Any, Any, Any]] = [
    (Item, {"name": "x", "price": None, "color": None}, Item(name="x")),
    (Report, {"when": "2026-11-22", "items": None, "note": None, "level": "high", "next": None},
     Report(when=date(2026, 11, 22), level="high")),
    (Point, {"x": 1, "y": None}, Point(1)),
    (Place, {"name": "a", "point": {"x": 1, "y": 2}}, {"name": "a", "point": Point(1, 2)}),
    (list[Item], {"value": [{"name": "x", "price": 2.5, "color": "blue"}]},
     [Item(name="x", price=2.5, color=Color.BLUE)]),
    (int | str, {"value": "x"}, "x"),
    (bool, {"value": True}, True),
    (float, {"value": 1.5}, 1.5),
    (Literal["a", "b"], {"value": "b"}, "b"),
    (tuple[int, ...], {"value": [1, 2]}, (1, 2)),
    (Cat | Dog, {"value": {"kind": "dog", "tricks": []}}, Dog(kind="dog", tricks=[])),
    (ANY_PET, {"value": {"kind": "cat", "lives": 7}}, Cat(kind="cat", lives=7)),
    (date | None, {"value": None}, None),
    (dict[str, int], {"a": 1}, {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "value"), VALUES, ids=lambda one: str(one)[:30])
def test_what_a_model_gives_becomes_a_value_of_the_type(kind: Any, given: Any, value: Any) -> None:
    typed = output_format_of(kind)
    read = read_answer(typed.format, json.dumps(given))
    assert read.problem == ""
    assert typed.parse(read.value) == value


@pytest.mark.parametrize(("kind", "given", "value"), VALUES, ids=lambda one: str(one)[:30])
def test_what_providers_are_given_is_an_object_that_takes_it(kind: Any, given: Any, value: Any) -> None:
    form = output_format_of(kind).format
    assert form.request_schema["type"] == "object"
    assert problems(form.request_schema, given) == []
    if form.is_strict:
        assert_strict(form.request_schema)
    else:
        assert kind in (dict[str, int],)


def assert_strict(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            assert_strict(each)
    elif isinstance(schema, dict):
        assert not {"default", "oneOf", "discriminator", "allOf"} & schema.keys()
        if "properties" in schema and isinstance(schema.get("type"), str):
            assert (schema["additionalProperties"], schema["required"]) == (False, [*schema["properties"]])
        for each in schema.values():
            assert_strict(each)


def test_the_type_itself_checks_its_validators_included() -> None:
    form = output_format_of(Report).format
    assert "be polite" in form.check({"when": "2026-11-22", "note": "rude"})
    assert form.check({"when": "soon"}).startswith("when: ")
    assert "items[0].price" in form.check({"when": "2026-11-22", "items": [{"name": "x", "price": -1}]})
    # A session that is resumed without the type checks by the schema alone.
    assert output_format(form.output_schema).check({"when": "2026-11-22", "note": "rude"}) == ""


def test_a_form_has_a_name_that_providers_take() -> None:
    assert output_format_of(Report).format.name == "Report"
    assert output_format_of(list[Item]).format.name == "list"
    assert output_format_of(int, name="how many?").format.name == "how_many_"
    assert output_schema({"title": "Ünï  x", "type": "object"}).name == "_n_x"
    assert output_schema({"type": "object"}).name == "answer"


class Handle:
    pass


@pytest.mark.parametrize("kind", [Handle, "Nowhere", object()])
def test_a_type_without_a_schema_is_refused_with_a_sentence(kind: Any) -> None:
    with pytest.raises(UsageError, match="cannot be the type of an output"):
        output_format_of(kind)


def test_the_given_schema_is_left_as_it_was() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    before = json.dumps(schema)
    form = output_format(output_schema(schema))
    assert form.request_schema != schema
    assert json.dumps(schema) == before == json.dumps(form.output_schema.json_schema)


def test_nulls_that_mean_nothing_are_taken_away_and_others_stay() -> None:
    schema = {
        "type": "object",
        "properties": {
            "left_out": {"type": "string"},
            "nullable": {"type": ["string", "null"]},
            "inner": {"anyOf": [{"$ref": "#/$defs/inner"}, {"type": "null"}]},
            "many": {"type": "array", "items": {"$ref": "#/$defs/inner"}},
        },
        "required": ["nullable"],
        "$defs": {"inner": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    text = json.dumps({"left_out": None, "nullable": None, "inner": {"x": None}, "many": [{"x": None}]})
    read = read_answer(output_format(output_schema(schema)), text)
    assert read.value == {"nullable": None, "inner": {}, "many": [{}]}
    assert read.problem == ""
    assert json.loads(read.text) == read.value
