"""Asks the person what came of a call that was running when the process died."""

from collections.abc import Iterable

from state.calls import CallDecision, PendingCall
from ui.calls import Line
from ui.question import Questions
from ui.sanitize import one_line
from ui.waiting import unknown_lines

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
        """Return what the person says about each, or None if one is left open."""
        decisions: list[CallDecision] = []
        for call in calls:
            decision = await self._ask_one(call)
            if decision is None:
                return None
            decisions.append(decision)
        return decisions

    async def _ask_one(self, call: PendingCall) -> CallDecision | None:
        self._show(call, is_whole=False)
        while True:
            key = await self._questions.key("What came of it?", _CHOICES)
            if key == "i":
                self._show(call, is_whole=True)
            elif key == "r":
                self._questions.renderer.know([call])
                return CallDecision(call_id=call.call_id, settle="rerun")
            elif key:
                told = await self._questions.line(_TELL)
                if told is not None:
                    settle = "done" if key == "d" else "failed"
                    return CallDecision(call_id=call.call_id, settle=settle, result=told.strip())
            else:
                return None

    def _show(self, call: PendingCall, is_whole: bool) -> None:
        renderer = self._questions.renderer
        glyphs = renderer.glyphs
        text = f"{one_line(call.tool)} was running when the process died; nobody knows what came of it"
        lines: list[Line] = [("", ""), ("bold yellow", f"{glyphs.point} {text}")]
        shown = unknown_lines(call, self._cwd, is_whole)
        renderer.lines([*lines, *((style, f"  {glyphs.bar} {line}") for style, line in shown)])
