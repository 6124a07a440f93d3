"""User-defined names for models: `[aliases] fast = "openai/gpt-6.1-mini"` makes `-m fast` work."""

from collections.abc import Mapping

from ...state.errors import ConfigError

_SHIPPED = "demo"


def check_aliases(aliases: Mapping[str, str]) -> None:
    """Raise `ConfigError` for an alias of an unknown name, or an alias that leads back to itself."""
    if _SHIPPED in aliases:
        raise ConfigError(
            f"`aliases.{_SHIPPED}`: {_SHIPPED} is a built-in model.", "Give the alias another name."
        )
    for alias in aliases:
        _resolve(alias, aliases)


def model_of(name: str, aliases: Mapping[str, str]) -> str:
    """Return the model of an alias; any other name is returned unchanged."""
    name = name.strip()
    return _resolve(name, aliases) if name in aliases else name


def _resolve(alias: str, aliases: Mapping[str, str]) -> str:
    way = [alias]
    while (name := aliases[way[-1]].strip()) in aliases:
        if name in way:
            raise ConfigError(
                f"`aliases.{alias}` is circular: {' -> '.join([*way, name])}.",
                "Let one of them name a model.",
            )
        way.append(name)
    if name != _SHIPPED and not all(name.partition("/")):
        raise ConfigError(
            f"`aliases.{way[-1]}`: there is no model and no alias {name!r}.",
            "Write PROVIDER/MODEL or the name of another alias.",
        )
    return name
