"""The types of settings, and one clear sentence for each error in their values."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from ...actions.tools.similar_names import suggest_keys
from ...state.application import ExecutionMode
from ...state.conversation.messages import Record
from ...state.databases.database import Durability
from ...state.errors import SandburError
from ...state.session import Effort, SandboxWish
from ..extensions.extension import load
from ..models.providers import TransportName, WireFormat
from .setting import Kind, Setting
from .setting_reader import SettingReader
from .settings import Catastrophic, CompactionKind, Counting, Editing, Resuming, SearchProvider, Theme
from .values import Named, Values, settable_rows

Line = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]


_WebAddress = Annotated[Line, StringConstraints(pattern=r"^https?://[^\s]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ProviderTable(_Table):
    """A model server that the user defines, or another address for a known provider."""

    base_url: _WebAddress
    api_key_env: Annotated[Line, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The environment variable with the API key. None: no key is sent."""
    wire: WireFormat = "chat"
    transport: TransportName | None = None


class Price(Record):
    """The prices of a model in US dollars per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The price of cached input tokens. None: the same as `input`."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Domain = Annotated[str, StringConstraints(pattern=r"^(\*|(\*\.)?[A-Za-z0-9_:.-]{1,253})$")]
_Assignment = Annotated[Line, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*=")]
_AliasName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
_TYPES: Mapping[Kind, Any] = {
    "line": Line,
    "names": list[Line],
    "mode": ExecutionMode,
    "effort": Effort,
    "sandbox": SandboxWish,
    "domains": list[_Domain],
    "rules": list[str],
    "folders": list[Line],
    "count": Annotated[int, Field(ge=1)],
    "limit": Annotated[int, Field(ge=0)],
    "tokens": Annotated[int, Field(ge=1000)],
    "amount": _Positive,
    "seconds": _Positive,
    "share": Annotated[float, Field(ge=0.1, le=0.95)],
    "tenant": Annotated[Line, StringConstraints(pattern=r"^[A-Za-z0-9_.@-]{1,64}$")],
    "catastrophic": Catastrophic,
    "resuming": Resuming,
    "theme": Theme,
    "switch": bool,
    "editing": Editing,
    "address": _WebAddress,
    "search": SearchProvider,
    "durability": Durability,
    "prices": dict[str, Price],
    "windows": dict[str, Annotated[int, Field(ge=1000)]],
    "aliases": dict[_AliasName, Line],
    "providers": dict[_ProviderName, ProviderTable],
    "transport": TransportName,
    "counting": Counting,
    "tables": dict[str, dict[str, Any]],
    "variables": list[_Assignment],
    "table": dict[str, Any],
    "compaction": CompactionKind,
    "text": Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"^[^\x00]+$")],
}
"""Kind of a setting -> the type of its value for pydantic."""
_CHOICE = cast(Any, Literal)
"""Makes the type of a `choice` from its values."""


@cache
def _model_of(rows: tuple[tuple[str, Kind, tuple[str, ...]], ...]) -> type[_Table]:
    """Return the pydantic model that checks the values of one source."""
    fields = {
        key: ((_CHOICE[choices] if choices else _TYPES[kind]) | None, None) for key, kind, choices in rows
    }
    return create_model("_Checked", __base__=_Table, **cast(Any, fields))


_TABLES: Mapping[str, type[BaseModel]] = {"prices": Price, "providers": ProviderTable}
ModelT = TypeVar("ModelT", bound=BaseModel)


def validate_values(
    values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]
) -> Values:
    """Return the values if all are valid; raises `error`. Its message names the key and never repeats the
    value."""
    rows = settable_rows()
    model = _model_of(tuple((key, row.kind, row.choices) for key, row in rows.items()))
    fitting = fit(model, values, source, named, error)
    found = {key: value for key in rows if (value := getattr(fitting, key)) is not None}
    for key in found:
        if rows[key].reader:
            found[key] = reader_of(rows[key]).check(found[key], source, error)
    return found


class PlainReader(SettingReader):
    """Reads a setting that needs no more than its type. The trust summary prints its value unchanged."""

    def disclose(self, value: Any) -> Iterator[str]:
        return iter(())


def reader_of(row: Setting) -> SettingReader:
    """Return the reader for the values of a setting. Most settings need only the check of their kind."""
    return load(row.reader)() if row.reader else PlainReader()


def fit(
    model: type[ModelT], values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]
) -> ModelT:
    """Return the values as a model; raises `error`. Its message names the key and never repeats a value."""
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_input=False, include_context=False)
        # A misspelled key is reported first, because it can be the reason that another key is missing.
        first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    *parents, last = [str(part) for part in first["loc"] if part != "[key]"]
    key = named(".".join([*parents, last]))
    if first["type"] == "extra_forbidden":
        raise error(f"{source}: there is no key {key}.", _suggest_key(model, parents, last))
    if first["type"] == "missing":
        raise error(f"{source}: {key} is missing.", "Add it.")
    if first["type"] == "string_too_short":
        raise error(f"{source}: {key} is empty.", "Give it a value, or leave it out.")
    raise error(f"{source}: {key} does not fit: {describe_problem(first['msg'])}.", "Correct it.")


def describe_problem(message: str) -> str:
    """Rewrite a sentence of pydantic as a clause."""
    message = message.removeprefix("Value error, ")
    clause = message[:1].lower() + message[1:]
    if "match pattern" in clause:
        return "it has characters or a form that are not allowed here"
    return clause.replace("input should be", "it should be")


def _suggest_key(model: type[BaseModel], parents: list[str], key: str) -> str:
    table = _TABLES.get(parents[0], model) if parents else model
    return suggest_keys(key, table.model_fields, most=2)
