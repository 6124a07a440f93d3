"""Digests of functions and agents, which stay the same in every process until the code changes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import CodeType
from typing import Any, cast

from ...runtime.agent_definition import Definition
from ...runtime.wiring import tool_digest

_PLACES = ("cwd", "store", "add_dirs")
"""Settings that say where an agent works, not how."""
_CHANGING = (list, dict, set, bytearray)
"""Captured objects of these types may change while a function is used."""
_PLAIN = (str, bytes, int, float, bool, type(None))


def describe_function(function: Callable[..., Any]) -> str:
    """Return the name of a function and a digest of its code with the values that it captures.

    An object with a `digest` is described by its type and this text.
    """
    if isinstance(function, functools.partial):
        given = [*function.args, *sorted(function.keywords.items())]
        return f"{describe_function(function.func)} {_hash(''.join(map(_describe_value, given)))}"
    name = getattr(function, "__qualname__", type(function).__name__)
    function = cast("Callable[..., Any]", getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        digest = getattr(function, "digest", "")
        call = getattr(type(function).__call__, "__code__", None)
        body = _hash(_describe_code(call)) if isinstance(call, CodeType) else ""
        return f"{name} {digest if isinstance(digest, str) else ''} {body}".rstrip()
    captured: list[Any] = [*(getattr(function, "__defaults__", None) or ())]
    captured += [_read_cell(cell) for cell in getattr(function, "__closure__", None) or ()]
    captured = [None if isinstance(one, _CHANGING) else one for one in captured]
    return f"{name} {_hash(_describe_code(code) + ''.join(map(_describe_value, captured)))}"


def digest_definition(definition: Definition) -> str:
    """Return the digest of the visible parts of an agent: prompt, tools with code, settings, sub-agents.

    The code that tools call, models that are objects and files that the agent reads are not part of it.
    """
    return _hash("\n".join(_list_parts(definition)))


def _list_parts(definition: Definition) -> Iterator[str]:
    settings = {key: value for key, value in definition.overrides.items() if key not in _PLACES}
    yield json.dumps(settings, sort_keys=True, default=_describe_value)
    yield "" if definition.file is None else definition.file.digest
    instructions = definition.instructions
    yield describe_function(instructions) if callable(instructions) else str(instructions)
    yield f"{definition.has_builtin_tools} {definition.has_planning} {definition.done_tool}"
    yield "" if definition.output is None else definition.output.digest
    yield "" if definition.model is None else definition.model.name
    for tool in definition.tools:
        wrapped = getattr(tool, "__wrapped__", None)
        yield f"{tool_digest(tool.spec)} {'' if wrapped is None else describe_function(wrapped)}"
    for layer in (*definition.sources, *definition.middleware, *definition.knowledge):
        yield type(layer).__qualname__
    yield from (flow.name for flow in definition.flows)
    yield from definition.skills
    for one in (*definition.agents, *(handoff.agent for handoff in definition.handoffs)):
        yield f"{one.name} {one.description} {_hash(chr(10).join(_list_own_parts(one.definition)))}"


def _list_own_parts(definition: Definition) -> Iterator[str]:
    """Yield the parts of a sub-agent without the agents below it, which may lead back to itself."""
    yield from _list_parts(replace(definition, agents=(), handoffs=()))


def _describe_code(code: CodeType) -> str:
    constants = "".join(
        _describe_code(one) if isinstance(one, CodeType) else _describe_value(one) for one in code.co_consts
    )
    return f"{code.co_code.hex()}{code.co_names}{constants}"


def _describe_value(value: Any) -> str:
    """Return a text for a value. Sets are sorted, as their order differs in every process."""
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(map(_describe_value, cast('set[Any]', value))))}}}"
    if isinstance(value, tuple | list):
        return f"({','.join(map(_describe_value, cast('list[Any]', value)))})"
    if isinstance(value, Mapping):
        pairs = sorted(map(_describe_value, cast("Mapping[Any, Any]", value).items()))
        return f"({','.join(pairs)})"
    if isinstance(value, _PLAIN):
        return repr(value)
    # What a captured function captures is left out: it may be the function itself.
    code = getattr(value, "__code__", None)
    return _describe_code(code) if isinstance(code, CodeType) else type(value).__qualname__


def _read_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
