"""The tool that runs a function of the program."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

from pydantic_core import to_json

from ....state.calls import Effect
from ...ports import Recovered, RunInputs, ToolContext, ToolOutcome, ToolSpec, ToolTraits, Verified
from .callee import Unresolved, name_of
from .calling import Pieces, call_function
from .named_files import place_paths
from .options import ToolKeywords, ToolOptions, make_ascii_name, make_options, require_fitting_options
from .parameters import Check, FunctionReading, Given, read
from .results import TaskComplete, ToolError, outcome_of
from .run_context import RunContext, context_of_call, end_context
from .schemas.schema_tool import usable_name

ParametersT = ParamSpec("ParametersT")
ReturnT = TypeVar("ReturnT")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_DONE = "It had been done when the process died: its check found it done."


class FunctionTool(Generic[ParametersT, ReturnT]):
    """A function that a model may call. In Python it can still be called like the original function."""

    def __init__(
        self, function: Callable[ParametersT, ReturnT], options: ToolOptions, names: Mapping[str, Any]
    ) -> None:
        """Read the signature. `names` is the namespace of the function's definition. Raises `UsageError`."""
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._options = options
        self._names: Mapping[str, Any] = names
        self._known: FunctionReading | None = None
        self._is_method = _is_method(function)
        # A name may be defined later in the module. It is resolved again when the tool is used.
        with suppress(Unresolved):
            self._known = None if self._is_method else self._read()

    @staticmethod
    def from_schema(
        name: str,
        schema: Mapping[str, Any],
        call: Callable[..., Any],
        *,
        description: str = "",
        **options: Unpack[ToolKeywords],
    ) -> FunctionTool[..., Any]:
        """Make a tool from a JSON schema and a function, sync or async.

        Args:
            name: The name for the model. Characters that providers refuse are replaced.
            schema: The JSON schema of the arguments, an object. Type names of programming languages, such as
                `dict`, `float` or `tuple`, are understood.
            call: Gets the arguments by their names, or all of them as one dict if its only parameter is not
                in the schema. It may have injected parameters and a `RunContext`, too.
            description: What the tool does. Default: the docstring of `call`.
            options: The other arguments of `sandbur.tool`.

        Raises `UsageError` for an invalid schema, and for a function that cannot take the arguments of the
        schema.
        """
        usable = make_ascii_name(name, usable_name(name))
        made = make_options(usable, description, schema=schema, **options)
        require_fitting_options(made, call)
        return FunctionTool(call, made, {})

    def __call__(self, *args: ParametersT.args, **kwargs: ParametersT.kwargs) -> ReturnT:
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type[Any] | None = None) -> FunctionTool[..., ReturnT]:
        """Return the tool for one object, if the function is a method."""
        if instance is None or not self._is_method:
            return self
        bound = cast(Any, self._function).__get__(instance, owner)
        return FunctionTool(bound, self._options, self._names)

    def __repr__(self) -> str:
        return f"<tool {self._options.name}: {self.origin}>"

    @property
    def origin(self) -> str:
        """Return the module and the name of the function, for people."""
        return f"{getattr(self._function, '__module__', '')}.{name_of(self._function)}"

    @property
    def spec(self) -> ToolSpec:
        return self._reading.spec

    @property
    def traits(self) -> ToolTraits:
        return self._reading.traits

    @property
    def effect(self) -> Effect:
        return self._options.effect

    @property
    def _reading(self) -> FunctionReading:
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> FunctionReading:
        known = read(self._function, self._options, self._names)
        self._names = {}
        return known

    def parse(self, arguments: str) -> Given:
        return Given(*self._reading.arguments.check(self.spec, arguments))

    def effect_of(self, arguments: Given) -> Effect:
        return self._options.effect

    def subject(self, arguments: Given) -> str:
        """Return the argument that identifies the call, or all arguments as JSON."""
        name = self._reading.subject
        about = arguments.raw.get(name, "") if name else arguments.raw
        return about if isinstance(about, str) else to_json(about).decode()

    def paths(self, arguments: Given) -> Sequence[str]:
        """Return the arguments of type `Path`, including those inside models and lists."""
        return self._reading.files.find_paths(arguments.raw)

    def missing_deps(self, inputs: RunInputs) -> str:
        """Return the type of the dependencies that the function needs and the run lacks; empty if it lacks
        none.
        """
        return "" if inputs.deps is not None else self._reading.callee.missing_deps(inputs.overrides)

    async def run(self, arguments: Given, context: ToolContext) -> ToolOutcome:
        for number in range(self._options.retries):
            try:
                outcome = await self._run_once(arguments, context)
            except Exception:  # a function of the program may raise any exception
                if not await self._may_repeat(arguments, context):
                    raise
            else:
                if outcome.outcome != "timeout" or not await self._may_repeat(arguments, context):
                    return outcome
            await asyncio.sleep(min(_FIRST_PAUSE_S * 2**number, _LONGEST_PAUSE_S))
        return await self._run_once(arguments, context)

    async def recover(self, arguments: Given, context: ToolContext) -> Recovered:
        """Run the check for the outcome of the call. Without a check, the outcome is unknown."""
        if self._reading.check is None:
            return Recovered(None)
        if context.inputs.deps is None and self._reading.check.missing_deps(context.inputs.overrides):
            return Recovered(None, note="Its check needs deps: open the session with deps=... to run it.")
        found = await self._verify(self._reading.check, arguments, context)
        if found == "done":
            return Recovered(ToolOutcome("ok", _DONE))
        if found == "not_done":
            return Recovered(None, is_not_started=True)
        return Recovered(None, note="Its check cannot determine the outcome.")

    async def _run_once(self, arguments: Given, context: ToolContext) -> ToolOutcome:
        reading, run = self._reading, context_of_call(self._options.name, context)
        limit = asyncio.timeout(self._options.timeout_s)
        try:
            async with limit:
                values = self._place_arguments(arguments, context)
                replaced = context.inputs.overrides
                result, problems = await reading.callee.call(values, run, context.scope, replaced)
                result = await self._postprocess(result, run)
        except ToolError as error:
            return ToolOutcome("error", str(error))
        except TaskComplete as done:
            return outcome_of(done, run.tool)
        except SystemExit as left:
            return ToolOutcome("error", f"{run.tool} failed: it called sys.exit({left.code!r}).")
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return ToolOutcome("error", f"{run.tool} failed: an operation that it waited for was cancelled.")
        except TimeoutError as late:
            if not limit.expired():
                raise
            return self._describe_timeout(late)
        finally:
            end_context(run)
        return self._finish(outcome_of(result, run.tool), problems)

    async def _postprocess(self, result: Any, run: RunContext) -> Any:
        """Return the value for the model that replaces a result. An answer that ends the run is not
        changed.
        """
        change = self._options.postprocess
        if change is None or isinstance(result, TaskComplete):
            return result
        given = (
            "".join(result)
            if isinstance(result, Pieces) and all(isinstance(piece, str) for piece in result)
            else result
        )
        return await call_function(partial(change, given), inspect.iscoroutinefunction(change), run.emit)

    def _place_arguments(self, arguments: Given, context: ToolContext) -> Mapping[str, Any]:
        """Return the arguments of the function, with relative paths resolved against the working folder."""
        return place_paths(arguments.values, context.cwd) if self._reading.files.is_any else arguments.values

    def _finish(self, outcome: ToolOutcome, problems: Sequence[str]) -> ToolOutcome:
        if problems:
            outcome = replace(outcome, content="\n".join((outcome.content, *problems)))
        if self.traits.is_done_tool and outcome.outcome == "ok" and outcome.ends_run is None:
            return replace(outcome, ends_run=outcome.content)
        return outcome

    def _describe_timeout(self, late: TimeoutError) -> ToolOutcome:
        stopped = "was stopped" if self._reading.callee.is_async else "cannot be stopped: it may still run"
        message = f"{self._options.name} did not end within {self._options.timeout_s:g} s and {stopped}."
        if self._options.effect != "read":
            message += " It may have taken effect."
        partial_output = late.__cause__.args[0] if late.__cause__ is not None and late.__cause__.args else ""
        return ToolOutcome(
            "timeout", f"{message} Output so far:\n{partial_output}" if partial_output else message
        )

    async def _may_repeat(self, arguments: Given, context: ToolContext) -> bool:
        """Return whether the function may be called again after a failure."""
        check = self._reading.check
        if check is None:
            return self._options.effect in ("read", "idempotent")
        return await self._verify(check, arguments, context) == "not_done"

    async def _verify(self, check: Check, arguments: Given, context: ToolContext) -> Verified:
        run = context_of_call(self._options.name, context)
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await check.verify(
                    self._place_arguments(arguments, context), run, context.inputs.overrides
                )
        finally:
            end_context(run)


def _is_cancelled() -> bool:
    """Return whether the cancellation is meant for this call."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_method(function: Callable[..., Any]) -> bool:
    """Return whether the function is an unbound method of a class."""
    if not inspect.isfunction(function) or function.__qualname__.rpartition(".")[0][-1:] in ("", ">"):
        return False
    first = next(iter(function.__code__.co_varnames[: function.__code__.co_argcount]), "")
    return first == "self" and first not in function.__annotations__
