"""The report of a run: whole, readable, harmless, of a sane size, and the same in both forms."""

import json
import stat
from pathlib import Path

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.screens.html_check import Page
from support.screens.reports import Says, act, make_report, page
from support.stores.old_stores import open_store
from support.stores.reopening import reopen
from support.stores.tampering import rewrite

from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.reports.run_report import StepCost
from sandbur.agent.history.time_travel.branches import branch
from sandbur.state.calls import CallDecision
from sandbur.state.errors import Overloaded
from sandbur.state.session import SpawnedBy
from sandbur.state.store.store import Store
from sandbur.ui.report.blocks import Bar, Table
from sandbur.ui.report.compose import compose_steps

FORMS = ("html", "md")


@pytest.mark.parametrize("form", FORMS)
async def test_a_report_says_who_decided_what_and_when(store: Store, form: str) -> None:
    session = await open_session(store, ScriptedModel(act("a", "b"), "said"), Recorder(), mode="interactive")
    await collect(session.send("go"))
    yes = CallDecision(call_id="c1_0", approved=True, arguments='{"text": "changed"}', by="ann@lab")
    no = CallDecision(call_id="c1_1", reason="not today", by="bob@lab")
    waiting = make_report(store, form)
    assert "2 waiting" in waiting
    await collect(session.decide([yes, no]))
    text = page(store).text if form == "html" else make_report(store, form)
    for words in ("ann@lab approved it, edited", "bob@lab denied", "not today", "changed", "act is not read"):
        assert words in text, words
    digest = json.loads(
        store.database.query("SELECT body FROM calls WHERE move = 'decided' ORDER BY n")[0][0]
    )["arguments_sha256"]
    assert digest[:16] in text


@pytest.mark.parametrize("form", FORMS)
async def test_a_report_tells_plan_steps_retries_and_failures(store: Store, form: str) -> None:
    model = ScriptedModel(
        START, plan("first", "second"), act("x"), finish("found it"), finish("broken", "failed"),
        plan("third"), finish("mended"), "all done", Overloaded("busy now"), cost_usd=0.5,
    )  # fmt: skip
    session = await open_session(store, model, Says("tool says"))
    await collect(session.send("go"))
    await collect(session.send("more"))
    text = page(store).text if form == "html" else make_report(store, form)
    for words in (
        "the goal", "Step 1: first", "found it", "broken", "The plan was revised", "Step 3: third", "mended",
        "all done", "tool says", "failed (overloaded): busy now", "turned away by the provider", "$4.00",
        "Time", "Run 2 began by", "1 failed",
    ):  # fmt: skip
        assert words in text, (words, text)


@pytest.mark.parametrize("form", FORMS)
def test_a_report_shows_what_changed_in_files(tmp_path: Path, form: str) -> None:
    command = Command(tmp_path)
    (tmp_path / "a.txt").write_text("one\nbefore\nlast\n")
    prompt = "replace before with after in a.txt"
    session_id = command.run("-p", prompt, "-y", "-m", "demo", "--output-format", "json").result["session_id"]
    ended = command.run("sessions", "export", session_id, f"out.{form}", "--format", form)
    assert (ended.code, ended.out) == (0, "")
    file = tmp_path / f"out.{form}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = Page(file.read_text("utf-8")).text if form == "html" else file.read_text("utf-8")
    for words in ("-before", "+after", "a.txt", "edit_file", "verified"):
        assert words.casefold() in text.casefold(), words
    assert command.run("sessions", "export", session_id, f"out.{form}", "--format", form).code == 2
    assert command.run("sessions", "export", session_id, "--format", form).out == file.read_text("utf-8")


def test_a_content_that_is_gone_is_called_so(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "a.txt").write_text("one\nbefore\n")
    prompt = "replace before with after in a.txt"
    session_id = command.run("-p", prompt, "-y", "-m", "demo", "--output-format", "json").result["session_id"]
    (tmp_path / "a.txt").write_text("somebody else\n")
    out = command.run("sessions", "export", session_id, "--format", "md").out
    assert "its content after the change is not stored" in out


def test_a_killed_run_is_told_with_its_death_and_what_was_made_of_it(tmp_path: Path) -> None:
    command = Command(tmp_path)
    session_id = kill_in_command(command)
    command.run("-p", "-r", session_id)
    call_id = json.loads(command.run("sessions", "show", session_id, "--json").out)["pending"][0]["call_id"]
    command.run("settle", session_id, call_id, "--as", "failed")
    out = command.run("sessions", "export", session_id, "--format", "html").out
    text = Page(out).text
    assert "Run 1 ended without a record: its process died" in text
    assert "settled it as failed" in text


async def test_the_page_shows_markdown_of_messages_plans_and_summaries(store: Store) -> None:
    answer = "## Found\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[more](https://example.org/x)"
    model = ScriptedModel(START, plan("look at `a.txt`"), finish("*really* done"), answer)
    session = await open_session(store, model, Recorder())
    await collect(session.send("please **look**"))
    html = make_report(store, "html")
    page(store)
    for part in (
        "<strong>look</strong>", "look at <code>a.txt</code>", "<em>really</em> done", "<li>one</li>",
        "<td>1</td>", '<a href="https://example.org/x" rel="noopener">more</a>',
    ):  # fmt: skip
        assert part in html, part


async def test_a_fork_tells_where_it_parted(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one", "two"), Recorder())
    await collect(session.send("first question"))
    await collect(session.send("second question"))
    fork = await branch(reopen(store), "s1", 1, {})
    session = await open_session(reopen(store), ScriptedModel("other"), Recorder(), session_id=fork)
    await collect(session.send("another question"))
    text = page(store, fork).text
    assert "forked from s1" in text
    assert "another question" in text
    assert "second question" not in text


@pytest.mark.slow
async def test_a_long_run_gives_a_page_of_sane_size(store: Store) -> None:
    turns = [act(f"t{n}") for n in range(200)]
    whole = b"z" * 50_000
    session = await open_session(
        store, ScriptedModel(*turns, "done", context_window=10**9), Says("x" * 20_000, whole=whole)
    )
    await collect(session.send("go"))
    html, text = make_report(store, "html"), make_report(store, "md")
    # The results alone are four million characters.
    assert len(html) < 1_500_000
    assert len(text) < 1_500_000
    assert "characters are left out here" in html
    assert "characters are left out here" in text
    assert "of 50.0 KB" in html
    assert html.count("<meter") <= 60


async def test_the_account_adds_up(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), act("b"), "done", cost_usd=0.5), Recorder())
    await collect(session.send("go"))
    account = read_account(store, "s1")
    assert sum(step.cost_usd or 0 for step in account.steps) == session.state.usage.cost_usd
    assert sum(step.tokens_in for step in account.steps) == session.state.usage.input_tokens
    assert [step.seq for step in account.steps] == list(range(store.sessions()[0].steps))
    assert [call.outcome for call in account.calls] == ["ok", "ok"]


def test_sessions_of_older_versions_have_reports(old: Path) -> None:
    store = open_store(old)
    for session in store.sessions():
        assert session.title in page(store, session.id).text
        make_report(store, "md", session.id)
    store.close()


async def test_a_broken_record_is_said_in_the_report(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    await collect(session.send("go"))
    assert "verified" in page(store).text
    record = rewrite(store, "c1_0", "started", decided_by="person")
    assert f"record {record} calls 1: is not what was written" in page(store).text


async def test_a_new_session_has_a_report(store: Store) -> None:
    session = await open_session(store, ScriptedModel(Overloaded("busy")), Recorder())
    await collect(session.send("go"))
    assert "busy" in page(store).text
    assert "busy" in make_report(store, "md")


def test_the_steps_are_a_table_of_a_limited_length_with_a_bar_in_each_row() -> None:
    steps = [StepCost(n, "router", "", 1500, 10, 5, 1000 * n, 50, 0.01) for n in range(1000)]
    _, table = compose_steps(steps)
    assert isinstance(table, Table)
    assert len(table.rows) == 59
    assert table.rows[0][0] == ["0 to 16"]
    assert table.rows[0][3] == [Bar(1.0)]
    assert table.rows[0][-1] == ["$0.1700"]
    assert table.rows[-1][0] == ["986 to 999"]
    assert list(compose_steps([])) == []
    _, one = compose_steps([StepCost(0, "<b>", "", cost_usd=None)])
    assert isinstance(one, Table)
    assert one.rows[0][:2] == [["0"], ["<b>"]]
    assert one.rows[0][-1] == ["at least $0.00"]


async def test_a_bar_is_drawn_in_both_forms(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    await collect(session.send("go"))
    assert '<meter value="1.0" max="1">' in make_report(store, "html")
    assert "██████████" in make_report(store, "md")


async def test_a_report_has_the_sub_agents_with_state_tokens_and_cost(store: Store) -> None:
    session = await open_session(store, ScriptedModel("done"), Recorder())
    await collect(session.send("go"))
    by = SpawnedBy(session_id="s1", sequence=0, call_id="c", agents=("reader",), description="the <parts>")
    settings = store.index.settings("s1").model_copy(update={"spawned_by": by})
    for number in range(210):
        store.index.create(f"child{number}", settings, "a part")
    text = page(store).text
    assert "Sub-agents" in text
    assert "reader" in text
    assert "the <parts>" in text
    assert "child199" in text
    assert "child200" not in text
    assert "and 10 more" in text
    assert "child0" in make_report(store, "md")
    assert "sub-agent of s1" in " ".join(page(store, "child0").text.split())
