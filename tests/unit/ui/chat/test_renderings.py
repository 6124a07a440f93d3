"""Every question has the same answers on every terminal: drawn in place, plain for screen readers, dumb."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from support.screens.question_desk import QuestionDesk
from support.waiting import until

from sandbur.agent.policy.approval_context import ApprovalContext
from sandbur.agent.policy.rules.rule_suggestions import RuleSuggestion
from sandbur.agent.session.unknown_outcome import Aftermath
from sandbur.state.calls import CallDecision, PendingCall
from sandbur.ui.chat.decisions.always import Always
from sandbur.ui.chat.decisions.approvals import Approvals
from sandbur.ui.chat.decisions.questions import CommandTyped, Questions
from sandbur.ui.chat.decisions.settling import Settling
from sandbur.ui.chat.input.composer import Composer, Leave
from sandbur.ui.chat.menu import Choice, Picker
from sandbur.ui.terminal.status import StatusFacts
from sandbur.ui.terminal.terminal import Glyphs
from sandbur.ui.terminal.text.theme import LOOK, appear

KEYS = {"Enter": "\r", "Ctrl-D": "\x04", "Ctrl-C": "\x03", "rubbish": "zq\r", "yes": "yes\r"}
LINE = "a line: "
CHOICES = [Choice("a", "A", "a"), Choice("b", "B", "b")]
STANDING = StatusFacts("interactive", "demo", "1")


class Rules:
    """Offers one rule, so that "always" can be pressed."""

    def suggest_rules(self, call: PendingCall) -> list[RuleSuggestion]:
        return [RuleSuggestion("exact", "run_shell_command(df -h)")]

    def accept(self, offer: RuleSuggestion) -> None:
        raise AssertionError("no rule may be added")


class Question(NamedTuple):
    ask: Callable[[Questions], Awaitable[Any]]
    before: str = ""
    """The key that leads to it, from the question before."""


def call(kind: Any = "approval", call_id: str = "c1") -> PendingCall:
    arguments = json.dumps({"command": "df -h"})
    return PendingCall(call_id=call_id, tool="run_shell_command", arguments=arguments, kind=kind)


def approvals(questions: Questions, is_plan: bool = False) -> Approvals:
    def about(call: PendingCall, is_edited: bool) -> ApprovalContext:
        return ApprovalContext("may write", is_plan=is_plan)

    return Approvals(questions, Always(questions, Rules(), Path("/no/where"), {}), "/no/where", about)


async def look(call: PendingCall) -> Aftermath:
    return Aftermath()


def settle(questions: Questions) -> Awaitable[Any]:
    return Settling(questions, "/no/where", look).ask([call("outcome_unknown")])


def approve(questions: Questions) -> Awaitable[Any]:
    return approvals(questions).ask([call(), call(call_id="c2")])


QUESTIONS = {
    "approval": Question(approve),
    "reason": Question(approve, "r"),
    "edit": Question(approve, "e"),
    "always": Question(approve, "a"),
    "all": Question(approve, "A"),
    "plan": Question(lambda questions: approvals(questions, True).ask([call()])),
    "settle": Question(settle),
    "what the model should know": Question(settle, "d"),
    "choice": Question(lambda questions: questions.key("Bring back what?", {"f": "files", "c": "chat"})),
    "value of a form": Question(lambda questions: questions.reply("Guests", {"enter": "declines"})),
    "choice of a form": Question(lambda questions: questions.reply("Room", {"1": "Alpha", "2": "Beta"})),
    "line": Question(lambda questions: questions.line(LINE)),
    "picker": Question(lambda _: Picker("Which?", CHOICES, "leaves").run()),
    "message": Question(lambda _: Composer(InMemoryHistory(), Glyphs(), lambda: STANDING).read()),
}  # fmt: skip


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lend a function that sets the way of rendering of this process."""
    before = LOOK.theme
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)

    def choose(rendering: str) -> None:
        monkeypatch.setenv("TERM", "dumb" if rendering == "dumb" else "xterm-256color")
        appear("none" if rendering == "plain" else before, is_plain=rendering == "plain")

    yield choose
    appear(before, is_plain=False)


def vt100(out: StringIO) -> Vt100_Output:
    return Vt100_Output(out, lambda: Size(rows=24, columns=80), term="xterm-256color", enable_cpr=False)


async def answer(name: str, typed: str) -> tuple[Any, str]:
    """Ask a question and type; leave it open if it is still there. Return the outcome and the output."""
    out = StringIO()
    question = QUESTIONS[name]
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=vt100(out)) as session:
        desk = QuestionDesk(pipe)
        asking = asyncio.ensure_future(question.ask(desk.questions))

        async def is_open() -> bool:
            """Wait until the question takes keys; return whether it is still there."""
            while not asking.done():
                app = session.app
                listens = desk.questions.is_listening or name in ("picker", "message")
                if app is not None and app.is_running and not app.is_done and listens:
                    return True
                await asyncio.sleep(0.02)
            return False

        if question.before and await is_open():
            pipe.send_text(question.before)
            await desk.until(False, 5)
        if await is_open():
            pipe.send_text(typed)
        while await is_open():
            await asyncio.sleep(0.05)
            pipe.send_text("\x03")
        try:
            outcome: Any = await asking
        except (CommandTyped, Leave) as ended:
            outcome = repr(ended)
    return outcome, out.getvalue()


async def answer_all() -> dict[tuple[str, str], tuple[Any, str]]:
    """Give every answer to every question, all at the same time."""
    cases = [(name, key) for name in QUESTIONS for key in KEYS]
    async with asyncio.timeout(120):
        answers = await asyncio.gather(*(answer(name, KEYS[key]) for name, key in cases))
    return dict(zip(cases, answers, strict=True))


async def test_a_question_has_the_same_answers_where_no_line_is_redrawn(
    render: Callable[[str], None],
) -> None:
    render("drawn")
    drawn = await answer_all()
    for rendering in ("plain", "dumb"):
        render(rendering)
        for case, (outcome, out) in (await answer_all()).items():
            assert (rendering, case, outcome) == (rendering, case, drawn[case][0])
            assert "\x1b" not in out, case
            decisions = outcome if isinstance(outcome, list) else []
            assert not any(isinstance(one, CallDecision) and one.approved for one in decisions), case


async def test_a_printed_line_echoes_what_is_typed_and_removed(render: Callable[[str], None]) -> None:
    render("plain")
    out = StringIO()
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=vt100(out)):
        asking = asyncio.ensure_future(QuestionDesk(pipe).questions.line(LINE))
        typed = (
            ("", LINE),
            ("a中", "a中"),
            ("\x7f", "\b\b  \b\b"),
            ("\x01x", f"\r\n{LINE}xa"),
            ("\r", "\r\n"),
        )
        expected = ""
        for keys, echo in typed:
            pipe.send_text(keys)
            expected += echo
            await until(lambda expected=expected: out.getvalue() == expected)
        assert await asking == "xa"
