"""Asks the person about the outcomes of calls that were interrupted."""

from collections.abc import Awaitable, Callable, Iterable, Iterator

from ....agent.session.decisions import make_decision
from ....agent.session.unknown_outcome import Aftermath
from ....state.calls import CallDecision, PendingCall, Settlement
from ...terminal.lines import Line, format_unknown, tool_word
from ...terminal.text.sanitize import one_line
from .questions import Questions

_CHOICES = {
    "i": "inspect: everything it wrote until then, and what is there now",
    "m": "let the model check: it looks before anything is done again",
    "r": "run it again",
    "d": "it was done",
    "f": "it failed, or did not happen",
}
_SETTLED: dict[str, Settlement] = {"d": "done", "f": "failed", "m": "check"}
_UNKNOWN = "It was running when the process died; nobody knows what came of it."
_TELL = "What the model should know (Enter: nothing more): "

_Look = Callable[[PendingCall], Awaitable["Aftermath"]]
"""Collects the evidence about a call."""


class Settling:
    """The dialogue about the calls of one turn with unknown outcome."""

    KEYS = tuple(_CHOICES)

    def __init__(self, questions: Questions, cwd: str, look: _Look) -> None:
        self._questions = questions
        self._cwd = cwd
        self._look = look

    async def ask(self, calls: Iterable[PendingCall]) -> list[CallDecision] | None:
        """Return the person's answer about each, or None if one is left open; raises `CommandTyped`."""
        decisions: list[CallDecision] = []
        for call in calls:
            decision = await self._ask_one(call)
            if decision is None:
                return None
            decisions.append(decision)
        return decisions

    async def _ask_one(self, call: PendingCall) -> CallDecision | None:
        await self._show(call, is_whole=False)
        known = ""
        while True:
            answer = await self._questions.answer(
                "What came of it?", _CHOICES, "to be answered with d, f or m", safe="i"
            )
            key, known = answer.key, answer.text or known
            if answer.text:
                continue
            if key == "i":
                await self._show(call, is_whole=True)
            elif key == "r":
                self._questions.renderer.know([call])
                return make_decision(call.call_id, "rerun")
            elif key:
                text = await self._questions.line(_TELL, known)
                if text is not None:
                    return make_decision(call.call_id, _SETTLED[key], text.strip())
            else:
                return None

    async def _show(self, call: PendingCall, is_whole: bool) -> None:
        found = await self._look(call)
        wrap = self._questions.wrap_fact
        body = [
            *wrap("", _UNKNOWN, "careful"),
            *format_unknown(call, self._cwd, is_whole),
            *self._list_evidence(found),
        ]
        word, name = tool_word(call.tool), one_line(call.tool)
        self._questions.show(f"{word} was interrupted", body, name if name != word else "")

    def _list_evidence(self, found: Aftermath) -> Iterator[Line]:
        """Yield the current evidence."""
        wrap = self._questions.wrap_fact
        if found.made:
            yield from wrap("it did:        ", _list_calls(found.made))
        rest = f", and {found.more} more" if found.more else ""
        partly = "" if found.is_complete else " (not every file was looked at)"
        since = f"{_list_calls(found.since) or 'no file of the workspace'}{rest}{partly}"
        yield from wrap("changed since: ", since)
        if found.git:
            yield from wrap("git says:      ", f"{_list_calls(found.git)} (whenever that was)")
        if found.running is not None:
            running = _list_calls(found.running)
            yield from wrap("still runs:    ", running or "nothing of it", "bold yellow" if running else "")


def _list_calls(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))
