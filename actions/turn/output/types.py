"""Derives the format of an answer from a Python type, such as a model, a dataclass, a list or a union."""

import json
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypeForm

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ..user_code import UserCode
from .format import OutputFormat, output_format, output_schema
from .json_schema import MOST_PROBLEMS, BadSchema, format_value_path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TypedOutput(Generic[T]):
    format: OutputFormat
    """The output format. The type itself checks answers, including its validators."""
    parse: Callable[[Any], T]
    """Converts an answer, which is JSON as in `RunFinished.output`, to a value of the type."""


def output_format_of(kind: TypeForm[T], name: str = "") -> TypedOutput[T]:
    """Return the output format of a type. Raises `UsageError` for a type without a JSON schema."""
    name = name or getattr(kind, "__name__", "") or "answer"
    given = cast("object", kind)
    what = type(given).__name__
    if isinstance(given, str | bytes | Mapping | FunctionType):
        raise UsageError(
            f"A {what} cannot be the type of an output.",
            "Use a pydantic model, a dataclass, a TypedDict, a list, a union or a plain type.",
        )
    try:
        adapter: TypeAdapter[T] = TypeAdapter(kind)
        stored = output_schema(adapter.json_schema(), name)
    except (PydanticUserError, BadSchema, NameError) as error:
        problem = " ".join(str(error).splitlines()[0].split())
        raise UsageError(
            f"{name} cannot be the type of an output: {problem}",
            "Use a pydantic model, a dataclass, a TypedDict, a list, a union or a plain type.",
        ) from None

    def parse(value: Any) -> T:
        with UserCode(f"The type {name} could not check the answer: {{function}}", passes=(ValidationError,)):
            # Validation in JSON mode reads dates and similar values from texts, also in strict models.
            return adapter.validate_json(json.dumps(value))

    def check(value: Any) -> str:
        try:
            parse(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)[:MOST_PROBLEMS]
            return "; ".join(f"{format_value_path(one['loc'])}: {one['msg']}" for one in found)
        return ""

    return TypedOutput(output_format(stored, check), parse)
