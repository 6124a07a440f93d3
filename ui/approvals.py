"""Asks the person about waiting calls: exactly what would run, then one key."""

from collections.abc import Iterable
from typing import Protocol

from state.calls import CallDecision, PendingCall
from ui.calls import Line, fields, preview
from ui.edit import BadEdit, edited_arguments
from ui.question import Questions
from ui.sanitize import exposed, one_line

_SHOWN_LINES = 60
_MAX_RULE = 80


class Rules(Protocol):
    """The part of a session that "always" needs."""

    def suggested_rule(self, call: PendingCall) -> str: ...
    def allow_always(self, rule: str) -> None: ...


class Approvals:
    """The dialogue about the calls of one turn."""

    def __init__(self, questions: Questions, rules: Rules, cwd: str) -> None:
        self._questions = questions
        self._renderer = questions.renderer
        self._rules = rules
        self._cwd = cwd

    async def ask(self, calls: Iterable[PendingCall]) -> list[CallDecision] | None:
        """Return the decisions, or None if the person puts them off.

        After "always" the rest is left to the new rule; what it does not cover is asked again.
        """
        decisions: list[CallDecision] = []
        for call in calls:
            answer = await self._ask_one(call)
            if answer is None:
                return None
            decision, rule = answer
            decisions.append(decision)
            if rule:
                self._rules.allow_always(rule)
                break
        return decisions

    async def _ask_one(self, call: PendingCall) -> tuple[CallDecision, str] | None:
        """Return the decision and the rule to keep, or None if the question was left open."""
        rule = self._rules.suggested_rule(call)
        changed: str | None = None
        while True:
            shown = call if changed is None else call.model_copy(update={"arguments": changed})
            self._show(shown, full=False)
            key = await self._questions.key("Run it?", self._choices(shown, rule if changed is None else ""))
            if key == "v":
                self._show(shown, full=True)
            elif key == "e":
                changed = await self._edit(shown) or changed
            elif key == "r":
                reason = await self._questions.line("Reason: ")
                if reason is not None:
                    return CallDecision(call_id=call.call_id, approved=False, reason=reason), ""
            elif key:
                self._renderer.know([shown])
                decision = CallDecision(call_id=call.call_id, approved=key != "n", arguments=changed)
                return (decision, rule if key == "a" else "")
            else:
                return None

    def _show(self, call: PendingCall, full: bool) -> None:
        glyphs = self._renderer.glyphs
        why = f" {glyphs.dot} {one_line(call.reason)}" if call.reason else ""
        lines: list[Line] = [
            ("", ""),
            ("bold yellow", f"{glyphs.point} {one_line(call.tool)} wants to run{why}"),
        ]
        lines += [(style, f"  {glyphs.bar} {text}") for style, text in self._body(call, full)]
        self._renderer.lines(lines)

    def _body(self, call: PendingCall, full: bool) -> list[Line]:
        lines = preview(call.arguments, self._cwd)
        hidden = len(lines) - _SHOWN_LINES
        if full or hidden <= 0:
            return lines
        half = _SHOWN_LINES // 2
        gap: Line = ("bold yellow", f"... {hidden} lines not shown; v shows everything ...")
        return [*lines[:half], gap, *lines[-half:]]

    def _choices(self, call: PendingCall, rule: str) -> dict[str, str]:
        choices = {"y": "yes, once"}
        if rule:
            choices["a"] = f"always in this session: {_named(rule, call)}"
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


def _named(rule: str, call: PendingCall) -> str:
    """Return the rule, or what it covers if that is too much to read a second time."""
    if len(rule) <= _MAX_RULE and "\n" not in rule:
        return exposed(rule)
    return f"exactly this {'path' if 'path' in fields(call.arguments) else 'command'}"
