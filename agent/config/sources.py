"""The keys of `config.toml`, and one clear sentence for everything that can be wrong with their values."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...state.application import ExecutionMode
from ...state.errors import ConfigError, SandburError
from ..models.providers import WireFormat
from ..pricing import Price
from .paths import decoded

Line = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ProviderTable(_Table):
    """A server of one's own, or another address for a known provider."""

    base_url: Annotated[Line, StringConstraints(pattern=r"^https?://[^\s]+$")]
    api_key_env: Annotated[Line, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The variable that holds the key; None: no key."""
    wire: WireFormat = "chat"


class ConfigValues(_Table):
    """What one source (a file, the environment, the flags) sets; None: it says nothing."""

    model: Line | None = None
    fallback_models: list[Line] | None = None
    mode: ExecutionMode | None = None
    allow: list[str] | None = None
    deny: list[str] | None = None
    add_dirs: list[Line] | None = None
    max_turns: Annotated[int, Field(ge=1)] | None = None
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    store: Line | None = None
    tenant: Annotated[Line, StringConstraints(pattern=r"^[A-Za-z0-9_.@-]{1,64}$")] | None = None
    compress_at: Annotated[float, Field(ge=0.1, le=0.95)] | None = None
    durability: Literal["full"] | None = None
    otel: bool | None = None
    prices: dict[str, Price] | None = None
    context_windows: dict[str, Annotated[int, Field(ge=1000)]] | None = None
    providers: (
        dict[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")], ProviderTable] | None
    ) = None


_TABLES: Mapping[str, type[BaseModel]] = {"prices": Price, "providers": ProviderTable}
Named = Callable[[str], str]
"""Gives the name under which the person knows a key."""


def parse_config(content: bytes, path: Path) -> ConfigValues:
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
    return checked(values, str(path), lambda key: f"`{key}`", ConfigError)


def checked(values: Mapping[str, Any], source: str, named: Named, error: type[SandburError]) -> ConfigValues:
    """Return the values if all of them fit; the error names the key and never repeats the value."""
    try:
        return ConfigValues.model_validate(values)
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
    clause = message[:1].lower() + message[1:]
    if "match pattern" in clause:
        return "it has characters or a form that are not possible here"
    return clause.replace("input should be", "it should be")


def _near(parents: list[str], key: str) -> str:
    model = _TABLES.get(parents[0], ConfigValues) if parents else ConfigValues
    known = list(model.model_fields)
    near = get_close_matches(key, known, n=2)
    return (
        f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
        if near
        else f"The keys are: {', '.join(known)}."
    )


_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_OUTSIDE_PARENTHESES = re.compile(r"[,\n](?![^()]*\))")


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _rules(text: str) -> list[str]:
    return [part.strip() for part in _OUTSIDE_PARENTHESES.split(text) if part.strip()]


def _switch(text: str) -> bool:
    if (said := text.lower()) not in (*_ON, *_OFF):
        raise ValueError
    return said in _ON


def _folders(text: str) -> list[str]:
    return [part for part in text.split(os.pathsep) if part]


_VARIABLES: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "SANDBUR_MODEL": ("model", str, ""),
    "SANDBUR_FALLBACK_MODEL": ("fallback_models", _names, ""),
    "SANDBUR_MODE": ("mode", str, ""),
    "SANDBUR_ALLOW": ("allow", _rules, ""),
    "SANDBUR_DENY": ("deny", _rules, ""),
    "SANDBUR_ADD_DIR": ("add_dirs", _folders, ""),
    "SANDBUR_MAX_TURNS": ("max_turns", int, "a whole number"),
    "SANDBUR_MAX_BUDGET_USD": ("max_budget_usd", float, "a number"),
    "SANDBUR_TIMEOUT": ("timeout_s", float, "a number of seconds"),
    "SANDBUR_STORE": ("store", str, ""),
    "SANDBUR_TENANT": ("tenant", str, ""),
    "SANDBUR_COMPRESS_AT": ("compress_at", float, "a number"),
    "SANDBUR_DURABILITY": ("durability", str, ""),
    "SANDBUR_OTEL": ("otel", _switch, "1 or 0"),
}
"""Variable -> key, how its text is read, and what it should be."""
_VARIABLE_OF = {key: variable for variable, (key, _, _) in _VARIABLES.items()}


def read_environment(env: Mapping[str, str]) -> ConfigValues:
    """Return what the variables say; an empty one says nothing. Raises `ConfigError`."""
    _refuse_misspelled(env)
    values: dict[str, Any] = {}
    for variable, (key, read, expected) in _VARIABLES.items():
        if text := env.get(variable, "").strip():
            try:
                values[key] = read(text)
            except ValueError:
                raise ConfigError(f"{variable} should be {expected}.", "Correct or unset it.") from None
    return checked(values, "The environment", _variable, ConfigError)


def _variable(key: str) -> str:
    return _VARIABLE_OF.get(key.partition(".")[0], key)


def _refuse_misspelled(env: Mapping[str, str]) -> None:
    """Refuse a near miss: a deny rule that goes unread would be a looser policy than the person asked for."""
    for name in env:
        if name.startswith("SANDBUR_") and name not in _VARIABLES and name != "SANDBUR_HOME":
            near = get_close_matches(name, _VARIABLES, n=1, cutoff=0.88)
            if near:
                raise ConfigError(f"There is no variable {name}.", f"Did you mean {near[0]}? Else unset it.")
