"""The parameters of a tool's function, which are read once before the first call, and the call itself."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import PurePath
from typing import Any

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...ports import ToolSpec, ToolTraits, Verified
from ...ports.run_inputs import NO_OVERRIDES, Overrides
from .callee import Parameter, name_of, parameters_of, parse_docstring, takes_rest
from .calling import call_function
from .injection import Injection, deps_type_of, missing_deps_of, needs_of
from .named_files import NamedFiles
from .options import ToolOptions
from .run_context import RunContext
from .run_scope import RunScope
from .schemas.arguments import FunctionArguments
from .schemas.preset import ArgumentCheck, PresetArguments, require_valid
from .schemas.schema_tool import SchemaArguments, usual

_ANSWERS: dict[Any, Verified] = {
    "done": "done",
    "not_done": "not_done",
    "unknown": "unknown",
    True: "done",
    False: "not_done",
    None: "unknown",
}


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call, as the model wrote them and as the function takes them."""

    raw: Mapping[str, Any]
    values: Mapping[str, Any]


class Callee:
    """A function with its parameters."""

    def __init__(self, function: Callable[..., Any], what: str, parameters: tuple[Parameter, ...]) -> None:
        self.what = what
        """What the function is, with its name, for messages."""
        self.is_async = _is_async(function)
        self._function = function
        self._needs = needs_of(parameters, what)
        self._deps_type = deps_type_of(parameters)
        self._positional = [one.name for one in parameters if one.is_positional_only]

    def missing_deps(self, replaced: Overrides) -> str:
        """Return the type of the dependencies that the function or its providers need; empty if they need
        none.
        """
        return self._deps_type or missing_deps_of(self._needs, replaced)

    async def call(
        self,
        values: Mapping[str, Any],
        run: RunContext[Any],
        shared: RunScope | None,
        replaced: Overrides = NO_OVERRIDES,
    ) -> tuple[Any, list[str]]:
        """Call the function, then close the resources of this call. Return the result and the errors of
        closing.

        `replaced` are the overrides of providers.
        """
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
    """Returns the outcome of a call whose process died. It may take any argument of the tool by name."""

    def __init__(
        self, function: Callable[..., Any], what: str, names: set[str], where: Mapping[str, Any]
    ) -> None:
        what = f"{what}: its check {name_of(function)}"
        parameters = parameters_of(function, what, where)
        asked = [one for one in parameters if one.role == "argument"]
        for one in asked:
            if one.is_required and one.name not in names:
                raise UsageError(f"{what} has a parameter `{one.name}`, which the tool does not have.")
        self._taken = {one.name for one in asked} & names
        self._callee = Callee(function, what, parameters)

    def missing_deps(self, replaced: Overrides) -> str:
        """Return the type of the dependencies that the check needs; empty if it needs none."""
        return self._callee.missing_deps(replaced)

    async def verify(
        self, values: Mapping[str, Any], run: RunContext[Any], replaced: Overrides = NO_OVERRIDES
    ) -> Verified:
        """Run the check and return its answer. `values` are the arguments of the tool's function."""
        taken = {name: value for name, value in values.items() if name in self._taken}
        answer, _ = await self._callee.call(taken, run, None, replaced)
        if not isinstance(answer, str | bool | None) or answer not in _ANSWERS:
            raise UsageError(
                f"The check of {run.tool} returned {answer!r}: it must be done, not_done or unknown."
            )
        return _ANSWERS[answer]


@dataclass(frozen=True, slots=True)
class FunctionReading:
    """The parameters and the schema of a function, after all names in its signature are defined."""

    spec: ToolSpec
    arguments: ArgumentCheck
    callee: Callee
    check: Check | None
    subject: str
    """The name, for the model, of the argument that identifies a call; empty if all arguments do."""
    traits: ToolTraits
    files: NamedFiles = field(default_factory=lambda: NamedFiles({}))


def read(function: Callable[..., Any], options: ToolOptions, names: Mapping[str, Any]) -> FunctionReading:
    """Read the signature and the docstring. `names` is the namespace of the function's definition.

    Raises `UsageError` for a parameter without a schema, `Unresolved` for a name that is not defined yet.
    """
    if options.schema is not None:
        return _read_by_schema(function, options.schema, options, names)
    what = f"The tool {options.name}"
    parameters = parameters_of(function, what, names)
    text, texts = parse_docstring(function)
    whole = FunctionArguments(function, what, parameters, texts)
    known_as, subject = whole.names, options.traits.subject
    preset = {known_as.get(name, name): value for name, value in options.preset.items()}
    arguments: ArgumentCheck = PresetArguments(whole, preset, what) if preset else whole
    if preset:
        fixed = tuple(one for one in parameters if one.name in options.preset)
        require_valid(FunctionArguments(function, what, fixed, {}), preset, what)
    if subject and subject not in known_as:
        raise UsageError(f"{what} has no argument `{subject}`, which is declared as its subject.")
    named = [known_as[p.name] for p in parameters if p.role == "argument" and _names_files(p)]
    files = NamedFiles(whole.schema, named)
    # A function with file parameters may return the contents of these files.
    traits = replace(options.traits, shows="content") if files.is_any else options.traits
    return FunctionReading(
        spec=ToolSpec(options.name, options.description or text, arguments.schema, options.version),
        arguments=arguments,
        callee=Callee(function, what, parameters),
        check=Check(options.check, what, set(known_as), names) if options.check is not None else None,
        subject=known_as.get(subject, ""),
        traits=traits,
        files=files,
    )


def _read_by_schema(
    function: Callable[..., Any], schema: Mapping[str, Any], options: ToolOptions, names: Mapping[str, Any]
) -> FunctionReading:
    """Read a function whose arguments are described by a schema instead of its signature."""
    what = f"The tool {options.name}"
    usual_schema = usual(schema, what)
    parameters = parameters_of(function, what, names, may_take_rest=True)
    takes = {one.name: one for one in parameters if one.role == "argument"}
    known: Mapping[str, Any] = usual_schema["properties"]
    has_rest, parameter = takes_rest(function), ""
    if not has_rest and len(takes) == 1 and takes.keys().isdisjoint(known):
        (parameter,) = takes
    else:
        _require_same_names(what, takes, known, has_rest)
    if not parameter and not has_rest:
        usual_schema["additionalProperties"] = False
    whole = SchemaArguments(usual_schema, what, parameter)
    arguments: ArgumentCheck = PresetArguments(whole, options.preset, what) if options.preset else whole
    if options.preset:
        fixed: dict[str, Any] = {**usual_schema, "required": (), "additionalProperties": True}
        require_valid(SchemaArguments(fixed, what, ""), options.preset, what)
    text, _ = parse_docstring(function)
    if (subject := options.traits.subject) and subject not in known:
        raise UsageError(f"{what} has no argument `{subject}`, which is declared as its subject.")
    check = Check(options.check, what, {*takes, *known}, names) if options.check is not None else None
    return FunctionReading(
        spec=ToolSpec(options.name, options.description or text, arguments.schema, options.version),
        arguments=arguments,
        callee=Callee(function, what, parameters),
        check=check,
        subject=subject,
        traits=options.traits,
    )


def _require_same_names(
    what: str, takes: Mapping[str, Parameter], known: Mapping[str, Any], has_rest: bool
) -> None:
    """Raise `UsageError` unless the function takes the arguments of the schema by name."""
    for name in known:
        if name not in takes and not has_rest:
            raise UsageError(
                f"{what}: its function does not take `{name}`, which is in its schema.",
                "Let it take the arguments by their names, as **arguments, or all as one dict.",
            )
    for name, one in takes.items():
        if one.is_required and name not in known:
            raise UsageError(f"{what}: its function needs `{name}`, which is not in its schema.")


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
