"""Asks a person to settle calls whose outcome is unknown."""

from collections.abc import Awaitable, Callable, Iterable, Iterator

from ....agent.session.decisions import make_decision
from ....agent.session.unknown_outcome import Aftermath
from ....state.calls import CallDecision, PendingCall, Settlement
from ...terminal.lines import Line, format_unknown, tool_word
from ...terminal.text.sanitize import one_line
from .questions import Questions

_CHOICES = {
    "i": "inspect: all output so far, and the files now",
    "m": "let the model check before it repeats anything",
    "r": "run it again",
    "d": "it was done",
    "f": "it failed, or did not happen",
}
_SETTLED: dict[str, Settlement] = {"d": "done", "f": "failed", "m": "check"}
_UNKNOWN = "It was running when the process died; its outcome is unknown."
_TELL = "What the model should know (Enter: nothing): "

_Look = Callable[[PendingCall], Awaitable["Aftermath"]]
"""Returns the evidence about the outcome of a call."""


class Settling:
    """The dialogue about the calls of a turn whose outcome is unknown."""

    KEYS = tuple(_CHOICES)

    def __init__(self, questions: Questions, cwd: str, look: _Look) -> None:
        self._questions = questions
        self._cwd = cwd
        self._look = look

    async def ask(self, calls: Iterable[PendingCall]) -> list[CallDecision] | None:
        """Return a decision about each call, or None if the person leaves one open.

        Raises `CommandTyped` if the person types a command instead.
        """
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
                "What was the outcome?", _CHOICES, "then choose d, f or m", safe="i"
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
        """Yield lines about files, git and processes that may show whether the call took effect."""
        wrap = self._questions.wrap_fact
        if found.made:
            yield from wrap("it did:        ", _list_calls(found.made))
        rest = f", and {found.more} more" if found.more else ""
        partly = "" if found.is_complete else " (not every file was looked at)"
        since = f"{_list_calls(found.since) or 'no file of the workspace'}{rest}{partly}"
        yield from wrap("changed since: ", since)
        if found.git:
            yield from wrap("git says:      ", f"{_list_calls(found.git)} (at an unknown time)")
        if found.running is not None:
            running = _list_calls(found.running)
            yield from wrap("still runs:    ", running or "nothing of it", "bold yellow" if running else "")


def _list_calls(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))
