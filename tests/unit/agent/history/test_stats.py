"""The figures of a store: every token, call and decision once, whoever asks and however old it is."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.screens.terminal_pair import Terminal
from support.stores.old_stores import open_store
from support.stores.reopening import reopen

from sandbur.agent.history.reports.run_report import CallAccount, CutText, Facts, RecordedVerdict, count_call
from sandbur.agent.history.reports.stats import Stats, Tally, stats_of
from sandbur.agent.history.time_travel.branches import branch
from sandbur.state.application import Usage
from sandbur.state.calls import CallDecision
from sandbur.state.errors import Overloaded
from sandbur.state.store.store import Store

ONE = [("act", {"text": "one"})]


async def ran(store: Store, *turns: object, session_id: str = "s1", cost_usd: float | None = 0.25) -> Usage:
    model = ScriptedModel(*turns, cost_usd=cost_usd)  # pyright: ignore[reportArgumentType]
    session = await open_session(store, model, Recorder(), session_id=session_id)
    await collect(session.send("go"))
    return session.state.usage


def totals(tally: Tally) -> tuple[int, int, int, float]:
    return tally.calls, tally.input_tokens, tally.output_tokens, tally.known_cost_usd


async def test_everything_counts_once(store: Store) -> None:
    used = await ran(store, START, plan("a", "b"), ONE, finish("a"), ONE, finish("b"), "done")
    found = stats_of(store)
    assert totals(found.total) == (7, used.input_tokens, used.output_tokens, 1.75)
    assert [totals(tally) for tally in found.by_model.values()] == [totals(found.total)]
    assert [totals(tally) for tally in found.by_project.values()] == [totals(found.total)]
    assert [totals(tally) for tally in found.by_day.values()] == [totals(found.total)]
    assert (found.sessions, found.steps, found.untraced) == (1, store.sessions()[0].steps, 0)
    assert (found.runs.began, dict(found.runs.ended), found.runs.died) == (1, {"done": 1}, 0)
    assert {name: dict(tally.outcomes) for name, tally in found.tools.items()} == {"act": {"ok": 2}}
    assert dict(found.approvals) == {"allowed by policy": 2}


async def test_a_fork_counts_only_what_it_did_itself(store: Store) -> None:
    used = await ran(store, ONE, "done", "more")
    fork = await branch(reopen(store), "s1", 1, {"execution_mode": "yolo"})
    session = await open_session(reopen(store), ScriptedModel("else"), Recorder(), session_id=fork)
    await collect(session.carry_on())
    found = stats_of(store)
    assert found.total.calls == used.llm_calls + 1
    assert found.untraced == 0
    assert found.sessions == 2


async def test_an_unknown_cost_makes_the_sum_a_least_one(store: Store) -> None:
    await ran(store, "done")
    await ran(store, "done", session_id="s2", cost_usd=None)
    total = stats_of(store).total
    assert (total.cost_usd, total.known_cost_usd, total.unknown_costs) == (None, 0.25, 1)


async def test_failures_are_counted_by_code(store: Store) -> None:
    await ran(store, ONE, Overloaded("busy"))
    found = stats_of(store)
    assert dict(found.failures) == {"model call: overloaded": 1, "overloaded": 1}
    assert dict(found.runs.ended) == {"rate_limited": 1}
    assert (found.total.calls, found.total.failed_calls) == (1, 1)


async def test_decisions_are_counted_by_who_made_them(store: Store) -> None:
    calls = [("act", {"text": "a"}), ("act", {"text": "b"}), ("act", {"text": "forbidden"}), ("none", {})]
    session = await open_session(store, ScriptedModel(calls, "said"), Recorder(), mode="interactive")
    await collect(session.send("go"))
    yes, no = (CallDecision(call_id=f"c1_{n}", approved=not n) for n in range(2))
    await collect(session.decide([yes, no]))
    assert dict(stats_of(store).approvals) == {
        "asked": 2,
        "denied by rule": 1,
        "unusable": 1,
        "allowed by person": 1,
        "denied by person": 1,
    }


async def test_only_the_last_days_count(store: Store) -> None:
    await ran(store, ONE, "done")
    old = "2020-01-02T03:04:05.000+00:00"
    for table in ("traces", "calls", "steps"):
        store.database.commit([(f"UPDATE {table} SET at = ? WHERE session_id = 's1'", (old,))])
    await ran(store, "done", session_id="s2")
    found = stats_of(store, datetime.now(UTC) - timedelta(days=1))
    assert (found.total.calls, found.runs.began, dict(found.tools)) == (1, 1, {})
    assert found.steps == 2
    store.database.commit([("UPDATE heads SET updated_at = ? WHERE session_id = 's1'", (old,))])
    assert stats_of(store, datetime.now(UTC) - timedelta(days=1)).sessions == 1
    assert set(stats_of(store).by_day) == {"2020-01-02", datetime.now(UTC).date().isoformat()}


async def test_another_tenant_s_sessions_do_not_count(store: Store) -> None:
    await ran(store, "done")
    assert stats_of(Store(store.database, store.url, "other")).sessions == 0


async def test_a_damaged_trace_is_left_out(store: Store) -> None:
    used = await ran(store, ONE, "done")
    store.database.commit([("UPDATE traces SET body = ? WHERE session_id = 's1' AND n = 1", ("{",))])
    assert stats_of(store).total.calls == used.llm_calls - 1
    store.quarantine_damage("s1")
    assert stats_of(store).total.calls == used.llm_calls - 1


async def test_time_in_tools_ends_where_a_process_died(store: Store) -> None:
    await ran(store, ONE, "done")
    store.database.commit(
        [
            ("UPDATE calls SET at = '2026-01-01T00:00:00.000+00:00' WHERE move = 'started'", ()),
            ("UPDATE calls SET at = '2026-01-01T00:00:01.500+00:00' WHERE move = 'finished'", ()),
        ]
    )
    assert stats_of(store).total.tool_ms == 1500
    began = (
        "INSERT INTO traces (session_id, n, seq, event, at, body, record, digest) SELECT session_id, 99, 1,"
    )
    store.database.commit(
        [
            (f"{began} 'run_began', at, '{{}}', record + 1, '' FROM calls WHERE move = 'started'", ()),
            ("UPDATE calls SET record = record + 2 WHERE move = 'finished'", ()),
        ]
    )
    found = stats_of(store)
    assert found.total.tool_ms == 0
    assert found.runs.died == 1


async def test_sessions_of_older_versions_count_with_their_totals(untraced: Path) -> None:
    store = open_store(untraced)
    whole = {session.id: store.show(session.id).state.usage for session in store.sessions()}
    forks = {session.id for session in store.sessions() if session.parent_id}
    found = stats_of(store)
    assert found.total.calls == sum(used.llm_calls for name, used in whole.items() if name not in forks)
    assert found.untraced == sum(used.llm_calls > 0 for name, used in whole.items() if name not in forks)
    done = next(iter(sorted(whole)))
    session = await open_session(store, ScriptedModel("new"), Recorder(), session_id=done)
    await collect(session.send("go on"))
    after: Stats = stats_of(store)
    assert (after.total.calls, after.untraced) == (found.total.calls + 1, found.untraced)
    store.close()


def test_a_run_whose_process_was_killed_is_said_to_have_died(tmp_path: Path) -> None:
    command = Command(tmp_path)
    kill_in_command(command)
    found = json.loads(command.run("stats", "--json").out)
    assert (found["runs"]["died"], found["runs"]["running"]) == (1, 0)


def test_the_command_says_it_in_words_and_in_json(tmp_path: Path) -> None:
    command = Command(tmp_path)
    assert "There is no session" in command.run("stats").err
    command.run("-p", "write two into a.txt", "-y", "-m", "demo")
    plain = command.run("stats")
    assert plain.code == 0
    assert "\x1b" not in plain.out
    for words in (
        "sessions     1",
        "model calls  2",
        "By model",
        "write_file",
        "allowed by policy",
    ):
        assert words in plain.out
    found = json.loads(command.run("stats", "--days", "1", "--json").out)
    assert found["total"]["calls"] == 2
    assert found["total"]["cost_usd"] == 0
    assert found["by_model"]["demo"]["cache_hit_rate"] == 0
    assert found["tools"]["write_file"]["outcomes"] == {"ok": 1}
    assert command.run("stats", "--days", "0").code == 2
    assert command.run("stats", "--days", "99999999").code == 0


def test_a_terminal_gets_tables_with_bars(tmp_path: Path) -> None:
    command = Command(tmp_path)
    command.run("-p", "write two into a.txt", "-y", "-m", "demo")
    with Terminal() as terminal:
        process = command.start("stats", start_new_session=True, **terminal.streams)
        terminal.see("allowed by policy")
        terminal.drain(process)
    assert process.returncode == 0
    assert "█" in terminal.output.decode()
    assert b"\x1b[" in terminal.output


def test_names_from_models_and_folders_are_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\u202eb"
    folder.mkdir()
    command = Command(folder)
    command.run("-p", "write two into a.txt", "-y", "-m", "demo")
    out = command.run("stats").out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_call_that_was_asked_about_twice_counts_once_with_its_last_answer() -> None:
    def verdict(decision: str, who: str = "") -> RecordedVerdict:
        return RecordedVerdict("2026-01-01T00:00:00+00:00", "person" if who else "policy", who, decision, "")

    asked_twice = [
        verdict("undecided"),
        verdict("approved", "ada"),
        verdict("undecided"),
        verdict("denied", "ada"),
    ]
    calls = [asked_twice, [verdict("undecided"), verdict("approved", "ada")], [verdict("approved")]]
    account = [
        CallAccount(f"c{number}", "t", CutText("{}"), "", number, verdicts)
        for number, verdicts in enumerate(calls)
    ]
    facts = Facts()
    for call in account:
        count_call(facts, call, "", frozenset())
    assert (facts.asked, facts.approved_by_people, facts.denied_by_people) == (2, 1, 1)
