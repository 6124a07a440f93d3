"""Read settings from `SANDBUR_*` variables."""

import os
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from agent.config_file import ConfigValues, checked
from state.errors import ConfigError

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
