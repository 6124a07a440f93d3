"""Runs code of a model as the only process of its sandbox. Functions in the code ask the agent to call tools.

The agent starts this module with an open socket. The agent writes marshalled messages: an order, then the
results of calls. This program writes lines of JSON: calls, and finally how the code ended. The agent does not
trust these lines, because the code can write to the socket, too.

This module is started for every piece of code, so it imports as little as possible.
"""

from __future__ import annotations

import _ctypes
import marshal
import os
import sys
from _json import encode_basestring_ascii, make_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_NAME = "<code>"
_READ_BYTES = 1 << 16
_LENGTH_BYTES = 8
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_ONLY_TREE = 0x400
"""The flag of `compile` that returns a syntax tree. An import of `ast` would cost time."""
_MOST_REPR_CHARS = 200_000
_MOST_FRAMES = 20


class ToolFailed(Exception):
    """A call did not succeed. `outcome` is `error`, `denied`, `timeout`, `interrupted` or `unknown`."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


def to_json(value: Any) -> str:
    """Return a value as JSON text. Raises `TypeError`, `ValueError` or `RecursionError` if JSON cannot
    represent it.
    """
    parts = _encoder(value, 0)
    return "".join(parts)


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} has no JSON form")


# The result is that of `json.dumps`, without the time that an import of the whole package needs.
_encoder: Any = make_encoder({}, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, False)


class AgentLine:
    """The socket to the agent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, frame: Mapping[str, Any]) -> None:
        content = memoryview(to_json(frame).encode() + b"\n")
        while content:
            content = content[os.write(self._descriptor, content) :]

    def receive(self) -> Any:
        """Return the next message. If the agent is gone, end the process."""
        return marshal.loads(self._read(int.from_bytes(self._read(_LENGTH_BYTES), "big")))

    def _read(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            parts.append(os.read(self._descriptor, min(count, _READ_BYTES)))
            if not parts[-1]:
                os._exit(1)
            count -= len(parts[-1])
        return b"".join(parts)

    def request(self, function: str, arguments: Mapping[str, Any]) -> str:
        """Ask the agent to call a tool, and return the text of its result. Raises `ToolFailed`."""
        sys.stdout.flush()
        self.send({"kind": "call", "function": function, "arguments": arguments})
        answer = self.receive()
        if answer["outcome"] != "ok":
            raise ToolFailed(answer["outcome"], answer["content"])
        return answer["content"]


def make_function(line: AgentLine, name: str, parameters: Sequence[str]) -> Callable[..., str]:
    """Return the function for a tool. `parameters` are the names of the positional arguments, in order."""

    def call(*values: Any, **named: Any) -> str:
        if len(values) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} arguments but {len(values)} were given")
        given = dict(zip(parameters, values, strict=False))
        if twice := given.keys() & named.keys():
            raise TypeError(f"{name}() got two values for the argument {min(twice)!r}")
        return line.request(name, {**given, **named})

    call.__name__ = call.__qualname__ = name
    return call


def confine(codes: bytes) -> None:
    """Install a system call filter for the rest of this process's life. Raises `OSError`."""
    system: Any = _ctypes
    call, control = system.call_function, system.dlsym(system.dlopen("", 0), "prctl")
    # This is a `struct sock_fprog`: the number of codes, and their address.
    address = id(codes) + sys.getsizeof(b"") - 1
    program = (len(codes) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
    if call(control, (_NO_NEW_PRIVILEGES, 1, 0, 0, 0)) or call(control, (_SECCOMP, _FILTER, program, 0, 0)):
        raise OSError("the system call filter was refused")


class _Ending:
    """Creates the last message, for any exception of the code."""

    def __init__(self, code: str) -> None:
        self.frame: dict[str, Any] = {"kind": "end", "value": None, "text": "", "error": ""}
        self._code = code

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, SystemExit):
            self.frame["error"] = f"SystemExit: {error.code}" if error.code else ""
        elif error is not None:
            self.frame["error"] = _format_error(error, self._code)
        return True


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the code with these names. Return the message that says how it ended."""
    ending = _Ending(code)
    with ending:
        value = _evaluate(code, names)
        if value is not None:
            ending.frame |= _describe(value)
    return ending.frame


def _evaluate(code: str, names: dict[str, Any]) -> Any:
    """Run all statements. Return the value of the last one if it is an expression, else None."""
    tree: Any = compile(code, _NAME, "exec", _ONLY_TREE)
    last = tree.body.pop() if tree.body and type(tree.body[-1]).__name__ == "Expr" else None
    exec(compile(tree, _NAME, "exec"), names)
    if last is None:
        return None
    expression: Any = compile("0", _NAME, "eval", _ONLY_TREE)
    expression.body = last.value
    return eval(compile(expression, _NAME, "eval"), names)


def _describe(value: Any) -> dict[str, Any]:
    try:
        return {"value": to_json(value), "text": value if isinstance(value, str) else ""}
    except (TypeError, ValueError, RecursionError):
        return {"text": repr(value)[:_MOST_REPR_CHARS]}


def _format_error(error: BaseException, code: str) -> str:
    # A program without an error does not need these modules.
    linecache: Any = __import__("linecache")
    traceback: Any = __import__("traceback")
    linecache.cache[_NAME] = (len(code), None, code.splitlines(keepends=True), _NAME)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _NAME:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace, limit=-_MOST_FRAMES)
    return "".join(lines)[-_MOST_REPR_CHARS:]


def main(descriptor: int) -> None:
    """Carry out the order in the first message. Never returns."""
    line = AgentLine(descriptor)
    order = line.receive()
    confine(order["filter"])
    names: dict[str, Any] = {"__name__": "__main__", "ToolFailed": ToolFailed}
    for name, parameters in order["functions"].items():
        names[name] = make_function(line, name, parameters)
    end = run(order["code"], names)
    sys.stdout.flush()
    line.send(end)
    os._exit(0)
