"""The keys of `config.toml`, and one clear sentence for everything that can be wrong with their values."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from ...state.application import ExecutionMode
from ...state.databases.database import Durability
from ...state.errors import ConfigError, SandburError, UsageError
from ...state.messages import Record
from ...state.session import Effort, SandboxWish
from ..models.providers import TransportName, WireFormat
from .paths import decoded
from .settings import (
    SETTINGS,
    Catastrophic,
    Editing,
    Kind,
    Resuming,
    Said,
    SearchProvider,
    Setting,
    Theme,
)

Line = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]


_WebAddress = Annotated[Line, StringConstraints(pattern=r"^https?://[^\s]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ProviderTable(_Table):
    """A server of one's own, or another address for a known provider."""

    base_url: _WebAddress
    api_key_env: Annotated[Line, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The variable that holds the key; None: no key."""
    wire: WireFormat = "chat"
    transport: TransportName | None = None


class Price(Record):
    """US dollars for a million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cache_read: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """None: as `input`."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_OUTSIDE_PARENTHESES = re.compile(r"[,\n](?![^()]*\))")


def _rules(text: str) -> list[str]:
    return [part.strip() for part in _OUTSIDE_PARENTHESES.split(text) if part.strip()]


def _folders(text: str) -> list[str]:
    return [part for part in text.split(os.pathsep) if part]


_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _switch(text: str) -> bool:
    if (said := text.lower()) not in (*_ON, *_OFF):
        raise ValueError
    return said in _ON


class _Kind(NamedTuple):
    type: Any
    """As pydantic takes it."""
    read: Callable[[str], Any] = str
    """Reads the text of a variable; raises `ValueError`."""
    expected: str = ""
    """What that text should be."""


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Domain = Annotated[str, StringConstraints(pattern=r"^(\*|(\*\.)?[A-Za-z0-9_:.-]{1,253})$")]
_Assignment = Annotated[Line, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*=")]
_AliasName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
_KINDS: Mapping[Kind, _Kind] = {
    "line": _Kind(Line),
    "names": _Kind(list[Line], _names),
    "mode": _Kind(ExecutionMode),
    "effort": _Kind(Effort),
    "sandbox": _Kind(SandboxWish),
    "domains": _Kind(list[_Domain], _names),
    "rules": _Kind(list[str], _rules),
    "folders": _Kind(list[Line], _folders),
    "count": _Kind(Annotated[int, Field(ge=1)], int, "a whole number"),
    "tokens": _Kind(Annotated[int, Field(ge=1000)], int, "a whole number"),
    "amount": _Kind(_Positive, float, "a number"),
    "seconds": _Kind(_Positive, float, "a number of seconds"),
    "share": _Kind(Annotated[float, Field(ge=0.1, le=0.95)], float, "a number"),
    "tenant": _Kind(Annotated[Line, StringConstraints(pattern=r"^[A-Za-z0-9_.@-]{1,64}$")]),
    "catastrophic": _Kind(Catastrophic),
    "resuming": _Kind(Resuming),
    "theme": _Kind(Theme),
    "switch": _Kind(bool, _switch, "1 or 0"),
    "editing": _Kind(Editing),
    "address": _Kind(_WebAddress),
    "search": _Kind(SearchProvider),
    "durability": _Kind(Durability),
    "prices": _Kind(dict[str, Price]),
    "windows": _Kind(dict[str, Annotated[int, Field(ge=1000)]]),
    "aliases": _Kind(dict[_AliasName, Line]),
    "providers": _Kind(dict[_ProviderName, ProviderTable]),
    "transport": _Kind(TransportName),
    "mcp_servers": _Kind(dict[str, dict[str, Any]]),
    "tables": _Kind(dict[str, dict[str, Any]]),
    "variables": _Kind(list[_Assignment]),
    "hooks": _Kind(dict[str, Any]),
}
Values = Mapping[str, Any]
"""What one source (a file, the environment, the flags) sets: key -> value; it may lack keys."""
_ROWS = {row.key: row for row in SETTINGS if row.kind in _KINDS}
_Checked = create_model(
    "_Checked",
    __base__=_Table,
    **cast(Any, {key: (_KINDS[row.kind].type | None, None) for key, row in _ROWS.items()}),
)


_TABLES: Mapping[str, type[BaseModel]] = {"prices": Price, "providers": ProviderTable}
ModelT = TypeVar("ModelT", bound=BaseModel)
Named = Callable[[str], str]
"""Gives the name under which the person knows a key."""


def parse_config(content: bytes, path: Path) -> Values:
    """Read a `config.toml`; raises `ConfigError`."""
    if content.startswith(b"\xef\xbb\xbf"):
        raise ConfigError(f"{path} starts with a byte order mark (line 1, column 1).", "Save it without one.")
    text = decoded(content, path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is no valid TOML: {_toml_problem(error, text)}.", "Correct that line."
        ) from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.", "Simplify it.") from None
    found = checked(values, str(path), lambda key: f"`{key}`", ConfigError)
    if "http_tools" in found or "openapi" in found:
        from .http_tools import checked_http_tables

        return checked_http_tables(found, path)
    return found


def parse_hooks(content: bytes, path: Path) -> list[Any]:
    """Read a `hooks.json`, with or without `hooks` as its only key; raises `ConfigError`."""
    try:
        values = json.loads(decoded(content, path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no valid JSON: {error}.", "Correct it.") from None
    table = cast(dict[str, Any], values) if isinstance(values, dict) else {"hooks": values}
    whole = table if list(table) == ["hooks"] else {"hooks": table}
    return declared_hooks(whole["hooks"], str(path))


def declared_hooks(table: Any, source: str, error: type[SandburError] = ConfigError) -> list[Any]:
    """Return the hooks of a table; raises `error`."""
    from ..extensions.hooks.declared import HooksConfiguration

    found = _fitting(HooksConfiguration, {"hooks": table}, source, lambda key: f"`{key}`", error)
    return cast(list[Any], found.hooks)


def checked(values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]) -> Values:
    """Return the values if all of them fit; the error names the key and never repeats the value."""
    fitting = _fitting(_Checked, values, source, named, error)
    found = {key: value for key in _ROWS if (value := getattr(fitting, key)) is not None}
    if "hooks" in found:
        found["hooks"] = declared_hooks(found["hooks"], source, error)
    if "mcp_servers" in found:
        from .mcp_servers import checked_tables

        found["mcp_servers"] = checked_tables(found["mcp_servers"], source, error)
    return found


def _fitting(
    model: type[ModelT], values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]
) -> ModelT:
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_input=False, include_context=False)
        # A misspelled key explains a missing one, not the other way round.
        first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    *parents, last = [str(part) for part in first["loc"] if part != "[key]"]
    key = named(".".join([*parents, last]))
    if first["type"] == "extra_forbidden":
        raise error(f"{source}: there is no key {key}.", _near(parents, last))
    if first["type"] == "missing":
        raise error(f"{source}: {key} is missing.", "Add it.")
    raise error(f"{source}: {key} does not fit: {_problem(first['msg'])}.", "Correct it.")


def _toml_problem(error: tomllib.TOMLDecodeError, text: str) -> str:
    """Return the parser's words with the place in front, such as `line 3, column 5: ...`."""
    found = re.fullmatch(r"(.*?) \(at (.*)\)", str(error), re.DOTALL)
    if found is None:
        return str(error)
    last_line = text.rpartition("\n")[2]
    end = f"line {text.count(chr(10)) + 1}, column {len(last_line) + 1}"
    return f"{found[2].replace('end of document', end)}: {found[1]}"


def _problem(message: str) -> str:
    """Rewrite pydantic's sentence as a clause."""
    message = message.removeprefix("Value error, ")
    clause = message[:1].lower() + message[1:]
    if "match pattern" in clause:
        return "it has characters or a form that are not possible here"
    return clause.replace("input should be", "it should be")


def _near(parents: list[str], key: str) -> str:
    model = _TABLES.get(parents[0], _Checked) if parents else _Checked
    known = list(model.model_fields)
    near = get_close_matches(key, known, n=2)
    return (
        f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
        if near
        else f"The keys are: {', '.join(known)}."
    )


_VARIABLES = {row.variable: row for row in SETTINGS if row.variable}


def read_environment(env: Mapping[str, str]) -> Values:
    """Return what the variables say; an empty one says nothing. Raises `ConfigError`."""
    _refuse_misspelled(env)
    values: dict[str, Any] = {}
    for variable, row in _VARIABLES.items():
        if text := env.get(variable, "").strip():
            kind = _KINDS[row.kind]
            try:
                values[row.key] = kind.read(text)
            except ValueError:
                raise ConfigError(f"{variable} should be {kind.expected}.", "Correct or unset it.") from None
    return checked(values, "The environment", lambda key: _row(key).variable, ConfigError)


def parsed_value(row: Setting, entry: str, text: str) -> Any:
    """Return what a text says of a setting, or of an entry of a table; raises `UsageError`."""
    name = f"{row.key}.{entry}" if entry else row.key
    kind = _KINDS["count" if row.kind == "windows" else row.kind]
    try:
        value = text if row.kind == "aliases" else kind.read(text.strip())
    except ValueError:
        raise UsageError(f"`{name}` should be {kind.expected}, not `{text[:60]}`.") from None
    checked({row.key: {entry: value} if entry else value}, "This", lambda key: f"`{key}`", UsageError)
    return value


def read_flags(said: Said) -> Values:
    """Return what the flags say about keys that files and variables know, too; raises `UsageError`."""
    given = {key: _plain(value) for key, value in said.items() if key in _ROWS and value != ()}
    return checked(given, "The command line", _flag, UsageError)


def _plain(value: Any) -> Any:
    return [str(part) for part in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _flag(key: str) -> str:
    flag = _row(key).flag
    return flag.names[-1] if flag is not None else key


def _row(key: str) -> Setting:
    return _ROWS[key.partition(".")[0]]


def _refuse_misspelled(env: Mapping[str, str]) -> None:
    """Refuse a near miss: a deny rule that goes unread would be a looser policy than the person asked for."""
    for name in env:
        if name.startswith("SANDBUR_") and name not in _VARIABLES and name != "SANDBUR_HOME":
            near = get_close_matches(name, _VARIABLES, n=1, cutoff=0.88)
            if near:
                raise ConfigError(f"There is no variable {name}.", f"Did you mean {near[0]}? Else unset it.")
