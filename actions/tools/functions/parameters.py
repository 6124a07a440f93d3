"""The parameters of a tool's function and how to call it: read once, before the first call."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from ....state.calls import Effect
from ....state.errors import UsageError
from ...ports import ToolSpec, ToolTraits, Verified
from ...ports.run_inputs import NO_OVERRIDES, Overrides
from .arguments import FunctionArguments
from .callee import Parameter, name_of, parameters_of, parse_docstring
from .calling import call_function
from .injection import Injection, deps_type_of, missing_deps_of, needs_of
from .named_files import NamedFiles
from .run_context import RunContext
from .run_scope import RunScope

_ANSWERS: dict[Any, Verified] = {
    "done": "done",
    "not_done": "not_done",
    "unknown": "unknown",
    True: "done",
    False: "not_done",
    None: "unknown",
}


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of the decorator."""

    name: str
    description: str = ""
    """Empty: the function's docstring is used."""
    effect: Effect = "effect"
    check: Callable[..., Any] | None = None
    timeout_s: float | None = None
    """Of one try."""
    retries: int = 0
    traits: ToolTraits = field(default_factory=ToolTraits)


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call: as the model wrote them, and as the function takes them."""

    raw: Mapping[str, Any]
    values: Mapping[str, Any]


class Callee:
    """A function with its parameters."""

    def __init__(self, function: Callable[..., Any], what: str, parameters: tuple[Parameter, ...]) -> None:
        self.is_async = _is_async(function)
        self._function = function
        self._needs = needs_of(parameters, what)
        self._deps_type = deps_type_of(parameters)
        self._positional = [one.name for one in parameters if one.is_positional_only]

    def missing_deps(self, replaced: Overrides) -> str:
        """Return the type of the dependencies that it or its providers need; empty: none."""
        return self._deps_type or missing_deps_of(self._needs, replaced)

    async def call(
        self,
        values: Mapping[str, Any],
        run: RunContext[Any],
        shared: RunScope | None,
        replaced: Overrides = NO_OVERRIDES,
    ) -> tuple[Any, list[str]]:
        """Call it, then close what was opened for this call alone; return its result and any cleanup
        error. `replaced` are the overrides of providers."""
        if not self._needs:
            return await self._call(values, run), []
        own = RunScope()
        try:
            injected = await Injection(run, shared, own, replaced).fill(self._needs)
            result = await self._call({**values, **injected}, run)
        finally:
            problems = await own.aclose()
        return result, problems

    async def _call(self, values: Mapping[str, Any], run: RunContext[Any]) -> Any:
        positional = [values[name] for name in self._positional]
        named = {name: value for name, value in values.items() if name not in self._positional}
        work = functools.partial(self._function, *positional, **named)
        return await call_function(work, self.is_async, run.emit)


class Check:
    """Reports the outcome of a call whose process died; takes any of the tool's arguments by name."""

    def __init__(
        self, function: Callable[..., Any], what: str, names: set[str], where: Mapping[str, Any]
    ) -> None:
        what = f"{what}: its check {name_of(function)}"
        parameters = parameters_of(function, what, where)
        asked = [one for one in parameters if one.role == "argument"]
        for one in asked:
            if one.is_required and one.name not in names:
                raise UsageError(f"{what} asks for `{one.name}`, which the tool does not take.")
        self._taken = {one.name for one in asked} & names
        self._callee = Callee(function, what, parameters)

    def missing_deps(self, replaced: Overrides) -> str:
        """Return the type of the dependencies that the check needs; empty: none."""
        return self._callee.missing_deps(replaced)

    async def verify(
        self, values: Mapping[str, Any], run: RunContext[Any], replaced: Overrides = NO_OVERRIDES
    ) -> Verified:
        """Ask it; `values` are all that the tool's function would get."""
        taken = {name: value for name, value in values.items() if name in self._taken}
        answer, _ = await self._callee.call(taken, run, None, replaced)
        if not isinstance(answer, str | bool | None) or answer not in _ANSWERS:
            raise UsageError(
                f"The check of {run.tool} returned {answer!r}: it has to be done, not_done or unknown."
            )
        return _ANSWERS[answer]


@dataclass(frozen=True, slots=True)
class FunctionReading:
    """The parameters and schema of a function, once all names in its signature are defined."""

    spec: ToolSpec
    arguments: FunctionArguments
    callee: Callee
    check: Check | None
    subject: str
    """The model's name of the argument that identifies a call; empty: all of them."""
    traits: ToolTraits
    files: NamedFiles = field(default_factory=lambda: NamedFiles({}))


def read(function: Callable[..., Any], options: ToolOptions, names: Mapping[str, Any]) -> FunctionReading:
    """Read signature and docstring; `names` is the namespace of the function's definition.

    Raises `UsageError` for a parameter without a schema, `Unresolved` for a name that is not defined yet.
    """
    what = f"The tool {options.name}"
    parameters = parameters_of(function, what, names)
    text, texts = parse_docstring(function)
    arguments = FunctionArguments(function, what, parameters, texts)
    known_as, subject = arguments.names, options.traits.subject
    if subject and subject not in known_as:
        raise UsageError(f"{what} has no argument `{subject}`, which was to be its subject.")
    named = [known_as[p.name] for p in parameters if p.role == "argument" and _names_files(p)]
    files = NamedFiles(arguments.schema, named)
    # A function with file parameters may show their content, whatever else it does.
    traits = replace(options.traits, shows="content") if files.is_any else options.traits
    return FunctionReading(
        spec=ToolSpec(options.name, options.description or text, arguments.schema),
        arguments=arguments,
        callee=Callee(function, what, parameters),
        check=Check(options.check, what, set(known_as), names) if options.check is not None else None,
        subject=known_as.get(subject, ""),
        traits=traits,
        files=files,
    )


def _is_async(function: Callable[..., Any]) -> bool:
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, getattr(function, "__call__", None))  # noqa: B004
    )


def _names_files(parameter: Parameter) -> bool:
    waiting = [parameter.annotation]
    while waiting:
        one = waiting.pop()
        if inspect.isclass(one) and issubclass(one, PurePath):
            return True
        waiting += typing.get_args(one)
    return False
