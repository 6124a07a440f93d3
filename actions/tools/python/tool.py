"""The tool `execute_python`: runs code of a model in a sandbox, in which tools of the session are
functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ....state.calls import Effect
from ....state.conversation.messages import ToolResult
from ....state.errors import UsageError
from ...ports import (
    NestedCalls,
    NestedCallsDiffer,
    NestedCallWaits,
    Tool,
    Toolbox,
    ToolContext,
    ToolOutcome,
    ToolTraits,
)
from ..builtin import BuiltinTool
from ..functions.decorator import index_tools
from ..schema import PlainText, ToolArguments, spec_of
from ..shell.execution.spool import provide_folder
from ..shell.sandbox.wall import WallKind, wall_kind
from .code_process import CodeEnd, CodeProcess
from .confinement import CodeLimits
from .signatures import functions_of

NAME = "execute_python"
_DESCRIPTION = (
    "Run Python code that calls tools as functions, and return what it prints and the value of its last"
    " expression. Use it where several calls, or work on their results, fit into one piece of code. The code"
    " is alone in a sandbox: the standard library, an empty folder to write in, no network, no other process"
    " or thread, no files of the user except through the functions. A function returns the text of the tool's"
    " result (json.loads it where it is JSON); a call that fails or is denied raises ToolFailed, with"
    " `outcome`. Calls run one after another. The code may be run again from its beginning, after an"
    " interruption or an approval: then calls that were made return what they returned, so which calls it"
    " makes must not depend on the clock or on chance. Print or return only what you need."
)
_FUNCTIONS = " The functions:\n\n{functions}"
_NO_FUNCTIONS = " There are no functions here: it only computes."
_NO_SANDBOX = (
    "The code was not run: no sandbox works on this machine, and it runs in nothing else. `sandbur doctor`"
    " says what is missing."
)
_MOST_VALUE_CHARS = 100_000
_MAX_TIMEOUT_S = 3600.0


class ExecutePythonArguments(ToolArguments):
    code: PlainText = Field(description="The Python code.")


class PythonTool(BuiltinTool[ExecutePythonArguments]):
    """The tool `execute_python`. The effects of its code end with its sandbox. Each call of the code is
    judged and recorded separately.
    """

    effect: Effect = "idempotent"
    traits = ToolTraits(subject="code", asks="never", word="python")

    def __init__(
        self,
        tools: Sequence[Tool] | None = None,
        timeout_s: float = 60,
        hidden: frozenset[str] = frozenset(),
        sandbox: WallKind | Literal["best"] | None = "best",
    ) -> None:
        """`tools`: the tools that the code may call; None for every suitable tool of the session. `hidden`:
        the names of those that the model cannot call directly. `sandbox`: the kind of sandbox; with None, no
        code runs.
        """
        super().__init__(NAME, _DESCRIPTION, ExecutePythonArguments)
        self._brought = tuple(tools or ())
        self._hidden = hidden
        self._names = None if tools is None else tuple(tool.spec.name for tool in tools)
        self._timeout_s = timeout_s
        self._sandbox: WallKind | Literal["best"] | None = sandbox
        self._bind({tool.spec.name: tool for tool in self._brought})

    def list_brought(self) -> Sequence[Tool]:
        return self._brought

    def list_hidden(self) -> Collection[str]:
        return self._hidden

    def hide(self, names: Collection[str]) -> PythonTool:
        own = frozenset(tool.spec.name for tool in self._brought)
        return self._copy(own.intersection(names))

    def with_tools(self, tools: Toolbox) -> PythonTool:
        bound = self._copy(self._hidden)
        bound._bind(tools)
        return bound

    def _copy(self, hidden: frozenset[str]) -> PythonTool:
        tools = None if self._names is None else self._brought
        return PythonTool(tools, self._timeout_s, hidden, self._sandbox)

    def _bind(self, tools: Toolbox) -> None:
        names = tools if self._names is None else self._names
        usable = (tools[name] for name in names if name in tools and _is_callable(tools[name]))
        self._functions = functions_of(usable)
        texts = "\n\n".join(function.text for function in self._functions.values())
        about = _FUNCTIONS.format(functions=texts) if texts else _NO_FUNCTIONS
        self.spec = spec_of(NAME, _DESCRIPTION + about, ExecutePythonArguments)

    async def run(self, arguments: ExecutePythonArguments, context: ToolContext) -> ToolOutcome:
        calls = context.calls
        if calls is None:
            return ToolOutcome("error", "Code cannot run code of its own.")
        await calls.begin()
        try:
            with ExitStack() as stack:
                end = await self._run(arguments.code, calls, context, provide_folder(context.scratch, stack))
            if end is None:
                return ToolOutcome("error", _NO_SANDBOX)
            outcome = outcome_of(end)
            calls.finish()
        except NestedCallWaits as waits:
            why = f"It waits for a decision about the call {waits.call.call_id}."
            return ToolOutcome("error", why, waits_for=(waits.call,))
        except NestedCallsDiffer as differ:
            return ToolOutcome("error", str(differ))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            return ToolOutcome("error", f"The code was not run: {why}.")
        return outcome

    async def _run(self, code: str, calls: NestedCalls, context: ToolContext, folder: Path) -> CodeEnd | None:
        """Run the code. Return None if there is no sandbox."""
        if self._sandbox == "best":
            self._sandbox = await asyncio.to_thread(wall_kind)
        if (kind := self._sandbox) is None:
            return None

        async def request(function: str, given: str) -> ToolResult:
            known = self._functions.get(function)
            if known is None:
                return ToolResult(
                    call_id=context.call_id,
                    tool=NAME,
                    outcome="error",
                    content=f"No function {function[:80]!r}.",
                )
            return await calls.request(known.tool, given)

        limits = CodeLimits(timeout_s=self._timeout_s)
        process = CodeProcess(kind, folder, limits)
        functions = {name: function.parameters for name, function in self._functions.items()}
        return await process.run(code, functions, request, context.emit)


def python_tool(
    *, tools: Iterable[Tool | Callable[..., Any]] | None = None, timeout_s: float = 60
) -> PythonTool:
    """Return the tool `execute_python`, with which a model runs code that calls tools as functions.

    Args:
        tools: Functions and tools that the code may call. If the agent does not list them, only the code
            can call them. None means all other tools of the agent.
        timeout_s: The time limit for the code itself in seconds, without the calls that it makes.

    Raises `UsageError` for a tool that code cannot call, and for an invalid time limit.
    """
    if not 0 < timeout_s <= _MAX_TIMEOUT_S:
        raise UsageError(
            f"timeout_s={timeout_s!r} is not a time limit for code.",
            f"Pass seconds, at most {_MAX_TIMEOUT_S:g}.",
        )
    given = None if tools is None else tuple(index_tools(tools).values())
    for one in given or ():
        if not _is_callable(one):
            raise UsageError(
                f"Code cannot call the tool {one.spec.name}: it ends the run or adds tools.",
                "Pass it to the agent: Agent(tools=[...]).",
            )
    return PythonTool(given, timeout_s)


def _is_callable(tool: Tool) -> bool:
    """Return whether code may call a tool. Only the model itself may end the run or activate tools."""
    traits = tool.traits
    return not (traits.is_done_tool or traits.equips or tool.spec.name == NAME)


def _spell_value(value: str) -> str:
    """Return JSON text without escapes of letters. A text that is not JSON stays unchanged."""
    try:
        return json.dumps(json.loads(value), ensure_ascii=False) if value else ""
    except (ValueError, RecursionError):
        return value


def outcome_of(end: CodeEnd) -> ToolOutcome:
    """Return the outcome for the model: the printed text, then the value or the error."""
    printed = end.printed.text.rstrip("\n")
    frame = end.frame
    if frame is None:
        content = "\n".join(filter(None, [printed, f"[the code was ended: {end.problem}]"]))
        outcome = ToolOutcome("timeout" if end.is_late else "error", content)
    elif frame.error:
        outcome = ToolOutcome("error", "\n".join(filter(None, [printed, frame.error.rstrip("\n")])))
    else:
        value = frame.text or _spell_value(frame.value or "")
        parts = [printed, f"value: {value[:_MOST_VALUE_CHARS]}" if value else ""]
        outcome = ToolOutcome("ok", "\n".join(filter(None, parts)) or "(no output, no value)")
    full = end.printed.full
    return replace(outcome, full_output=full) if isinstance(full, bytes) else outcome
