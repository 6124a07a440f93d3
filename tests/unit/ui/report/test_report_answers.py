"""An answer in a form, or one that a tool ended the run with, is shown as the answer."""

from pathlib import Path
from typing import Any

import pytest
from support.models.answering import GOOD, Done, call_done, final, reporting
from support.models.scripted import START, ScriptedModel, collect, finish, open_session, plan
from support.screens.reports import make_report, page

from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.reports.run_report import Utterance
from sandbur.state.store.store import Store
from sandbur.ui.chat.recap import format_recap
from sandbur.ui.terminal.terminal import glyphs_for


def answers(store: Store) -> list[str]:
    told = [one.what for one in read_account(store, "s1").happened]
    return [what.text.text for what in told if isinstance(what, Utterance) and what.by == "answer"]


@pytest.mark.parametrize("turn", [GOOD, final(verdict="good", score=3, note=None)])
async def test_an_answer_in_a_form_is_shown_as_data(store: Store, tmp_path: Path, turn: Any) -> None:
    session, _ = await reporting(store, tmp_path, turn)
    await collect(session.send("go"))
    assert answers(store) == [GOOD]
    assert f"```\n{GOOD}\n```" in make_report(store, "md")
    assert GOOD in page(store).text
    assert "Sandbur informed the model" not in make_report(store, "md")


async def test_what_a_tool_ended_the_run_with_is_the_answer_and_told_once(store: Store) -> None:
    model = ScriptedModel(START, plan("one", "two"), finish("did one"), [call_done("all is found")])
    session = await open_session(store, model, Done())
    await collect(session.send("go"))
    assert answers(store) == ["all is found"]
    glyphs = glyphs_for("utf-8")
    lines = format_recap("s1", session.state, glyphs)
    assert [text for _, text in lines if "all is found" in text] == [f"{glyphs.point} all is found"]
