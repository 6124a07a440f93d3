"""Messages are found by their words in what a session may see, in every kind of database alike."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.databases import DATABASES, fresh_url
from support.victims.victims import run_victim

from sandbur.agent.history.recall import RecalledPassage, recall
from sandbur.state.databases.database import Database
from sandbur.state.errors import UsageError
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.sessions.message_search import PASSAGE_CHARS, MessageSearch, split_text
from sandbur.state.store.sessions.message_sources import MessageSources
from sandbur.state.store.store import Store


@pytest.fixture(autouse=True)
def _clear(request: pytest.FixtureRequest) -> None:
    """Remove what an earlier test indexed on a server, where the sessions have the same ids."""
    if "store" in request.fixturenames:
        database = request.getfixturevalue("store").database
        if MessageSources(database).are_there():
            database.commit([(f"DELETE FROM {table}", ()) for table in ("documents", "message_sources")])


async def ask(store: Store, session_id: str, text: str, *turns: object) -> None:
    model = ScriptedModel(*turns)  # type: ignore[arg-type]
    session = await open_session(store, model, Recorder(), session_id=session_id)
    await collect(session.send(text))


def spawn(store: Store, child: str, parent: str, sequence: int = 0) -> None:
    by = SpawnedBy(session_id=parent, sequence=sequence, call_id=child, agents=("reader",))
    store.index.create(child, SessionSettings(model="m", cwd="/srv", spawned_by=by), "a part")


def texts(store: Store, session_id: str, query: str) -> list[str]:
    return [one.text for one in recall(store, session_id, query)]


def first(store: Store, session_id: str, query: str) -> RecalledPassage:
    return recall(store, session_id, query)[0]


async def test_messages_results_and_calls_are_found_with_what_belongs_to_them(store: Store) -> None:
    await ask(
        store, "s1", "Where does the bittern nest?", act("the heron nests in oaks"), "In reeds, mostly."
    )
    answer = first(store, "s1", "reeds")
    assert (answer.kind, answer.text, answer.where) == ("answer", "In reeds, mostly.", "")
    assert answer.neighbour is not None
    assert (answer.neighbour.kind, answer.neighbour.text) == ("person", "Where does the bittern nest?")
    question = first(store, "s1", "bitterns nest where")
    assert question.kind == "person"
    assert question.neighbour is not None
    assert question.neighbour.text == "In reeds, mostly."
    [call, result] = sorted(recall(store, "s1", "herons in oak"), key=lambda one: one.kind)[:2]
    assert (call.kind, result.kind) == ("call", "result")
    assert result.call_id
    assert result.neighbour is not None
    assert result.neighbour.kind == "call"
    assert result.seq > question.seq
    assert result.at > question.at > "2020"


async def test_later_messages_are_found_by_the_next_search(store: Store) -> None:
    await ask(store, "s1", "first", "one")
    assert texts(store, "s1", "zebra") == []
    await ask(store, "s1", "a zebra", "two")
    assert texts(store, "s1", "zebras") == ["a zebra"]


async def test_sub_agents_of_every_depth_are_found_and_other_sessions_are_not(store: Store) -> None:
    await ask(store, "p", "begin", "done")
    spawn(store, "c", "p")
    await ask(store, "c", "The walrus task", "a walrus")
    assert {one.where for one in recall(store, "p", "walrus")} == {"sub-agent c"}
    spawn(store, "g", "c")
    await ask(store, "g", "below", "the narwhal")
    await ask(store, "other", "the walrus and the narwhal", "no")
    assert texts(store, "p", "narwhal") == ["the narwhal"]
    assert texts(store, "c", "narwhal") == ["the narwhal"]
    assert texts(store, "g", "walrus") == []


async def test_a_fork_sees_what_it_was_forked_from_only_up_to_the_fork(store: Store) -> None:
    await ask(store, "p", "the early otter", "yes")
    spawn(store, "c1", "p")
    await ask(store, "c1", "early badger", "one")
    await ask(store, "p", "the second otter", "yes")
    last = store.index.summary("p").steps - 1
    store.fork("p", "f", last)
    await ask(store, "p", "the late otter", "no")
    await ask(store, "c1", "late badger", "two")
    spawn(store, "c2", "p", sequence=last)
    await ask(store, "c2", "another badger", "three")
    await ask(store, "f", "the otter of the fork", "ok")
    assert sorted(texts(store, "f", "otter")) == [
        "the early otter",
        "the otter of the fork",
        "the second otter",
    ]
    assert texts(store, "f", "badgers") == ["early badger"]
    assert "the late otter" in texts(store, "p", "otter")
    assert "the otter of the fork" not in texts(store, "p", "otter")
    assert len(texts(store, "p", "badger")) == 3
    assert {one.where for one in recall(store, "f", "otter")} == {"before the fork, in p", ""}


async def test_a_fork_in_the_middle_of_a_turn_does_not_see_the_answer(store: Store) -> None:
    await ask(store, "p", "Who has the okapi?", "Rosalind has it.")
    store.fork("p", "f", 0)
    await ask(store, "f", "another message", "ok")
    question = first(store, "f", "okapi")
    assert question.text == "Who has the okapi?"
    assert question.neighbour is None
    with pytest.raises(UsageError):
        recall(store, "f", first(store, "p", "rosalind").reference)


async def test_a_deleted_sub_agent_is_not_found_and_leaves_no_words(store: Store) -> None:
    await ask(store, "p", "begin", "done")
    spawn(store, "c", "p")
    await ask(store, "c", "the walrus", "ok")
    assert texts(store, "p", "walrus") == ["the walrus"]
    store.delete("c")
    count = "SELECT COUNT(*) FROM documents WHERE words LIKE '%walrus%'"
    assert store.database.query(count) == [(0,)]
    assert texts(store, "p", "walrus") == []
    assert texts(store, "p", "begin") == ["begin"]
    store.delete("p")
    assert store.database.query("SELECT COUNT(*) FROM documents") == [(0,)]
    assert store.database.query("SELECT COUNT(*) FROM message_sources") == [(0,)]


async def test_a_long_message_is_read_on_by_its_references(store: Store) -> None:
    words = " ".join(f"w{number}" for number in range(3000))
    await ask(store, "s1", f"{words} the quokka {words}", "ok")
    found = first(store, "s1", "quokka")
    assert "the quokka" in found.text
    read, reference = "", f"#{found.mark}.0"
    while reference:
        [page] = recall(store, "s1", reference)
        read, reference = read + page.text, page.rest
    assert read == f"{words} the quokka {words}"
    with pytest.raises(UsageError, match="no such passage"):
        recall(store, "s1", "#000000.0.0.0")
    with pytest.raises(UsageError, match="no words"):
        recall(store, "s1", "?!")


def test_passages_overlap_and_leave_nothing_out() -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    end = 0
    for start, passage in split_text(text):
        assert passage == text[start : start + PASSAGE_CHARS]
        assert start < end or not start
        end = start + len(passage)
    assert end == len(text)
    assert next(one for _, one in split_text("x" * 5000)) == "x" * PASSAGE_CHARS


class Counted:
    """A database that counts the messages which are read from it."""

    def __init__(self, database: Database) -> None:
        self.read = 0
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows = self._database.query(sql, parameters)
        self.read += len(rows) if " FROM messages " in sql else 0
        return rows


async def test_a_search_reads_only_what_is_new(store: Store) -> None:
    for number in range(10):
        await ask(store, "s1", f"message {number}", f"answer {number}")
    counted: Any = Counted(store.database)
    MessageSearch(counted, "s1").update()
    assert counted.read == 20
    await ask(store, "s1", "the last one", "its answer")
    MessageSearch(counted, "s1").update()
    assert counted.read == 22


async def test_a_search_indexes_a_number_of_messages_and_the_next_one_goes_on(store: Store) -> None:
    past = [f"message {number}" for number in range(500)]
    await ask(store, "s1", "hello", "ok")
    session = await open_session(store, ScriptedModel(), Recorder(), session_id="s1")
    await session.observe(*past)  # all in one step
    counts: list[int] = []
    is_behind = True
    while is_behind:
        search = MessageSearch(store.database, "s1", most_indexed=200)
        search.update()
        counts.append(*store.database.query("SELECT COUNT(*) FROM documents")[0])
        is_behind = search.is_behind
    assert counts[0] < counts[1] < counts[-1] == 502
    assert [one.position for one in MessageSearch(store.database, "s1").search("message 499", 1)] == [499]


@pytest.mark.slow
@pytest.mark.parametrize("kind", DATABASES)
@pytest.mark.parametrize("point", ["messages_before_index", "store_in_transaction", "messages_indexed"])
async def test_a_killed_search_is_completed_by_the_next_one(tmp_path: Path, kind: str, point: str) -> None:
    with fresh_url(kind, tmp_path) as url:
        store = Store.open(url)
        await ask(store, "s1", "the quokka", "ok")
        spawn(store, "c", "s1")
        await ask(store, "c", "another quokka", "ok")
        store.close()
        died = run_victim("agents/recall_victim", url, "s1", "quokka", point=point)
        assert died.code == -signal.SIGKILL, died.err
        done = run_victim("agents/recall_victim", url, "s1", "quokka")
        assert sorted(done.out.split("\n")) == ["", "another quokka", "the quokka"], done.err
        store = Store.open(url)
        assert store.database.find_problems() == []
        [(documents,)] = store.database.query("SELECT COUNT(*) FROM documents")
        assert documents == 4
        store.close()
