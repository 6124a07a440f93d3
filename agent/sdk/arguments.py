"""Checks the arguments of `Agent(...)`; an error names the argument, its value and what it accepts."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...actions.ports import UserInput
from ...state.errors import UsageError, WrongType
from ..config.values import read_values
from ..extensions.middleware.middleware import Middleware
from ..session.run import Limits

_LISTS = {
    "allow": "rules",
    "ask": "rules",
    "deny": "rules",
    "fallback_models": "models",
    "allow_net": "domains",
    "groups": "names of groups",
    "available_groups": "names of groups",
    "add_dirs": "folders",
}


def require_model(model: Any) -> None:
    is_model = callable(getattr(model, "stream", None)) and isinstance(getattr(model, "name", None), str)
    if model is None or isinstance(model, str) or is_model:
        return
    raise _wrong("model", model, "a text such as 'openai/gpt-5', or an object that is a sandbur.Model")


def require_fitting(given: Mapping[str, Any]) -> None:
    """Raise `WrongType` for an argument of the wrong type."""
    require_model(given["model"])
    _require_list("tools", given["tools"], "functions and tools")
    _require_list("middleware", given["middleware"], "objects of sandbur.Middleware")
    for layer in given["middleware"]:
        if not isinstance(layer, Middleware):
            raise _wrong("middleware", layer, "a list of objects of sandbur.Middleware")
    for name, of_what in _LISTS.items():
        _require_list(name, given[name], of_what)
        for one in given[name]:
            if not isinstance(one, str | Path):
                raise _wrong(f"{name}=[...]", one, f"texts, the {of_what}")
    limits, instructions, env = given["limits"], given["instructions"], given["env"]
    if limits is not None and not isinstance(limits, Limits):
        raise _wrong("limits", limits, "sandbur.Limits, such as Limits(timeout_s=60)")
    if not isinstance(instructions, str) and not callable(instructions):
        raise _wrong("instructions", instructions, "a text, or a function that returns one")
    if env is not None and not isinstance(env, Mapping):
        raise _wrong("env", env, "a mapping of names to texts")
    if given["planning"] not in ("auto", "off"):
        raise UsageError(f"Agent: planning={given['planning']!r} is not possible.", 'It is "auto" or "off".')
    _require_user_input(given["user_input"])
    _require_paths(given)


def _require_user_input(value: Any) -> None:
    if value is not None and not isinstance(value, UserInput):
        raise _wrong("user_input", value, "an object with `async def ask(self, question)`")


def require_values(overrides: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a value that its setting does not allow."""
    read_values(overrides, "Agent(...)", lambda key: f"`{key}`")


def _require_list(name: str, value: Any, of_what: str) -> None:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _wrong(name, value, f"a list of {of_what}", f"Write {name}=[{_example(value)}].")


def _example(value: Any) -> str:
    return repr(value) if isinstance(value, str) else getattr(value, "__name__", "...")


def _require_paths(given: Mapping[str, Any]) -> None:
    for name in ("cwd", "store"):
        if given[name] is not None and not isinstance(given[name], str | Path):
            raise _wrong(name, given[name], "a text")
    servers = given["mcp_servers"]
    if servers is not None and not isinstance(servers, str | Path | Mapping):
        raise _wrong("mcp_servers", servers, "the path of a .mcp.json, or what one has under `mcpServers`")


def _wrong(name: str, value: Any, expected: str, hint: str = "") -> WrongType:
    what = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if what[:1].lower() in "aeiou" else "a"
    kind = f"the class {what}" if isinstance(value, type) else f"{article} {what}"
    return WrongType(f"Agent: `{name}` takes {expected}, and not {kind}.", hint)
