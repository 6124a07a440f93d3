"""Sessions are found by the conversation that they have answered, and those that work by their tag."""

from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.conversation_ends import (
    ConversationEnd,
    find_earlier_ends,
    find_newest_ends,
    list_working,
)
from sandbur.state.store.store import Store

DIGEST, OTHER = "a" * 32, "a" * 31 + "b"


def add(store: Store, session_id: str, tag: str = "opening:x") -> None:
    store.index.create(session_id, SessionSettings(model="m", cwd="/", tags=(tag,)))


def test_an_end_is_found_until_its_session_continues(store: Store) -> None:
    end, other = ConversationEnd("s1", DIGEST, 12, 5), ConversationEnd("s1", OTHER, 12, 5)
    add(store, "s1")
    store.database.commit([*end.note(), *other.note(), *end.note()])
    assert find_newest_ends(store.database, store.tenant, DIGEST) == [end]
    assert find_earlier_ends(store.database, store.tenant, DIGEST) == []
    store.database.commit(end.note_continued())
    assert find_newest_ends(store.database, store.tenant, DIGEST) == []
    assert find_earlier_ends(store.database, store.tenant, DIGEST) == [end]
    assert find_newest_ends(store.database, store.tenant, OTHER) == [other]


def test_an_end_that_no_fork_can_continue_is_forgotten(store: Store) -> None:
    end = ConversationEnd("s1", DIGEST, 12, -1)
    add(store, "s1")
    store.database.commit(end.note())
    store.database.commit(end.note_continued())
    assert find_earlier_ends(store.database, store.tenant, DIGEST) == []


def test_an_end_of_another_tenant_or_of_a_deleted_session_is_not_found(store: Store) -> None:
    end = ConversationEnd("s1", DIGEST, 1, 0)
    add(store, "s1")
    store.database.commit(end.note())
    assert find_newest_ends(store.database, "another", DIGEST) == []
    store.delete("s1")
    assert find_newest_ends(store.database, store.tenant, DIGEST) == []


def test_sessions_at_rest_are_not_among_those_that_work(store: Store) -> None:
    changes = {
        "waits": {"wake_at": "2026", "lane": "l"},
        "owned": {"owner": "w"},
        "runs": {"status": "running"},
    }
    for name, columns in {**changes, "runs": {"status": "running"}, "rests": {"status": "done"}}.items():
        add(store, name)
        for column, value in columns.items():
            store.database.commit([(f"UPDATE heads SET {column} = ? WHERE session_id = ?", (value, name))])
    add(store, "other", tag="opening:y")
    assert sorted(list_working(store.database, store.tenant, "opening:x")) == ["owned", "runs", "waits"]
    assert list_working(store.database, "another", "opening:x") == []
