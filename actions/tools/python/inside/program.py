"""Runs a model's code as the only process of its sandbox; functions in it ask the agent to call tools.

The agent starts this module with an open socket. Both sides write lines of JSON: the agent an order and the
results of calls, this program calls and finally how the code ended. The agent trusts none of it, because the
code can write to the socket, too.
"""

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_NAME = "<code>"
_READ_BYTES = 1 << 16
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_ONLY_TREE = 0x400
"""The flag of `compile` for a syntax tree; `ast` would take its time to be imported."""
_MOST_SHOWN = 200_000
_MOST_FRAMES = 20


class ToolFailed(Exception):
    """A call did not succeed; `outcome` is `error`, `denied`, `timeout`, `interrupted` or `unknown`."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class AgentLine:
    """The socket to the agent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def send(self, frame: Mapping[str, Any]) -> None:
        content = memoryview(json.dumps(frame).encode() + b"\n")
        while content:
            content = content[os.write(self._descriptor, content) :]

    def receive(self) -> Any:
        """Return the next message; ends the process if the agent is gone."""
        parts = [self._buffer]
        while b"\n" not in parts[-1]:
            parts.append(os.read(self._descriptor, _READ_BYTES))
            if not parts[-1]:
                os._exit(1)
        first, _, self._buffer = b"".join(parts).partition(b"\n")
        return json.loads(first)

    def request(self, function: str, arguments: Mapping[str, Any]) -> str:
        """Have the agent call a tool and return its text; raises `ToolFailed`."""
        sys.stdout.flush()
        self.send({"kind": "call", "function": function, "arguments": arguments})
        answer = self.receive()
        if answer["outcome"] != "ok":
            raise ToolFailed(answer["outcome"], answer["content"])
        return answer["content"]


def make_function(line: AgentLine, name: str, parameters: Sequence[str]) -> Callable[..., str]:
    """Return the function of a tool; `parameters` are the names of positional arguments, in order."""

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
    """Put a system call filter in force for the rest of this process's life. Raises `OSError`."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("codes", ctypes.c_char_p))

    library = ctypes.CDLL(None, use_errno=True)
    program = Program(len(codes) // 8, codes)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.prctl(
        _SECCOMP, _FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the system call filter was refused")


class _Ending:
    """Makes the last message, whatever the code raises."""

    def __init__(self, code: str) -> None:
        self.frame: dict[str, Any] = {"kind": "end", "value": None, "shown": "", "error": ""}
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
    """Run the code in these names; return the message that says how it ended."""
    ending = _Ending(code)
    with ending:
        value = _evaluate(code, names)
        if value is not None:
            ending.frame |= _describe(value)
    return ending.frame


def _evaluate(code: str, names: dict[str, Any]) -> Any:
    """Run all statements; return the value of the last one if it is an expression, else None."""
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
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return {"value": text, "shown": value if isinstance(value, str) else ""}
    except (TypeError, ValueError, RecursionError):
        return {"shown": repr(value)[:_MOST_SHOWN]}


def _format_error(error: BaseException, code: str) -> str:
    # A program without an error does not load them.
    linecache, traceback = map(importlib.import_module, ("linecache", "traceback"))
    linecache.cache[_NAME] = (len(code), None, code.splitlines(keepends=True), _NAME)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _NAME:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace, limit=-_MOST_FRAMES)
    return "".join(lines)[-_MOST_SHOWN:]


def main(descriptor: int) -> None:
    """Carry out the order that comes first. Never returns."""
    line = AgentLine(descriptor)
    order = line.receive()
    confine(bytes.fromhex(order["filter"]))
    names: dict[str, Any] = {"__name__": "__main__", "ToolFailed": ToolFailed}
    for name, parameters in order["functions"].items():
        names[name] = make_function(line, name, parameters)
    end = run(order["code"], names)
    sys.stdout.flush()
    line.send(end)
    os._exit(0)
