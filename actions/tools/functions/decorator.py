"""`@tool`: makes a tool of a function."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from ....state.calls import Effect
from ....state.errors import UsageError, WrongType
from ...ports import CallsTools, Tool, implements
from .function_tool import FunctionTool
from .options import (
    Ask,
    Postprocess,
    ToolKeywords,
    find_name,
    make_options,
    require_fitting_options,
)

ParametersT = ParamSpec("ParametersT")
ReturnT = TypeVar("ReturnT")


@overload
def tool(function: Callable[ParametersT, ReturnT], /) -> FunctionTool[ParametersT, ReturnT]: ...
@overload
def tool(
    text: str | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
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
) -> Callable[[Callable[ParametersT, ReturnT]], FunctionTool[ParametersT, ReturnT]]: ...
def tool(
    function: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    **options: Unpack[ToolKeywords],
) -> Any:
    """Make a function available to a model; its signature and docstring describe it.

    Args:
        name: what the model calls it; else the `__name__` of the function.
        description: what it does, also as the first argument; else what the docstring says.
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
        preset: fixed arguments, as JSON values: a model neither sees nor changes them; the journal has them.
        postprocess: gets what the function returned, and returns what the model gets; sync or async.
        version: of the tool, for the journal and the trace; an approval does not outlast a change of it.

    Raises `UsageError`: one sentence that names the function and what does not fit.
    """
    text = function if isinstance(function, str) else ""
    if text and description:
        raise UsageError("@tool has two descriptions.", "Write one of them.")
    made = make_options(name, text or description, **options)
    names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        complete = replace(made, name=name or find_name(function))
        require_fitting_options(complete, function)
        return FunctionTool(function, complete, names)

    is_called = function is None or isinstance(function, str)
    return decorate if is_called else decorate(_require_callable(function))


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
