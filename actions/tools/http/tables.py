"""HTTP tools as configuration tables, and descriptions of their effect."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ....state.errors import ConfigError
from ..similar_names import suggest_keys
from .template import Placeholder, Unfillable, node_of, references_in

Ask = Literal["by_rule", "always", "never"]
SafeEffect = Literal["read", "idempotent", "effect"]
_Line = Annotated[str, StringConstraints(min_length=1, max_length=8192, pattern=r"^[^\x00-\x1f\x7f]+$")]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class HttpToolTable(_Table):
    """One request that a model may send."""

    description: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    url: _Line
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    parameters: dict[str, Any] = Field(default_factory=dict)
    """A JSON schema of `type = "object"`, or a table of parameters with their schemas and `required`
    (default: true).
    """
    headers: dict[str, _Line] = Field(default_factory=dict, max_length=50)
    query: dict[str, Any] = Field(default_factory=dict, max_length=100)
    body: Any = None
    """The JSON body of the request."""
    form: dict[str, Any] | None = None
    """The form fields of the request. They exclude a body."""
    timeout: Seconds = 30
    """The time limit for one call with its redirects, in seconds."""
    effect: SafeEffect | None = None
    """The effect class; None if the method defines it."""
    ask: Ask = "by_rule"
    private: bool = False
    """Whether the host may have a private address. A host that is written as a private IP address
    always may.
    """


class OpenApiTable(_Table):
    """Operations of an API with an OpenAPI description."""

    file: _Line
    operations: Annotated[list[_Line], Field(min_length=1, max_length=200)]
    """The operations, each as `operationId` or `METHOD /path`; `*` matches any text."""
    base_url: _Line | None = None
    """The address of the API; None for the address in the description."""
    headers: dict[str, _Line] = Field(default_factory=dict, max_length=50)
    """Headers of every request. The model does not see them."""
    query: dict[str, Any] = Field(default_factory=dict, max_length=100)
    """Query fields of every request. The model does not see them."""
    effects: dict[str, SafeEffect] = Field(default_factory=dict)
    """Maps an operation to its effect class, if its method does not define it."""
    timeout: Seconds = 30.0
    ask: Ask = "by_rule"
    private: bool = False


TableT = TypeVar("TableT", HttpToolTable, OpenApiTable)


def parse_tables(key: str, given: Mapping[str, Any], kind: type[TableT], source: str) -> dict[str, TableT]:
    """Return the tables below a key, such as `http_tools`. Raises `ConfigError` if one is not valid."""
    return {
        str(name): _parse_table(f"{source}: `{key}.{str(name)[:64]}`", one, kind)
        for name, one in given.items()
    }


def _parse_table(where: str, given: Any, kind: type[TableT]) -> TableT:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} is not a table.", "Write a table with its keys.")
    table = cast("dict[Any, Any]", given)
    unknown = [str(key) for key in table if key not in kind.model_fields]
    if unknown:
        hint = suggest_keys(unknown[0], kind.model_fields)
        raise ConfigError(f"{where}: there is no key `{unknown[0][:40]}`.", hint)
    try:
        return kind.model_validate({**table, **_uppercase_method(table)})
    except ValidationError as error:
        raise ConfigError(f"{where} does not fit: {_describe_first_error(error)}.", "Correct it.") from None


def _uppercase_method(table: Mapping[Any, Any]) -> dict[str, Any]:
    method = table.get("method")
    return {"method": method.upper()} if isinstance(method, str) else {}


def _describe_first_error(error: ValidationError) -> str:
    """Return the first problem as a clause that names the key and does not quote its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    if first["type"] == "missing":
        return f"`{key}` is missing"
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"`{key}`: {'it has characters that are not possible here' if 'pattern' in message else message}"


def describe_tool(name: str, table: HttpToolTable) -> str:
    """Describe a tool in one clause, for a person who must decide whether to trust it."""
    parts = (table.url, table.headers, table.query, table.body, table.form)
    approval = _describe_approval(parts, table.ask, table.effect)
    return f"lets the model send {table.method} {table.url} as {name}{approval}"


def describe_api(name: str, table: OpenApiTable) -> str:
    """Describe the tools of an API in one clause, for a person who must decide whether to trust them."""
    where = f" to {table.base_url}" if table.base_url else ""
    operations = ", ".join(table.operations)
    effects = ", ".join(f"{operation} = {effect}" for operation, effect in table.effects.items())
    return f"lets the model send requests{where}: {operations} of {table.file} ({name})" + _describe_approval(
        (table.headers, table.query), table.ask, effects or None
    )


def _describe_approval(parts: tuple[Any, ...], ask: Ask, effect: str | None) -> str:
    names = [one.name for part in parts if part is not None for one in _variables(part)]
    values = f", with the values of {', '.join(dict.fromkeys(names))}" if names else ""
    values += ", without questions" if ask == "never" else ""
    return values + (f", declared as {effect}" if effect else "")


def _variables(part: Any) -> Iterator[Placeholder]:
    try:
        found = references_in(node_of(part))
    except Unfillable:
        return
    yield from (one for one, _ in found if one.source == "env")
