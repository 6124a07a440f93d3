"""Checks a model's arguments against a function's parameters, and derives their schema."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic import ConfigDict, PydanticUserError, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.experimental.arguments_schema import generate_arguments_schema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreConfig, CoreSchema, SchemaValidator

from .....state.errors import UsageError
from ....ports import BadArguments, ToolSpec, build_object_schema
from ....turn.user_code import UserCode, make_bad_arguments
from ...schema import describe_expected, describe_value, parse_arguments_object, quote_name
from ..callee import Parameter, Unresolved
from ..results import ToolError
from .flat_schema import flat

_REFUSALS = (ValidationError, ToolError)
_CONFIG = ConfigDict(allow_inf_nan=False)
_MOST_PROBLEMS = 3
_MOST_PLACE = 120


class FunctionArguments:
    """The arguments that a model passes to a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        what: str,
        parameters: Sequence[Parameter],
        texts: Mapping[str, str],
    ) -> None:
        """Build the schema and the checks. `what` names the function in messages, `texts` are descriptions by
        name.

        Raises `UsageError` for a parameter without a schema, `Unresolved` for a name that is not defined yet.
        """
        self._parameters = tuple(one for one in parameters if one.role == "argument")
        for one in self._parameters:
            if one.annotation is inspect.Parameter.empty:
                raise UsageError(
                    f"{what}: the parameter `{one.name}` has no annotation, and thus no schema.",
                    f"Write its type, such as `{one.name}: str`.",
                )
        core = _core_schema(function, what, self._parameters)
        self._validator = SchemaValidator(core, CoreConfig(allow_inf_nan=False))
        self.names = {one["name"]: str(one.get("alias", one["name"])) for one in _fields(core)}
        """Maps each parameter to its name for the model."""
        descriptions = {self.names[name]: text for name, text in texts.items() if name in self.names}
        self.schema = _flatten_schema(_json_schema(core, what, self._parameters, function), descriptions)
        self._nullable = {name for name, one in self.schema["properties"].items() if _takes_null(one)}

    def check(self, spec: ToolSpec, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of the model, and the values for the function, by name. Raises `BadArguments`.

        Null for a parameter with a default means the default value, because some models send every argument.
        """
        given = parse_arguments_object(spec, text)
        required = spec.parameters["required"]
        present = {
            name: value
            for name, value in given.items()
            if value is not None or name in required or name in self._nullable
        }
        what = f"{spec.name} could not check its arguments: {{function}}"
        try:
            with UserCode(what, make_bad_arguments, passes=_REFUSALS, level=logging.INFO):
                _, values = self._validator.validate_python(present)
        except ValidationError as error:
            raise BadArguments(
                f"{spec.name}: {_describe_problems(error, given)}. {describe_expected(spec)}"
            ) from None
        except ToolError as refusal:
            raise BadArguments(f"{spec.name}: {refusal}") from None
        except SystemExit as left:
            raise BadArguments(
                f"{spec.name} could not check its arguments: it called sys.exit({left.code!r})."
            ) from left
        return present, values


class _Schemas(GenerateJsonSchema):
    """Leaves out the parts of a schema that have no meaning for a model, without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _core_schema(function: Callable[..., Any], what: str, parameters: Sequence[Parameter]) -> CoreSchema:
    try:
        return _arguments_schema(function, parameters)
    except PydanticUndefinedAnnotation as error:
        raise Unresolved(f"{what} cannot be described: {error.message}.") from None
    except (PydanticUserError, TypeError, NameError, ValueError):
        for one in parameters:
            _require_schema(function, what, one)
        raise


def _arguments_schema(function: Callable[..., Any], parameters: Sequence[Parameter]) -> CoreSchema:
    """Build the pydantic schema of a function that has only these keyword parameters."""
    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature(
        [inspect.Parameter(p.name, kind, default=p.default, annotation=p.annotation) for p in parameters]
    )

    def arguments() -> None: ...

    arguments.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    arguments.__annotations__ = {one.name: one.annotation for one in parameters}
    arguments.__module__ = getattr(function, "__module__", None) or __name__
    return generate_arguments_schema(arguments, schema_type="arguments", config=_CONFIG)


def _require_schema(function: Callable[..., Any], what: str, one: Parameter) -> None:
    """Raise an error if this parameter has no schema."""
    try:
        _Schemas().generate(_arguments_schema(function, [one]))
    except PydanticUndefinedAnnotation as error:
        raise Unresolved(f"{what} cannot be described: {error.message}.") from None
    except (PydanticUserError, TypeError, NameError, ValueError) as error:
        why = str(error).splitlines()[0].split(". Set `arb")[0].rstrip(".")
        raise UsageError(
            f"{what}: the type of the parameter `{one.name}`, {inspect.formatannotation(one.annotation)},"
            f" has no JSON schema ({why}).",
            "Use types that JSON can represent, or inject the value:"
            f" `{one.name}: Annotated[..., Depends(provider)]`.",
        ) from None


def _fields(core: CoreSchema) -> Sequence[Any]:
    """Return the parameters in the core schema of pydantic."""
    inside = cast(Any, core)
    while "arguments_schema" not in inside:
        inside = inside["schema"]
    return inside["arguments_schema"]


def _json_schema(
    core: CoreSchema, what: str, parameters: Sequence[Parameter], function: Callable[..., Any]
) -> dict[str, Any]:
    try:
        return _Schemas().generate(core)
    except PydanticUserError:
        for one in parameters:
            _require_schema(function, what, one)
        raise


def _flatten_schema(schema: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    body = flat(schema, is_closed=True)
    properties = {
        name: _simplify_argument(one, texts.get(name, "")) for name, one in body.get("properties", {}).items()
    }
    done = build_object_schema(properties, body.get("required", []))
    return {**done, "$defs": body["$defs"]} if "$defs" in body else done


def _simplify_argument(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the schema of an argument with its description. If it may be null only because it is optional,
    null is removed.
    """
    if text and "description" not in schema:
        schema = {**schema, "description": text}
    if "default" not in schema or schema["default"] is not None:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    choices: list[dict[str, Any]] = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) == 1:
        return {**choices[0], **rest}
    return {**rest, "anyOf": choices} if choices else rest


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ()) or not {"type", "anyOf", "enum", "$ref"} & set(schema)


def _describe_problems(error: ValidationError, given: Mapping[str, Any]) -> str:
    """Describe the problems in one line. The choices of a union count as one problem."""
    found: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for one in error.errors(include_url=False):
        place, value = _locate_error(one["loc"], given)
        place = place if len(place) <= _MOST_PLACE else place[:_MOST_PLACE] + "..."
        if one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            found[f"there is no argument {quote_name(place)}"] = []
            continue
        values[place] = value
        clauses, clause = found.setdefault(place, []), _describe_error(one)
        if clause not in clauses:
            clauses.append(clause)
    problems = [_describe_problem(place, clauses, values.get(place)) for place, clauses in found.items()]
    more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
    return "; ".join(problems[:_MOST_PROBLEMS]) + more


def _describe_problem(place: str, clauses: Sequence[str], value: Any) -> str:
    if not clauses:
        return place
    first, *others = clauses
    wanted = " or ".join([first, *(clause.removeprefix("must be ") for clause in others)])
    return f"{place} {wanted}, got {describe_value(value)}" if "must" in wanted else f"{place} {wanted}"


def _locate_error(location: Sequence[int | str], given: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the path of an error in the arguments, and the value at this path.

    The path of pydantic contains the names of union choices, which are not in the arguments.
    """
    place: str = ""
    value: Any = given
    for number, part in enumerate(location):
        is_last = number == len(location) - 1
        here: Any = value
        if isinstance(here, Mapping):
            inside = cast(Mapping[str, Any], here)
            if part not in inside and not is_last:
                continue
            place = f"{place}.{part}" if place else str(part)
            value = inside.get(str(part))
        elif isinstance(here, list):
            items = cast(list[Any], here)
            if isinstance(part, int) and part < len(items):
                place, value = f"{place}[{part}]", items[part]
    return place, value


def _describe_error(details: Any) -> str:
    kind: str = details["type"]
    if kind.startswith("missing"):
        return "is missing"
    if kind in ("value_error", "assertion_error"):
        return str(details["ctx"]["error"])
    clause = details["msg"].replace("Input should", "must", 1).split(", unable to")[0]
    return clause[:1].lower() + clause[1:]
