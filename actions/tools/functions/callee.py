"""Reads the parameters of a function and their descriptions from its signature and docstring."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from docstring_parser import ParseError, parse

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from .run_context import RunContext

Role = Literal["argument", "injected", "context"]
_UNFILLED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Unresolved(UsageError):
    """An annotation uses a name that is not defined, or that is not defined yet."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """The marker that `Depends` puts into a signature."""

    provider: Callable[..., Any]
    per: Literal["run", "call"] = "run"
    """Whether the provided value is kept for the run or only for the call."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool or of a provider."""

    name: str
    annotation: Any
    """The resolved annotation; `Any` for an injected parameter with an unknown type."""
    default: Any
    """The default value; `inspect.Parameter.empty` if there is none."""
    is_positional_only: bool
    role: Role
    dependency: Dependency | None = None

    @property
    def is_required(self) -> bool:
        return self.role == "argument" and self.default is inspect.Parameter.empty


def parameters_of(
    function: Callable[..., Any],
    what: str,
    names: Mapping[str, Any] | None = None,
    may_take_rest: bool = False,
) -> tuple[Parameter, ...]:
    """Return the parameters. `what` names the function in messages, `names` is the namespace of its
    definition.

    `may_take_rest`: a `**parameter` is allowed. It is not one of the returned parameters. Raises `Unresolved`
    for an annotation that cannot be resolved, `UsageError` for a signature that no call with named arguments
    can fill.
    """
    try:
        signature = inspect.signature(function)
    except NameError as error:
        raise Unresolved(f"{what} cannot be read: {error}.") from None
    except (ValueError, TypeError):
        raise UsageError(f"{what} cannot be read: Python cannot determine its signature.") from None
    taken = (
        one
        for one in signature.parameters.values()
        if not (may_take_rest and one.kind is inspect.Parameter.VAR_KEYWORD)
    )
    return tuple(_read_parameter(function, what, one, names or {}) for one in taken)


def takes_rest(function: Callable[..., Any]) -> bool:
    """Return whether a function accepts any named argument."""
    kinds = (one.kind for one in inspect.signature(function).parameters.values())
    return inspect.Parameter.VAR_KEYWORD in kinds


def _read_parameter(
    function: Callable[..., Any], what: str, one: inspect.Parameter, names: Mapping[str, Any]
) -> Parameter:
    if one.kind in _UNFILLED:
        stars = "*" if one.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise UsageError(
            f"{what} takes `{stars}{one.name}`, for which there is no schema.", "Name each parameter."
        )
    dependency = one.default if isinstance(one.default, Dependency) else None
    if dependency is not None:
        return Parameter(one.name, Any, one.empty, _is_positional(one), "injected", dependency)
    annotation = _resolve_annotation(function, what, one, names)
    dependency = _find_dependency(annotation)
    role: Role = "injected" if dependency else "context" if _is_context(annotation) else "argument"
    return Parameter(one.name, annotation, one.default, _is_positional(one), role, dependency)


def _is_positional(one: inspect.Parameter) -> bool:
    return one.kind is inspect.Parameter.POSITIONAL_ONLY


def _resolve_annotation(
    function: Callable[..., Any], what: str, one: inspect.Parameter, names: Mapping[str, Any]
) -> Any:
    """Return the annotation with all its names resolved."""
    if one.annotation is one.empty:
        return one.empty
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", getattr(plain, "func", plain))
    outer = getattr(plain, "__globals__", None)
    if outer is None:
        constructor: Any = (
            getattr(plain, "__init__", None) if inspect.isclass(plain) else type(plain).__call__
        )
        outer = getattr(constructor, "__globals__", {})
    parameters = {one.__name__: one for one in getattr(plain, "__type_params__", ())}
    holder = _Holder({one.name: one.annotation})
    try:
        hints = typing.get_type_hints(holder, {**outer}, {**names, **parameters}, include_extras=True)
    except NameError as error:
        raise Unresolved(
            f"{what}: the annotation of `{one.name}` cannot be looked up: {error}.",
            "Import or define the name before the tool is used, not only for type checkers.",
        ) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise UsageError(f"{what}: the annotation of `{one.name}` is not a type: {error}.") from None
    return hints[one.name]


class _Holder:
    """An object with one annotation, so that `typing.get_type_hints` resolves one annotation at a time."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _find_dependency(annotation: Any) -> Dependency | None:
    if typing.get_origin(annotation) is not Annotated:
        return None
    found = (one for one in annotation.__metadata__ if isinstance(one, Dependency))
    return next(found, None)


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        return _is_context(annotation.__origin__)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(map(_is_context, typing.get_args(annotation)))
    return annotation is RunContext or typing.get_origin(annotation) is RunContext


def find_deps_type(annotation: Any) -> str:
    """Return the name of the type of dependencies that a `RunContext[...]` needs; empty if it needs none."""
    if typing.get_origin(annotation) is Annotated:
        return find_deps_type(annotation.__origin__)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        choices = (find_deps_type(one) for one in typing.get_args(annotation))
        return next(filter(None, choices), "")
    if typing.get_origin(annotation) is not RunContext:
        return ""
    (deps,) = typing.get_args(annotation)
    is_optional = deps in (Any, object, None) or type(None) in (deps, *typing.get_args(deps))
    return "" if is_optional else str(getattr(deps, "__name__", "")) or inspect.formatannotation(deps)


_SECTIONS = re.compile(
    r"^[ \t]*(Args|Arguments|Parameters|Params|Returns|Raises|Yields|Attributes|Examples?):[ \t]*$"
    r"|^[ \t]*:(param|type|arg|parameter|returns?|raises?)\b|^[ \t]*-{4,}[ \t]*$",
    re.M,
)


def parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of the function, and those of its parameters by name, from the docstring."""
    text = inspect.getdoc(inspect.unwrap(function)) or ""
    if not _SECTIONS.search(text):
        return text or _spell_name(function), {}

    try:
        found = parse(text)
    except ParseError:
        return text, {}
    texts = {one.arg_name: one.description or "" for one in found.params}
    return (found.description or _spell_name(function)).strip(), {
        name: _one_line(line) for name, line in texts.items()
    }


def _spell_name(function: Callable[..., Any]) -> str:
    """Return the name of a function as words, for a function without a description."""
    return name_of(function).rpartition(".")[2].strip("_").replace("_", " ").capitalize() + "."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__
