"""Reports of runs, and a run whose texts all contain scripts and markup that no page may execute."""

import json
import re
from typing import Any

from support.models.scripted import START, Call, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.screens.html_check import Page

from sandbur.actions.ports import ToolOutcome
from sandbur.state.calls import CallDecision
from sandbur.state.errors import Overloaded
from sandbur.state.store.store import Store
from sandbur.ui.report.html import report

NASTY = (
    "</script></pre><img src=x onerror=alert(1)><svg onload=alert(2)> \x1b[31mred\x1b[0m \x1b]0;title\x07"
    " \u202eesrever\u202c & \"double\" 'single' ``` ~~~ <!-- --> ]]> \x00\x07\x9b \u2028 \ufffe \u05d0"
)


def make_report(store: Store, form: str, session_id: str = "s1") -> str:
    return "".join(report(store, session_id, form))


def page(store: Store, session_id: str = "s1") -> Page:
    found = Page(make_report(store, "html", session_id))
    assert found.links <= found.ids
    return found


def beyond_code(text: str) -> str:
    """Return Markdown without its code; fails if a code block has no end."""
    outside: list[str] = []
    is_open = ""
    for line in text.split("\n"):
        run = re.match(r"`{3,}", line)
        if run and not is_open:
            is_open = run[0]
        elif is_open and line == is_open:
            is_open = ""
        elif not is_open:
            outside.append(line)
    assert not is_open
    return re.sub(r"(?<![\\`])(`+)(?!`).+?(?<!`)\1(?!`)", "", "\n".join(outside))


class Says(Recorder):
    """A tool with a fixed outcome."""

    def __init__(self, content: str, outcome: Any = "ok", whole: bytes | None = None) -> None:
        super().__init__()
        self._outcome = ToolOutcome(outcome, content, whole)

    async def run(self, arguments: str, context: Any) -> ToolOutcome:
        return self._outcome


def act(*texts: str) -> list[Call]:
    return [("act", {"text": text}) for text in texts]


async def nasty(store: Store) -> None:
    """Make a run whose texts all contain scripts and markup that no page may execute."""
    turns = [act(NASTY, "2"), [(f"none{NASTY}", {NASTY: NASTY})], NASTY, Overloaded(NASTY)]
    model = ScriptedModel(START, plan(NASTY, "b"), *turns[:2], finish(NASTY), finish("no", "failed"),
                          plan(NASTY), finish("b"), *turns[2:], cost_usd=None)  # fmt: skip
    session = await open_session(store, model, Says(NASTY, "error"), mode="interactive")
    await collect(session.send(NASTY))
    edited = CallDecision(
        call_id="c3_0", approved=True, arguments=json.dumps({"text": NASTY}), by=f"ann{NASTY}"
    )
    await collect(session.decide([edited, CallDecision(call_id="c3_1", reason=NASTY, by="bob")]))
    await collect(session.send("again"))
