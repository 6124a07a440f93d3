"""`@tool`: makes a tool of a function."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, ParamSpec, TypeVar, overload

from ....state.calls import Effect
from ....state.errors import UsageError, WrongType
from ...ports import CallsTools, Tool, ToolTraits, implements
from .callee import name_of
from .function_tool import FunctionTool
from .parameters import ToolOptions

ParametersT = ParamSpec("ParametersT")
ReturnT = TypeVar("ReturnT")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_EFFECTS = ("read", "idempotent", "verifiable", "effect")
_ASKS = ("by_rule", "always", "never")


@overload
def tool(function: Callable[ParametersT, ReturnT], /) -> FunctionTool[ParametersT, ReturnT]: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effect: Effect = "effect",
    check: Callable[..., Any] | None = None,
    timeout_s: float | None = None,
    retries: int = 0,
    ephemeral: int = 0,
    ask: Literal["by_rule", "always", "never"] = "by_rule",
    needs: Iterable[str] = (),
    subject: str = "",
    done: bool = False,
    repeats: bool = False,
) -> Callable[[Callable[ParametersT, ReturnT]], FunctionTool[ParametersT, ReturnT]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effect: Effect = "effect",
    check: Callable[..., Any] | None = None,
    timeout_s: float | None = None,
    retries: int = 0,
    ephemeral: int = 0,
    ask: Literal["by_rule", "always", "never"] = "by_rule",
    needs: Iterable[str] = (),
    subject: str = "",
    done: bool = False,
    repeats: bool = False,
) -> Any:
    """Make a function available to a model; its signature and docstring describe it.

    Args:
        name: what the model calls it; else the function's name.
        description: what it does; else what the docstring says.
        effect: what running a call twice would mean, after a crash or a failure.
        check: tells what came of a call; takes any of the function's arguments.
        timeout_s: seconds for one try.
        retries: how often a failure is tried again, where the effect allows it.
        ephemeral: only the newest N results stay in requests; 0: all of them.
        ask: whether a call asks where no rule says so.
        needs: groups that have to be active for the tool to be offered.
        subject: the argument that rules are matched against; else all of them, as JSON.
        done: what it returns is the answer, and ends the run.
        repeats: it is meant to be polled, so that calls with the same result are no sign of a stuck model.

    Raises `UsageError`: one sentence that names the function and what does not fit.
    """
    groups = (needs,) if isinstance(needs, str) else tuple(needs)
    traits = ToolTraits(
        subject, asks=ask, groups=groups, ephemeral=ephemeral, is_done_tool=done, repeats=repeats
    )
    options = ToolOptions(name, description, effect, check, timeout_s, retries, traits)
    names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        complete = replace(options, name=name or name_of(function).rpartition(".")[2])
        _require_fitting(complete, name_of(function))
        return FunctionTool(function, complete, names)

    return decorate if function is None else decorate(_require_callable(function))


def _require_callable(function: Any) -> Callable[..., Any]:
    if callable(function):
        return function
    raise WrongType(
        f"@tool takes a function, and not {function!r}.", 'Write @tool, or @tool(description="...").'
    )


def index_tools(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Return the tools by name, in this order; plain functions become tools.

    Raises `UsageError` for duplicate names, and for objects that are neither tools nor functions.
    """
    found: dict[str, Tool] = {}
    for one in tools:
        if not isinstance(one, Tool) and not callable(one):
            raise UsageError(f"{one!r} is no tool.", "Give functions, or what `sandbur.tool` returns.")
        made = one if isinstance(one, Tool) else tool(one)
        name = made.spec.name
        if name in found:
            both = f"{_origin(found[name])} and {_origin(made)}"
            raise UsageError(
                f"There are two tools called {name}: {both}.", 'Give one another name: @tool(name="...").'
            )
        found[name] = made
    return found


def with_brought(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Return the tools with those that some of them bring, which the model does not get by themselves.

    A tool that is listed as well stays as it is. Raises `UsageError` for two tools of one name.
    """
    callers = [one for one in tools.values() if implements(one, CallsTools)]
    if not callers:
        return tools
    brought = index_tools(
        one
        for caller in callers
        for one in caller.list_brought()
        if one.spec.name not in tools or _origin(tools[one.spec.name]) != _origin(one)
    )
    made = (one.hide(brought) if implements(one, CallsTools) else one for one in tools.values())
    return index_tools([*made, *brought.values()])


def _origin(one: Tool) -> str:
    return one.origin if isinstance(one, FunctionTool) else type(one).__qualname__


def _require_fitting(options: ToolOptions, function: str) -> None:
    """Raise `UsageError` for options that do not fit the function."""
    what = f"The tool {options.name}"
    if not _NAME.fullmatch(options.name):
        raise UsageError(
            f"{options.name!r} is no name for a tool: letters, digits, _ and -, at most 64.",
            f"Write @tool(name=...) at {function}.",
        )
    if options.effect not in _EFFECTS:
        raise UsageError(f"{what} has the effect {options.effect!r}.", f"It is one of {', '.join(_EFFECTS)}.")
    if options.traits.asks not in _ASKS:
        raise UsageError(f"{what} has ask={options.traits.asks!r}.", f"It is one of {', '.join(_ASKS)}.")
    if (options.check is not None) != (options.effect == "verifiable"):
        raise UsageError(f"{what}: a check and the effect verifiable need each other.")
    if options.retries and options.effect == "effect":
        raise UsageError(
            f"{what} has retries={options.retries}, but nobody knows its effect, so it is never run twice.",
            'Say that it may be: effect="read" or "idempotent", or "verifiable" with a check.',
        )
    if options.retries < 0 or options.traits.ephemeral < 0:
        raise UsageError(f"{what}: retries and ephemeral are 0 or more.")
    if options.timeout_s is not None and options.timeout_s <= 0:
        raise UsageError(f"{what} has timeout_s={options.timeout_s:g}: it has to be more than 0.")
