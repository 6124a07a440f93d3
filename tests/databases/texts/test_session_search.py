"""Sessions are found by the words of their messages, in every kind of database alike."""

import signal
import subprocess
import sys
from pathlib import Path

from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.old_stores import DONE, FORK, KILLED, STORES, WAITING, write_old_store

from sandbur.state.search.words import encode_word, list_words
from sandbur.state.store.sessions.listing import LabelFilter
from sandbur.state.store.sessions.search import count_unindexed, update_index
from sandbur.state.store.store import Store


def found(store: Store, text: str) -> list[str]:
    return sorted(one.id for one in store.newest_sessions(LabelFilter(matching=store.find_text(text))))


async def ask(store: Store, session_id: str, text: str, *turns: object) -> None:
    model = ScriptedModel(*turns)  # type: ignore[arg-type]
    session = await open_session(store, model, Recorder(), session_id=session_id)
    await collect(session.send(text))


async def test_sessions_are_found_by_words_of_all_their_messages(store: Store) -> None:
    await ask(
        store, "s1", "Why does parse_config_file() fail in foo-bar?", act("what's up"), "It is Über-strict."
    )
    await ask(store, "s2", "登录失败，请检查 the login of a.b(c)", "用户登录 works.")
    await ask(store, "s3", "The AND of col:val", 'No "quotes" or 100% signs.')
    assert found(store, "PARSE_config") == ["s1"]
    assert found(store, "foo-bar über") == ["s1"]
    assert found(store, "what's") == ["s1"]
    assert found(store, "the") == ["s2", "s3"]
    assert found(store, "登录失败") == ["s2"]
    assert found(store, "登") == ["s2"]
    assert found(store, "败登") == []
    assert found(store, "col:val AND") == ["s3"]
    assert found(store, 'a "quotes" * NEAR(') == []
    assert found(store, "100% + quotes - no") == ["s3"]
    assert found(store, "login strict") == []


async def test_messages_that_come_later_are_found_and_deleted_sessions_are_not(store: Store) -> None:
    await ask(store, "s1", "first", "one")
    assert (found(store, "first"), found(store, "zebra")) == (["s1"], [])
    await ask(store, "s1", "zebra", "two")
    assert (found(store, "zebra two"), found(store, "first zebra")) == (["s1"], ["s1"])
    store.delete("s1")
    assert found(store, "zebra") == []
    assert store.database.query("SELECT * FROM session_texts") == []
    await ask(store, "s2", "zebra", "three")
    store.database.compact()
    assert found(store, "zebra") == ["s2"]


async def test_a_search_indexes_a_number_of_sessions_those_that_changed_last_first(store: Store) -> None:
    for number in range(4):
        await ask(store, f"s{number}", f"zebra {number}", "ok")
    texts = "SELECT session_id FROM session_texts ORDER BY session_id"
    assert update_index(store.database, "", most=3) == 1
    assert store.database.query(texts) == [("s1",), ("s2",), ("s3",)]
    await ask(store, "s3", "quagga", "ok")
    assert update_index(store.database, "", most=3) == 0
    assert found(store, "zebra") == ["s0", "s1", "s2", "s3"]
    assert found(store, "quagga") == ["s3"]


async def test_what_ran_is_indexed_when_the_store_is_closed(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/one.db")
    await ask(store, "s1", "zebra", "ok")
    store.close()
    store = Store.open(f"sqlite:///{tmp_path}/one.db")
    assert count_unindexed(store.database, "") == 0
    assert found(store, "zebra") == ["s1"]
    store.close()


async def test_a_title_is_found_by_any_part_of_it(store: Store) -> None:
    await ask(store, "s1", "hello", "hi")
    store.rename("s1", "Weekly 50% Report_x")
    assert found(store, "eekly 50% rep") == ["s1"]
    assert found(store, "50% Report-x") == []
    assert found(store, "%") == ["s1"]
    assert found(store, "?!") == []


def test_words_of_any_text_are_tokens_of_a_few_ascii_characters() -> None:
    text = f"{'x' * 500} ä\ud800 İstanbul \N{GRINNING FACE} ﬁne {'語' * 50} \0 ?"
    tokens = [encode_word(word) for word in list_words(text, with_single=True)]
    assert len(tokens) > 50
    assert all(token.isascii() and token.isalnum() and len(token) <= 64 for token in tokens)


def test_an_old_store_is_indexed_by_its_first_search(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{write_old_store(STORES[-1], tmp_path)}")
    assert found(store, "do it") == sorted([KILLED, WAITING])
    assert found(store, "all done") == [DONE]
    assert found(store, "now more") == [FORK]
    store.close()


def test_a_search_that_is_killed_is_completed_by_the_next_one(tmp_path: Path) -> None:
    path = write_old_store(STORES[-1], tmp_path)
    code = f"from sandbur.state.store.store import Store; Store.open('sqlite:///{path}').find_text('done')"
    env = {"SANDBUR_CRASH_AT": "search_words_written"}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == -signal.SIGKILL
    store = Store.open(f"sqlite:///{path}")
    assert store.database.query("SELECT COUNT(*) FROM session_texts") == [(4,)]
    assert found(store, "all done") == [DONE]
    assert store.database.find_problems() == []
    store.close()
