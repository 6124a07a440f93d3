"""The decorator `@tool`, which makes a tool from a function."""

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
    """Make a function available to a model. The signature and the docstring of the function describe the
    tool.

    Args:
        name: The name for the model. Default: the `__name__` of the function.
        description: What the tool does. It may be the first argument, too. Default: the docstring.
        effect: What a second run of a call would mean, after a crash or a failure.
        check: Returns the outcome of a call whose process died. It may take any argument of the function.
        timeout_s: The time limit for one try, in seconds.
        retries: How often a failed call is tried again, if the effect allows it.
        ephemeral: How many of the newest results stay in requests; 0 means all of them.
        ask: Whether a call needs a decision if no rule matches.
        needs: The groups that must be active before the tool is offered.
        subject: The argument that rules are matched against. Default: all arguments as JSON.
        done: Whether the return value is the answer and ends the run.
        repeats: Whether the tool may be polled: equal calls with equal results do not count as a repetition.
        preset: Fixed arguments, as JSON values. The model cannot see or change them; the journal has them.
        postprocess: Converts the return value of the function to the value for the model; sync or async.
        version: The version of the tool, for the journal and the trace. A change of it ends approvals.

    Raises `UsageError` with one sentence that names the function and the problem.
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
    """Return the tools by name, in this order. Plain functions become tools.

    Raises `UsageError` for duplicate names, and for objects that are neither tools nor functions.
    """
    found: dict[str, Tool] = {}
    for one in tools:
        if not isinstance(one, Tool) and not callable(one):
            raise UsageError(f"{one!r} is not a tool.", "Pass functions, or tools of `sandbur.tool`.")
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
    """Return the tools with the further tools that some of them need. The model is not offered the further
    tools.

    If a further tool is also listed in `tools`, it stays unchanged. Raises `UsageError` for two tools of one
    name.
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
