"""Asks the person what came of calls that nobody knows the outcome of."""

from collections.abc import Iterable

from ....state.calls import CallDecision, PendingCall
from ...terminal.lines import unknown_lines
from ...terminal.sanitize import one_line
from .questions import Questions

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
