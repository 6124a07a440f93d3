"""Adds fixed arguments to those of a model. The model can neither see nor replace them."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from .....state.errors import UsageError
from ....ports import BadArguments, ToolSpec
from ...schema import describe_expected, parse_arguments_object, quote_name
from .flat_schema import Schema


class ArgumentCheck(Protocol):
    """Checks the arguments of a tool."""

    @property
    def schema(self) -> Schema:
        """Return the schema of the arguments that a model passes."""
        ...

    def check(self, spec: ToolSpec, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments by the names of the model, and the values by the parameters of the function.

        Raises `BadArguments`.
        """
        ...


class PresetArguments:
    """The arguments of a tool that has some fixed arguments."""

    def __init__(self, inner: ArgumentCheck, preset: Mapping[str, Any], what: str) -> None:
        """Raises `UsageError` if the preset does not match the schema."""
        properties: Mapping[str, Any] = inner.schema["properties"]
        for name in preset:
            if name not in properties:
                raise UsageError(f"{what} has no argument `{name}`, which its preset sets.")
        self._inner = inner
        self._preset = preset
        self.schema: Schema = {
            **inner.schema,
            "properties": {name: one for name, one in properties.items() if name not in preset},
            "required": [name for name in inner.schema["required"] if name not in preset],
        }

    def check(self, spec: ToolSpec, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        given = parse_arguments_object(spec, text)
        for name in self._preset:
            if name in given:
                raise BadArguments(
                    f"{spec.name}: there is no argument {quote_name(name)}. {describe_expected(spec)}"
                )
        return self._inner.check(spec, json.dumps({**given, **self._preset}))


def require_valid(arguments: ArgumentCheck, preset: Mapping[str, Any], what: str) -> None:
    """Raise `UsageError` unless the preset is valid. `arguments` checks only the fixed arguments."""
    spec = ToolSpec("preset", "", arguments.schema)
    try:
        arguments.check(spec, json.dumps(dict(preset)))
    except BadArguments as error:
        problem = str(error).removeprefix("preset: ").partition(". Expected:")[0]
        raise UsageError(f"{what}: its preset does not fit: {problem}.") from None
