"""The options of a tool that is made from a function, and the check whether they are consistent."""

import functools
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypedDict

from pydantic_core import PydanticSerializationError, to_json

from ....state.calls import Effect
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...ports import ToolTraits
from .callee import name_of

Ask = Literal["by_rule", "always", "never"]
Postprocess = Callable[[Any], Any]
"""A function that gets the return value (for a generator, all yielded values) and returns its replacement."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_EFFECTS = ("read", "idempotent", "verifiable", "effect")
_ASKS = ("by_rule", "always", "never")


class ToolKeywords(TypedDict, total=False):
    """The options of a tool, without its name and description. `sandbur.tool` describes each of them."""

    effect: Effect
    check: Callable[..., Any] | None
    timeout_s: float | None
    retries: int
    ephemeral: int
    ask: Ask
    needs: Iterable[str]
    subject: str
    done: bool
    repeats: bool
    preset: Mapping[str, Any] | None
    postprocess: Postprocess | None
    version: str


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of a tool."""

    name: str = ""
    """The name of the tool; empty for the name of the function."""
    description: str = ""
    """The description of the tool; empty for the docstring of the function."""
    effect: Effect = "effect"
    check: Callable[..., Any] | None = None
    timeout_s: float | None = None
    """The time limit for one try, in seconds."""
    retries: int = 0
    traits: ToolTraits = field(default_factory=ToolTraits)
    preset: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Maps an argument to the value that the author of the tool fixed."""
    postprocess: Postprocess | None = None
    version: str = ""
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the arguments; None if the signature of the function describes them."""


def make_options(
    name: str = "",
    description: str = "",
    *,
    schema: Mapping[str, Any] | None = None,
    effect: Effect = "effect",
    check: Callable[..., Any] | None = None,
    timeout_s: float | None = None,
    retries: int = 0,
    ephemeral: int = 0,
    ask: Ask = "by_rule",
    needs: Iterable[str] = (),
    subject: str = "",
    done: bool = False,
    repeats: bool = False,
    preset: Mapping[str, Any] | None = None,
    postprocess: Postprocess | None = None,
    version: str = "",
) -> ToolOptions:
    """Return the options of a tool from the arguments of `sandbur.tool`."""
    traits = ToolTraits(
        subject,
        asks=ask,
        groups=(needs,) if isinstance(needs, str) else tuple(needs),
        ephemeral=ephemeral,
        is_done_tool=done,
        repeats=repeats,
        preset=_preset_json(preset, name) if preset else "",
    )
    fixed = {} if preset is None else dict(preset)
    return ToolOptions(
        name, description, effect, check, timeout_s, retries, traits, fixed, postprocess, version, schema
    )


def _preset_json(preset: Mapping[str, Any], name: str) -> str:
    try:
        return to_json(preset, inf_nan_mode="constants").decode()
    except PydanticSerializationError as error:
        raise UsageError(
            f"The preset of the tool {name} is not JSON: {str(error).splitlines()[0]}.",
            "Use values that JSON can represent. Objects are injected: `Annotated[..., Depends(provider)]`.",
        ) from None


def find_name(function: Callable[..., Any]) -> str:
    """Return the name of a function for a model: its `__name__`, or the name of the class of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def make_ascii_name(name: str, usable: str) -> str:
    """Return a name of ASCII characters. It differs for names that differ only in other characters."""
    if name.isascii():
        return usable
    mark = f"_{zlib.crc32(name.encode('utf-8', 'replace')):08x}"
    return usable[: 64 - len(mark)] + mark


def require_fitting_options(options: ToolOptions, function: Callable[..., Any]) -> None:
    """Raise `UsageError` if the options do not fit together."""
    what = f"The tool {options.name}"
    if not _NAME.fullmatch(options.name):
        raise UsageError(
            f"{options.name!r} is not a name for a tool. Use at most 64 letters, digits, _ and -.",
            f"Write @tool(name=...) at {name_of(function)}.",
        )
    if options.effect not in _EFFECTS:
        raise UsageError(f"{what} has the effect {options.effect!r}.", f"It is one of {', '.join(_EFFECTS)}.")
    if options.traits.asks not in _ASKS:
        raise UsageError(f"{what} has ask={options.traits.asks!r}.", f"It is one of {', '.join(_ASKS)}.")
    if (options.check is not None) != (options.effect == "verifiable"):
        raise UsageError(f"{what}: a check and the effect verifiable need each other.")
    if options.retries and options.effect == "effect":
        raise UsageError(
            f"{what} has retries={options.retries}, but its effect is not declared, so it never runs twice.",
            'Declare that it may run twice: effect="read" or "idempotent", or "verifiable" with a check.',
        )
    if options.retries < 0 or options.traits.ephemeral < 0:
        raise UsageError(f"{what}: retries and ephemeral are 0 or more.")
    if options.timeout_s is not None and options.timeout_s <= 0:
        raise UsageError(f"{what} has timeout_s={options.timeout_s:g}: it must be more than 0.")
