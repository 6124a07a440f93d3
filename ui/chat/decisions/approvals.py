"""Asks a person about calls that wait for approval: shows exactly what would run, and reads the decision."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ....actions.workspace.paths import format_count
from ....agent.policy.approval_context import ApprovalContext
from ....agent.session.decisions import make_decision
from ....state.calls import CallDecision, PendingCall
from ...terminal.lines import Line, change_lines, preview, preview_plan, title, tool_word
from ...terminal.text.sanitize import expose, one_line
from .always import Always
from .edit import BadEdit, EditForm, edit_text
from .questions import Questions

_MAX_LINES = 60


_ALL = {"y": "yes, all {count}, once each", "n": "no: ask one by one"}

About = Callable[[PendingCall, bool], ApprovalContext]
"""Returns the facts about a call; the second argument is true if the person has changed its arguments."""


class _Answer(NamedTuple):
    decisions: Sequence[CallDecision]
    is_about_rest: bool = False
    """True if the remaining calls are judged again before the person is asked about them."""


class Approvals:
    """The dialogue about the calls of a turn that wait for approval."""

    KEYS = ("y", "a", "s", "n", "r", "e", "v", "A")
    """All keys of the dialogue; which keys are offered depends on the call."""

    def __init__(self, questions: Questions, always: Always | None, cwd: str, about: About) -> None:
        """`always` is None while other sub-agents run: then no rule is added and no call is edited."""
        self._questions = questions
        self._renderer = questions.renderer
        self._always = always
        self._cwd = cwd
        self._about = about
        self._broken: dict[str, str] = {}
        """Call id -> the text of an edit that could not be used."""

    async def ask(self, calls: Sequence[PendingCall]) -> list[CallDecision] | None:
        """Return the decisions about the calls, or None if the person leaves a question open.

        After "always", the remaining calls are left out: the gate judges them again with the new rule. Raises
        `CommandTyped` if the person types a command; then nothing is decided.
        """
        decisions: list[CallDecision] = []
        for place in range(len(calls)):
            answer = await self._ask_one(calls, place)
            if answer is None:
                return None
            decisions += answer.decisions
            if answer.is_about_rest:
                break
        return decisions

    async def _ask_one(self, calls: Sequence[PendingCall], place: int) -> _Answer | None:
        """Return the answer about one call, or None if the person leaves the question open."""
        call, changed, is_full = calls[place], None, False
        while True:
            edited = call if changed is None else call.model_copy(update={"arguments": changed})
            about = self._about(edited, edited.arguments != call.arguments)
            body = self._body(edited, about)
            self._show(calls, place, about, self._cut(body, is_full or about.is_plan))
            is_cut = len(body) > _MAX_LINES and not about.is_plan
            choices = self._choices(edited, len(calls) - place if changed is None else 0, is_cut)
            question = "Run it?"
            if about.is_plan:
                question, choices["y"] = "Begin it?", "yes, begin it"
            answer = await self._questions.answer(question, choices, "no, with this reason", firm="s")
            is_full = answer.key == "v"
            if answer.text:
                return _Answer([make_decision(call.call_id, "deny", answer.text)])
            if not answer.key:
                return None
            if answer.key == "e":
                changed = await self._edit(edited) or changed
            elif (
                decision_made := await self._read_decision(answer.key, calls[place:], edited, changed)
            ) is not None:
                return decision_made

    async def _read_decision(
        self, key: str, left: Sequence[PendingCall], edited: PendingCall, changed: str | None
    ) -> _Answer | None:
        """Return the answer that a key means, or None if the question has to be asked again."""
        call_id = edited.call_id
        match key:
            case "n":
                return _Answer([make_decision(call_id, "deny")])
            case "r":
                reason = await self._questions.line("Reason: ")
                denied = make_decision(call_id, "deny", reason or "")
                return None if reason is None else _Answer([denied])
            case "A":
                found = await self._ask_all(left)
                return _Answer(found, True) if found else None
            case "a" if self._always is None or not await self._always.choose(self._always.offers(edited)):
                return None
            case "s" if self._always is not None and (offer := self._always.sandbox(edited)) is not None:
                self._always.accept(offer)
                self._renderer.know([edited])
                return _Answer([make_decision(call_id, "approve", arguments=changed)], True)
            case "y" | "a":
                self._renderer.know([edited])
                return _Answer([make_decision(call_id, "approve", arguments=changed)], key == "a")
            case _:
                return None

    async def _ask_all(self, calls: Sequence[PendingCall]) -> list[CallDecision]:
        """Show each call in full, then ask one question about all; return the approvals, or an empty list."""
        for number in range(len(calls)):
            about = self._about(calls[number], False)
            self._show(calls, number, about, self._body(calls[number], about), lists_others=False)
        choices = {key: text.format(count=len(calls)) for key, text in _ALL.items()}
        if await self._questions.key(f"Run all {len(calls)} as shown?", choices, firm="y") != "y":
            return []
        self._renderer.know(calls)
        return [make_decision(call.call_id, "approve") for call in calls]

    def _show(
        self,
        calls: Sequence[PendingCall],
        place: int,
        about: ApprovalContext,
        body: Sequence[Line],
        lists_others: bool = True,
    ) -> None:
        dot = self._renderer.glyphs.dot
        count = f" {dot} {place + 1} of {len(calls)}" if len(calls) > 1 else ""
        others = self._list_calls(calls, place) if lists_others and len(calls) > 1 else ()
        lines = [*body, *change_lines(about.plan_changes), *self._facts(about), *others]
        word, name = tool_word(calls[place].tool), one_line(calls[place].tool)
        heading = "The model proposes a plan" if about.is_plan else f"{word} wants to run"
        title = name if name != word or about.is_plan else ""
        self._questions.show(f"{heading}{count}", lines, title)

    def _body(self, call: PendingCall, about: ApprovalContext) -> list[Line]:
        if about.is_plan and not about.problem:
            room, bar = self._questions.room, self._renderer.glyphs.bar
            return preview_plan(call.tool, call.arguments, self._cwd, room, bar)
        return [*preview(call.tool, call.arguments, self._cwd), *change_lines(about.changes)]

    def _cut(self, lines: list[Line], is_full: bool) -> list[Line]:
        hidden = len(lines) - _MAX_LINES
        if is_full or hidden <= 0:
            return lines
        half = _MAX_LINES // 2
        gap: Line = ("bold yellow", f"... {format_count(hidden, 'line')} hidden; v shows everything ...")
        return [*lines[:half], gap, *lines[-half:]]

    def _facts(self, about: ApprovalContext) -> Iterator[Line]:
        """Yield why the call is asked about, which places and hosts it reaches, and its sandbox."""
        wrap = self._questions.wrap_fact
        if about.problem:
            yield from wrap("cannot run:  ", one_line(about.problem), "red")
        if about.why and about.why != about.problem:
            yield from wrap("asks why:    ", one_line(about.why))
        if places := [*about.leads, *(f"{host} (network)" for host in about.hosts)]:
            yield from wrap("leads to:    ", ", ".join(map(one_line, places)))
        if about.sandbox:
            yield from wrap("sandbox:     ", one_line(about.sandbox))

    def _list_calls(self, calls: Sequence[PendingCall], place: int) -> Iterator[Line]:
        """Yield a line for each call of the turn."""
        yield "", ""
        for number, call in enumerate(calls):
            mark = "this one" if number == place else "decided" if number < place else "waits"
            name = expose(title(call.tool, call.arguments))
            yield "dim", self._questions.cut(f"{number + 1} of {len(calls)}  {mark:<8}  {name}")

    def _choices(self, call: PendingCall, left: int, is_cut: bool) -> dict[str, str]:
        choices = {"y": "yes, once"}
        if self._always is not None and self._always.offers(call):
            choices["a"] = "always ..."
        if self._always is not None and self._always.sandbox(call) is not None:
            choices["s"] = "in the sandbox, and do not ask again for this session"
        choices |= {"n": "no", "r": "no, with a reason"}
        if self._always is not None:
            choices["e"] = "edit"
        if is_cut:
            choices["v"] = "view everything"
        if left > 1:
            choices["A"] = f"all {left}: see each whole, then decide once"
        return choices

    async def _edit(self, call: PendingCall) -> str | None:
        """Return the edited arguments, or None; an invalid text is kept for the next edit."""
        form = EditForm(call.tool, call.arguments)
        text = self._broken.pop(call.call_id, form.text)
        written = None
        try:
            written = await edit_text(text, form.is_one_line, self._ask_line)
            return None if written is None else form.read(written)
        except BadEdit as problem:
            kept = written if written is not None else text
            if kept != form.text:
                self._broken[call.call_id] = kept
            again = " Nothing was changed; e opens your text again." if kept != form.text else ""
            self._renderer.lines([("red", one_line(f"{problem}{again}"))])
            return None

    async def _ask_line(self, text: str) -> str | None:
        return await self._questions.line("Edit: ", text)
