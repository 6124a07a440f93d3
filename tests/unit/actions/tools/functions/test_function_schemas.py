"""What a model is told of a function: its signature as a flat schema, its docstring as descriptions."""

import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from sandbur import Depends, RunContext, tool
from sandbur.state.errors import UsageError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Address(BaseModel):
    street: str = Field(description="Street and number.")
    city: str = "Berlin"


class Customer(BaseModel):
    name: str
    home: Address
    work: Address | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    verbose: bool


class Pair(NamedTuple):
    left: int
    right: str


class Tree(BaseModel):
    value: int
    children: "list[Tree]" = []


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Cash(BaseModel):
    kind: Literal["cash"]


def schema_of(function: Callable[..., Any]) -> Any:
    return tool(function).spec.parameters


def property_of(annotation: Any) -> Any:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    return schema_of(take)["properties"]["value"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Size, {"type": "integer", "enum": [1, 2]}),
        (date, {"type": "string", "format": "date"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (Any, {}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[str, Field(description="Why.")], {"type": "string", "description": "Why."}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            Options,
            {
                "type": "object",
                "properties": {"verbose": {"type": "boolean"}},
                "additionalProperties": False,
            },
        ),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
    ],
    ids=str,
)
def test_a_type_has_this_schema(annotation: Any, schema: Any):
    assert property_of(annotation) == schema


@pytest.mark.parametrize("annotation", [Decimal, Pair, Address, list[Address], dict[str, Customer]], ids=str)
def test_every_usual_type_has_a_schema(annotation: Any):
    assert json.dumps(property_of(annotation))


def test_nested_models_are_written_out_without_references_or_titles():
    def save(customer: Customer) -> None: ...

    text = json.dumps(schema_of(save))
    assert "$ref" not in text
    assert "$defs" not in text
    assert '"title"' not in text
    street = schema_of(save)["properties"]["customer"]["properties"]["home"]["properties"]["street"]
    assert street == {"type": "string", "description": "Street and number."}


def test_a_property_that_is_called_title_stays():
    class Book(BaseModel):
        title: str

    def save(book: Book, title: str) -> None: ...

    properties = schema_of(save)["properties"]
    assert properties["title"] == {"type": "string"}
    assert properties["book"]["properties"] == {"title": {"type": "string"}}


def test_a_type_that_contains_itself_keeps_its_reference():
    def save(tree: Tree) -> None: ...

    schema = schema_of(save)
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


def test_a_type_that_would_be_written_out_a_thousand_times_keeps_its_references():
    def level(of: Any) -> Any:
        class Level(BaseModel):
            left: of
            right: of

        return Level

    kind: Any = Address
    for _ in range(14):
        kind = level(kind)

    def save(value: Any) -> None: ...

    save.__annotations__["value"] = kind
    assert len(json.dumps(schema_of(save))) < 500_000


def test_every_object_is_closed_and_says_what_it_requires():
    def pay(customer: Customer, by: Card | Cash, points: list[Point]) -> None: ...

    def closed(schema: Any) -> bool:
        if isinstance(schema, list):
            return all(map(closed, schema))
        if not isinstance(schema, dict):
            return True
        is_closed = "properties" not in schema or schema.get("additionalProperties") is False
        return is_closed and all(map(closed, schema.values()))

    schema = schema_of(pay)
    assert closed(schema)
    assert schema["required"] == ["customer", "by", "points"]


def test_what_may_be_left_out_is_not_required_and_says_its_default():
    def search(query: str, limit: int = 10, after: str | None = None) -> None: ...

    assert schema_of(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "after": {"type": "string"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


NO_KEY = object()


def test_a_default_that_is_not_json_is_left_out_without_a_warning():
    def search(after: date = date(2020, 1, 1), key: Any = NO_KEY) -> None: ...

    assert set(schema_of(search)["properties"]) == {"after", "key"}
    assert "default" not in schema_of(search)["properties"]["key"]


GOOGLE = """Look a customer up.

        Only those who are active.

        Args:
            email: the address they signed up
                with
            limit (int): how many

        Returns:
            The customer.
        """
NUMPY = """Look a customer up.

        Only those who are active.

        Parameters
        ----------
        email : str
            the address they signed up
            with
        limit : int
            how many
        """
SPHINX = """Look a customer up.

        Only those who are active.

        :param email: the address they signed up
            with
        :param limit: how many
        """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_descriptions_come_from_the_docstring(docstring: str):
    def find(email: str, limit: int = 1) -> None: ...

    find.__doc__ = docstring
    spec = tool(find).spec
    assert spec.description == "Look a customer up.\n\nOnly those who are active."
    texts = {name: one["description"] for name, one in spec.parameters["properties"].items()}
    assert texts == {"email": "the address they signed up with", "limit": "how many"}


def test_a_field_says_more_than_the_docstring():
    def find(email: Annotated[str, Field(description="From the field.")]) -> None:
        """Look.

        Args:
            email: From the docstring.
        """

    assert schema_of(find)["properties"]["email"]["description"] == "From the field."


def test_a_docstring_that_is_no_docstring_is_taken_as_it_is():
    def find(email: str) -> None:
        """Parameters
        ----------
        Raises
        """

    assert tool(find).spec.description


def test_a_function_without_a_docstring_is_described_by_its_name():
    def find_customer(email: str) -> None: ...

    assert tool(find_customer).spec.description == "Find customer."


def test_what_is_injected_is_not_in_the_schema():
    def provide() -> int:
        return 1

    def act(
        text: str, run: RunContext, a: Annotated[int, Depends(provide)], b: int = Depends(provide)
    ) -> None: ...

    assert list(schema_of(act)["properties"]) == ["text"]


def test_an_alias_is_what_the_model_sees():
    async def move(from_: Annotated[str, Field(alias="from")], to: str) -> None:
        """Move.

        Args:
            from_: where it is
        """

    made = tool(move)
    assert made.spec.parameters["properties"]["from"] == {"type": "string", "description": "where it is"}
    assert made.parse('{"from": "a", "to": "b"}').values == {"from_": "a", "to": "b"}


def test_a_method_is_a_tool_of_its_object():
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool
        def sell(self, item: str) -> str:
            """Sell something."""
            return f"{self.name} sold {item}"

    shop = Shop("Corner")
    assert list(shop.sell.spec.parameters["properties"]) == ["item"]
    assert shop.sell("bread") == "Corner sold bread"


def test_a_name_that_is_defined_further_down_is_found_when_the_tool_is_used():
    @tool
    def save(value: "Later") -> None: ...

    class Later(BaseModel):
        size: int

    save.__wrapped__.__globals__["Later"] = Later
    try:
        assert save.spec.parameters["properties"]["value"]["properties"] == {"size": {"type": "integer"}}
    finally:
        del save.__wrapped__.__globals__["Later"]


def test_a_type_of_the_function_around_it_is_known():
    class Inner(BaseModel):
        size: int

    def save(value: "Inner") -> None: ...

    assert tool(save).spec.parameters["properties"]["value"]["properties"] == {"size": {"type": "integer"}}


def test_a_name_that_is_never_defined_is_named_when_the_tool_is_used():
    @tool
    def save(value: "NoSuchThing") -> None: ...  # noqa: F821  # pyright: ignore

    with pytest.raises(UsageError, match=r"The tool save: the annotation of `value` .*'NoSuchThing'"):
        _ = save.spec


class Opaque:
    pass


def no_annotation(text) -> None: ...
def any_number(*texts: str) -> None: ...
def any_name(**texts: str) -> None: ...
def opaque(db: Opaque) -> None: ...
def function_wanted(work: Callable[[int], int]) -> None: ...
def number(n: 5) -> None: ...  # pyright: ignore


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (no_annotation, "The tool no_annotation: the parameter `text` has no annotation"),
        (any_number, r"The tool any_number takes `\*texts`"),
        (any_name, r"The tool any_name takes `\*\*texts`"),
        (opaque, "The tool opaque: the type of the parameter `db`, .*Opaque, has no JSON schema.*Depends"),
        (function_wanted, "The tool function_wanted: the type of the parameter `work`"),
        (number, "The tool number: .*`n`"),
        (dict.fromkeys, "The tool fromkeys"),
    ],
)
def test_a_signature_without_a_schema_is_one_sentence(function: Any, told: str):
    with pytest.raises(UsageError, match=told) as raised:
        tool(function)
    assert "\n" not in str(raised.value)


@dataclass
class Unhashable:
    tags: list[str] = field(default_factory=list)


def test_a_mutable_default_is_a_new_one_for_each_call():
    def collect(tags: list[str] = []) -> list[str]:  # noqa: B006
        tags.append("x")
        return tags

    made = tool(collect)
    first, second = made.parse("{}"), made.parse("{}")
    assert first.values["tags"] is not second.values["tags"]
