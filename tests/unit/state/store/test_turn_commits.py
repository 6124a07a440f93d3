"""A turn takes two commits: the reply with the start of its first call, and what came of the calls."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import AskUnlessYolo, Recorder, ScriptedModel, act, collect, open_session
from support.waiting import until

from sandbur.actions.ports import Verdict
from sandbur.state.application import ApplicationState
from sandbur.state.calls import PendingCall
from sandbur.state.conversation.messages import person_message
from sandbur.state.errors import StoreError
from sandbur.state.process.identity import make_runner_name
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store
from sandbur.state.store.writer import SessionWriter


def file_of(store: Store) -> Path:
    return Path(store.url.removeprefix("sqlite:///"))


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    """Return what another process would see now."""
    with closing(sqlite3.connect(file_of(store))) as connection:
        return connection.execute(sql).fetchall()


def refuse_starts(store: Store) -> None:
    """Let the store fail when a call is to start, as a full disk would."""
    with closing(sqlite3.connect(file_of(store))) as connection:
        connection.execute(
            "CREATE TRIGGER no_starts BEFORE INSERT ON calls_by_key WHEN NEW.move = 'started'"
            " BEGIN SELECT RAISE(ABORT, 'no starts today'); END"
        )
        connection.commit()


def allow_starts(store: Store) -> None:
    with closing(sqlite3.connect(file_of(store))) as connection:
        connection.execute("DROP TRIGGER no_starts")
        connection.commit()


@contextmanager
def counted_commits(store: Store) -> Generator[list[str]]:
    connection: sqlite3.Connection = store.database._connection  # pyright: ignore
    found: list[str] = []

    def heard(statement: str) -> None:
        if statement == "COMMIT":
            found.append(statement)

    connection.set_trace_callback(heard)
    yield found
    connection.set_trace_callback(None)


async def commits_of(store: Store, tool: Recorder, turns: Sequence[Any], gate: Any = None) -> int:
    """Return the commits of a run with these turns, without those of its beginning, answer and end."""
    session = await open_session(store, ScriptedModel(*turns, "done"), tool, gate=gate)
    with counted_commits(store) as found:
        await collect(session.send("go"))
    return len(found) - 3


async def claimed(store: Store) -> SessionWriter:
    settings = SessionSettings(model="m", cwd="/")
    store.index.create("s1", settings)
    writer = store.writer("s1")
    known = (writer.chain.records, writer.chain.digest)
    writer.claim = await store.index.claim("s1", make_runner_name(), known, settings, "")
    await writer.commit()
    return writer


def said(text: str) -> dict[str, Any]:
    state = ApplicationState()
    return dict(state.model_copy(update={"chat_history": state.chat_history.append(person_message(text))}))


@pytest.mark.parametrize("effect", ["effect", "idempotent", "read"])
async def test_a_tool_turn_takes_two_commits(store: Store, effect: Any) -> None:
    assert await commits_of(store, Recorder(effect=effect), [act("a"), act("b"), act("c")]) == 6


async def test_the_starts_of_further_reads_come_with_the_next_commit(store: Store) -> None:
    # One is for results of calls beside which others still run.
    assert await commits_of(store, Recorder(effect="read"), [act("a", "b", "c")]) == 3
    moves = rows(store, "SELECT move, COUNT(*) FROM calls GROUP BY move ORDER BY move")
    assert moves == [("finished", 3), ("proposed", 3), ("started", 3)]


async def test_every_further_call_with_an_effect_has_its_start_on_disk_before_it_runs(store: Store) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    async def look(_: str) -> None:
        seen.append(rows(store, "SELECT COUNT(*) FROM calls WHERE move = 'started'"))

    session = await open_session(store, ScriptedModel(act("a", "b"), "done"), Recorder(work=look))
    await collect(session.send("go"))
    assert seen == [[(1,)], [(2,)]]


@pytest.mark.parametrize("effect", ["effect", "read"])
async def test_when_the_first_call_runs_its_reply_and_its_start_are_on_disk(
    store: Store, effect: Any
) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    async def look(_: str) -> None:
        seen.append(rows(store, "SELECT position FROM steps ORDER BY seq"))
        seen.append(rows(store, "SELECT move FROM calls ORDER BY n"))

    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder(effect=effect, work=look))
    await collect(session.send("go"))
    assert seen == [[("prompt",), ("router",)], [("proposed",), ("started",)]]
    assert store.verify("s1") == []


async def test_a_reply_that_asks_is_on_disk_before_the_question(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    _, end = await collect(session.send("go"))
    assert end.status == "needs_approval"
    assert rows(store, "SELECT position FROM steps ORDER BY seq") == [("prompt",), ("router",)]


async def test_a_call_does_not_run_whose_start_cannot_be_written_and_its_reply_is_kept(store: Store) -> None:
    tool, model = Recorder(), ScriptedModel(act("a"), "done")
    session = await open_session(store, model, tool)
    refuse_starts(store)
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("error", [])
    assert rows(store, "SELECT position FROM steps ORDER BY seq") == [("prompt",), ("router",)]
    allow_starts(store)
    _, end = await collect(session.carry_on())
    assert (end.result, tool.done, len(model.requests)) == ("done", ["a"], 2)
    assert store.verify("s1") == []


async def test_a_reply_of_which_no_call_runs_after_all_is_in_one_commit_with_the_results(
    store: Store,
) -> None:
    class ChangesItsMind(AskUnlessYolo):
        """Denies a call when it is judged once more, right before its start."""

        judged = 0

        def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None, plan: Any = None) -> Verdict:
            self.judged += 1
            return super().judge(tool, arguments if self.judged == 1 else "forbidden", mode, paths)

    tool = Recorder()
    gate = ChangesItsMind()
    assert await commits_of(store, tool, [act("a")], gate) == 1
    assert tool.done == []
    assert store.verify("s1") == []


async def test_a_held_step_goes_to_disk_by_itself_when_nothing_takes_it_along(store: Store) -> None:
    writer = await claimed(store)
    await writer.save(0, "router", said("one"), waits=True)
    assert writer.last_seq == 0
    assert rows(store, "SELECT COUNT(*) FROM steps") == [(0,)]
    await until(lambda: rows(store, "SELECT seq, position FROM steps") == [(0, "router")])


async def test_a_held_step_comes_before_the_next_one_in_the_same_commit(store: Store) -> None:
    writer = await claimed(store)
    with counted_commits(store) as found:
        await writer.save(0, "router", said("one"), waits=True)
        await writer.save(1, "execute_tools", said("two"))
    assert len(found) == 1
    assert rows(store, "SELECT seq FROM steps ORDER BY record") == [(0,), (1,)]
    assert rows(store, "SELECT last_seq, records FROM heads") == [(1, 5)]
    assert store.verify("s1") == []


async def test_a_held_step_whose_commit_fails_goes_with_the_one_after(store: Store) -> None:
    writer = await claimed(store)
    await writer.save(0, "router", said("one"), waits=True)
    call = PendingCall(call_id="c1", tool="act", arguments="{}", decision="approved")
    refuse_starts(store)
    journal = store.journal("s1")
    with pytest.raises(StoreError, match="no starts today"):
        await journal.record_start(call)
    assert rows(store, "SELECT seq FROM steps") == []
    allow_starts(store)
    await journal.record_start(call)
    assert rows(store, "SELECT seq FROM steps") == [(0,)]
    assert rows(store, "SELECT n, move FROM calls") == [(0, "started")]
    assert store.verify("s1") == []


async def test_the_end_of_a_run_takes_a_held_step_along(store: Store) -> None:
    writer = await claimed(store)
    await writer.save(0, "router", said("one"), waits=True)
    await writer.release("interrupted", "")
    assert rows(store, "SELECT seq FROM steps") == [(0,)]
    assert store.verify("s1") == []


async def test_a_tool_turn_writes_less_than_forty_kilobytes(store: Store) -> None:
    turns = [act(f"{n}" + "x" * 2000) for n in range(40)]
    session = await open_session(store, ScriptedModel(*turns, "done", context_window=10**7), Recorder())
    log = file_of(store).with_name(f"{file_of(store).name}-wal")
    store.database.compact()
    before = log.stat().st_size
    await collect(session.send("go"))
    # Of 2 KB that the model writes and 2 KB that the tool answers.
    assert (log.stat().st_size - before) / len(turns) < 40_000


def test_a_new_store_has_small_pages_and_one_from_before_keeps_its_own(tmp_path: Path) -> None:
    for name, page_bytes in (("new", 1024), ("old", 4096)):
        path = tmp_path / f"{name}.db"
        if name == "old":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"PRAGMA page_size = {page_bytes}")
                connection.execute("VACUUM")
        store = Store.open(f"sqlite:///{path}")
        assert rows(store, "PRAGMA page_size") == [(page_bytes,)]
        store.close()
