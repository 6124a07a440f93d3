"""Asks the person about waiting calls: exactly what would run, then one key, or why it may not."""

import json
import os
import shlex
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ....state.calls import CallDecision, PendingCall
from ....state.messages import json_object
from ...terminal.lines import Line, preview, unknown_lines
from ...terminal.sanitize import one_line
from ..input.editor import EditorFailed, in_editor
from .always import Always
from .questions import Questions


class BadEdit(Exception):
    """The changed text cannot be used; the message says why."""


async def edited_arguments(arguments: str, ask_line: Callable[[str], Awaitable[str | None]]) -> str | None:
    """Return the new JSON arguments, None if nothing was changed; raises `BadEdit`.

    A call that has a command is edited as that command, any other as its JSON.
    """
    values = json_object(arguments) or {}
    command = values.get("command")
    text = command if isinstance(command, str) else _pretty(arguments, values)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    new = await _in_editor(shlex.split(editor), text) if editor else await ask_line(text)
    if new is None or new.strip() == text.strip():
        return None
    if isinstance(command, str):
        return json.dumps({**values, "command": new.rstrip("\n")}, ensure_ascii=False)
    if not json_object(new):
        raise BadEdit("The arguments must be a JSON object; nothing was changed.")
    return new.strip()


def _pretty(arguments: str, values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) if values else arguments


async def _in_editor(editor: list[str], text: str) -> str:
    try:
        return await in_editor(editor, text)
    except EditorFailed as problem:
        raise BadEdit(str(problem)) from None


_SHOWN_LINES = 60


class Approvals:
    """The dialogue about the calls of one turn."""

    def __init__(self, questions: Questions, always: Always, cwd: str) -> None:
        self._questions = questions
        self._renderer = questions.renderer
        self._always = always
        self._cwd = cwd

    async def ask(self, calls: Iterable[PendingCall]) -> list[CallDecision] | None:
        """Return the decisions, or None if the person puts them off.

        After "always" the rest is left to the new rule; what it does not cover is asked again.
        Raises `CommandTyped`; then nothing is decided.
        """
        decisions: list[CallDecision] = []
        for call in calls:
            answer = await self._ask_one(call)
            if answer is None:
                return None
            decision, is_for_more = answer
            decisions.append(decision)
            if is_for_more:
                break
        return decisions

    async def _ask_one(self, call: PendingCall) -> tuple[CallDecision, bool] | None:
        """Return the decision and whether it is about other calls, too; None: the question was left open."""
        changed: str | None = None
        while True:
            shown = call if changed is None else call.model_copy(update={"arguments": changed})
            offers = self._always.offers(shown)
            self._show(shown, full=False)
            choices = self._choices(shown, bool(offers))
            answer = await self._questions.answer("Run it?", choices, "no, with this reason")
            key = answer.key
            if answer.text:
                return CallDecision(call_id=call.call_id, approved=False, reason=answer.text), False
            if key == "v":
                self._show(shown, full=True)
            elif key == "e":
                changed = await self._edit(shown) or changed
            elif key == "r":
                reason = await self._questions.line("Reason: ")
                if reason is not None:
                    return CallDecision(call_id=call.call_id, approved=False, reason=reason), False
            elif not key:
                return None
            elif key != "a" or await self._always.choose(offers):
                self._renderer.know([shown])
                decision = CallDecision(call_id=call.call_id, approved=key != "n", arguments=changed)
                return decision, key == "a"

    def _show(self, call: PendingCall, full: bool) -> None:
        why = f" {self._renderer.glyphs.dot} {one_line(call.reason)}" if call.reason else ""
        self._questions.show(f"{one_line(call.tool)} wants to run{why}", self._body(call, full))

    def _body(self, call: PendingCall, full: bool) -> list[Line]:
        lines = preview(call.arguments, self._cwd)
        hidden = len(lines) - _SHOWN_LINES
        if full or hidden <= 0:
            return lines
        half = _SHOWN_LINES // 2
        gap: Line = ("bold yellow", f"... {hidden} lines not shown; v shows everything ...")
        return [*lines[:half], gap, *lines[-half:]]

    def _choices(self, call: PendingCall, has_offers: bool) -> dict[str, str]:
        choices = {"y": "yes, once"}
        if has_offers:
            choices["a"] = "always: choose what, and for how long"
        choices |= {"n": "no", "r": "no, with a reason", "e": "edit"}
        if len(preview(call.arguments, self._cwd)) > _SHOWN_LINES:
            choices["v"] = "view everything"
        return choices

    async def _edit(self, call: PendingCall) -> str | None:
        try:
            return await edited_arguments(call.arguments, lambda text: self._questions.line("Edit: ", text))
        except BadEdit as problem:
            self._renderer.lines([("red", str(problem))])
            return None


_CHOICES = {
    "i": "inspect: everything it wrote until then",
    "r": "run it again",
    "d": "it was done",
    "f": "it failed, or did not happen",
}
_TELL = "What the model should know (Enter: nothing more): "


class Settling:
    """The dialogue about the calls of one turn whose outcome nobody knows."""

    def __init__(self, questions: Questions, cwd: str) -> None:
        self._questions = questions
        self._cwd = cwd

    async def ask(self, calls: Iterable[PendingCall]) -> list[CallDecision] | None:
        """Return what the person says about each, or None if one is left open; raises `CommandTyped`."""
        decisions: list[CallDecision] = []
        for call in calls:
            decision = await self._ask_one(call)
            if decision is None:
                return None
            decisions.append(decision)
        return decisions

    async def _ask_one(self, call: PendingCall) -> CallDecision | None:
        self._show(call, is_whole=False)
        known = ""
        while True:
            answer = await self._questions.answer(
                "What came of it?", _CHOICES, "to be told with d or f", safe="i"
            )
            key, known = answer.key, answer.text or known
            if answer.text:
                continue
            if key == "i":
                self._show(call, is_whole=True)
            elif key == "r":
                self._questions.renderer.know([call])
                return CallDecision(call_id=call.call_id, settle="rerun")
            elif key:
                told = await self._questions.line(_TELL, known)
                if told is not None:
                    settle = "done" if key == "d" else "failed"
                    return CallDecision(call_id=call.call_id, settle=settle, result=told.strip())
            else:
                return None

    def _show(self, call: PendingCall, is_whole: bool) -> None:
        text = f"{one_line(call.tool)} was running when the process died; nobody knows what came of it"
        self._questions.show(text, unknown_lines(call, self._cwd, is_whole))
