"""Checks the values of an agent file. Each mistake becomes one sentence with file, line and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast, get_args

from pydantic import BaseModel, ValidationError

from ....actions.tools.similar_names import suggest_keys, suggest_values
from ...config.sources import describe_problem
from .document import ParsedFile, Place
from .schema import AgentFile


def read_agent_file(document: ParsedFile) -> AgentFile:
    """Return the content of an agent file; raises `ConfigError` with file, line and key."""
    try:
        return AgentFile.model_validate(document.values)
    except ValidationError as invalid:
        _refuse(invalid, document)


def _refuse(invalid: ValidationError, document: ParsedFile) -> NoReturn:
    errors = invalid.errors(include_url=False, include_input=False)
    # A misspelled key is reported first, because it can be the reason that another key is missing.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    place, last = _find_place(first["loc"], document.values)
    if first["type"] == "extra_forbidden":
        document.refuse(place, "is not a key here", _suggest(place))
    if first["type"] == "missing" and place:
        document.refuse(place, f"lacks the key `{last}`", "Add it.")
    document.refuse(place, f"does not fit: {describe_problem(first['msg'])}")


def _find_place(loc: tuple[str | int, ...], values: Any) -> tuple[Place, str]:
    """Return the place in the file that a validation error means, and the last part that the file lacks.

    The location of a validation error also contains names of types, which are not in the file.
    """
    place: Place = ()
    missing = ""
    for part in loc:
        is_key = isinstance(values, Mapping) and part in values
        if is_key or (isinstance(values, list) and isinstance(part, int) and part < len(cast(Any, values))):
            values, place = cast(Any, values)[part], (*place, part)
        else:
            missing = str(part)
    return place, missing


def _suggest(place: Place) -> str:
    """Return a hint with the nearest keys, or with all keys, of the table that contains a key."""
    kind: type[BaseModel] = AgentFile
    for part in place[:-1]:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _table_in(kind.model_fields[part].annotation) or kind
    known = [field.alias or name for name, field in kind.model_fields.items()]
    return suggest_keys(str(place[-1]), known, most=2)


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the table type in a field's annotation, which may be a choice or a list; None without one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _table_in(one))), None)


def require_known_tools(
    file: AgentFile, document: ParsedFile, known: set[str], open_prefixes: tuple[str, ...]
) -> None:
    """Raise `ConfigError` if an action book names a tool that the agent does not have.

    Names that begin with one of `open_prefixes` belong to tool servers, whose tools are unknown before a
    session starts.
    """
    for number, book in enumerate(file.action_books):
        for index, name in enumerate(book.tools):
            if name in known or name.startswith(open_prefixes):
                continue
            place = ("action_books", number, "tools", index)
            hint = suggest_values(name, sorted(known))
            document.refuse(place, f"names no tool of this agent: {name}", hint)
