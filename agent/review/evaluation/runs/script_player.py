"""The model `scripted`: plays the replies in the script of a task, without a real model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

from .....actions.ports import ModelEvent, ModelRequest, Reply, list_events
from .....actions.turn.user_code import UserCode
from .....state.application import Usage
from .....state.conversation.messages import Block, Message, Text, ToolUse
from .....state.errors import UsageError
from ..suites.task import Script, Task
from ..suites.task_folder import SCRIPT

SCRIPTED = "scripted"
"""The name of the model."""
_BYTES_PER_TOKEN = 4
_SUMMARY = "Earlier messages."
_AGAIN = ("unknown", "interrupted")
_FORM = 'A reply is a text, or {"text": "...", "calls": [{"tool": "NAME", "arguments": {...}}]}.'


def read_script(
    task: Task, script: Script, translate: Callable[[str], str]
) -> list[tuple[str, list[ToolUse]]]:
    """Return the replies of a script of a task; if it is empty, those of its folder. Raises `UsageError` with
    the place and the number of a reply that is wrong."""
    place: Any = f"The script of the task {task.name}"
    with UserCode(place):
        replies: Any = list(script() if callable(script) else script)
    if not replies:
        if task.folder is None or not (path := task.folder / SCRIPT).is_file():
            raise UsageError(
                f"The task {task.folder or task.name} has no {SCRIPT}.",
                f"The model `{SCRIPTED}` plays this file.",
            )
        place, replies = path, _read_file(path, translate)
    if not isinstance(replies, list) or not replies:
        raise UsageError(f"{place} is not a list of replies.", _FORM)
    return [_read_reply(place, number, one) for number, one in enumerate(cast("list[Any]", replies), 1)]


def _read_file(path: Path, translate: Callable[[str], str]) -> Any:
    try:
        return json.loads(translate(path.read_text("utf-8-sig")))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", _FORM) from None


def _read_reply(place: str | Path, number: int, given: Any) -> tuple[str, list[ToolUse]]:
    if isinstance(given, str):
        return given, []
    try:
        calls = [
            ToolUse(
                call_id=f"call_{number}_{at}",
                tool=one["tool"],
                arguments=json.dumps(one.get("arguments", {})),
            )
            for at, one in enumerate(given.get("calls", ()))
        ]
        if not isinstance(text := given.get("text", ""), str) or not (text or calls):
            raise TypeError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UsageError(f"{place}: reply {number} is {json.dumps(given)[:80]}.", _FORM) from None
    return text, calls


class ScriptPlayer:
    """A model that answers the n-th request of a session with the n-th reply of a script.

    It has no memory: what the session has stored says which reply comes next, so that a killed session goes
    on with the right one. After a call that was interrupted, or whose outcome is unknown, it makes the same
    call again.
    """

    name = SCRIPTED
    context_window = 200_000

    def __init__(self, replies: list[tuple[str, list[ToolUse]]]) -> None:
        self._replies = replies
        self.count_replies: Callable[[], int] = lambda: 0
        """Returns how many replies the session has stored."""

    async def aclose(self) -> None:
        """Do nothing: the model holds no resource."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose == "summary":
            # It is no reply of the script, so it does not count as one.
            summary = Message(role="assistant", origin="model", blocks=(Text(text=_SUMMARY),))
            yield Reply(summary, "stop", Usage())
            return
        number = self.count_replies()
        position = number - _count_repeated(request)
        text, calls = self._replies[min(position, len(self._replies) - 1)]
        if position >= len(self._replies):
            text, calls = "The script has ended.", []
        blocks: list[Block] = [Text(text=text)] if text else []
        # The number makes the ids unique in the session, and the same in every process.
        blocks += [one.model_copy(update={"call_id": f"call_{number}_{at}"}) for at, one in enumerate(calls)]
        message = Message(role="assistant", origin="model", blocks=tuple(blocks))
        sent = len(request.system.encode()) + request.size_bytes
        usage = Usage(
            llm_calls=1,
            input_tokens=-(-sent // _BYTES_PER_TOKEN),
            output_tokens=-(-message.size_bytes // _BYTES_PER_TOKEN),
        )
        for event in list_events(Reply(message, "tool_calls" if calls else "stop", usage)):
            yield event


def _count_repeated(request: ModelRequest) -> int:
    """Return the number of messages with a result after which the call is made again."""
    return sum(
        any(result.outcome in _AGAIN for result in message.tool_results)
        for history in request.histories
        for message in history
    )
