"""Sub-agents go where their session goes: they are deleted, pruned, exported and imported with it."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.models.scripted import ScriptedModel, collect, open_session

from sandbur.state.errors import SessionHeld, SessionNotFound, StoreError
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import, write_import
from sandbur.state.maintenance.prune import PrunePlan, PruneRules, delete, plan_prune
from sandbur.state.session import SpawnedBy
from sandbur.state.store.sessions.family import list_descendants
from sandbur.state.store.sessions.lease import make_lease_end
from sandbur.state.store.store import Store


async def begin(store: Store, session_id: str, parent: str = "", allow: tuple[str, ...] = ()) -> None:
    """Store a session with one answered message."""
    session = await open_session(store, ScriptedModel("fine"), session_id=session_id)
    by = SpawnedBy(session_id=parent, sequence=0, call_id=session_id, agents=("a",)) if parent else None
    session.rules.settings = session.settings.model_copy(update={"spawned_by": by, "allow": allow})
    await collect(session.send("hello"))


@pytest.fixture
async def family(tmp_path: Path) -> Store:
    store = Store.open(f"sqlite:///{tmp_path / 's.db'}")
    for name, parent in (("p", ""), ("c1", "p"), ("c2", "p"), ("g", "c1"), ("q", "")):
        await begin(store, name, parent)
    return store


def use_at(store: Store, days_ago: int, *names: str) -> None:
    when = (datetime.now(UTC) - timedelta(days=days_ago)).isoformat(timespec="milliseconds")
    for name in names:
        store.database.commit([("UPDATE heads SET updated_at = ? WHERE session_id = ?", (when, name))])


def plan(store: Store, keep: int = 0, max_bytes: int | None = None) -> PrunePlan:
    return plan_prune(store.database, "", PruneRules(timedelta(days=30), keep, max_bytes), datetime.now(UTC))


def names_of(found: PrunePlan) -> list[str]:
    return [session.id for session, _ in found.goes]


async def test_a_session_is_deleted_with_its_sub_agents(family: Store) -> None:
    deleted = family.delete("p")
    assert deleted[-1] == "p"
    assert sorted(deleted) == ["c1", "c2", "g", "p"]
    assert deleted.index("g") < deleted.index("c1")
    assert [one.id for one in family.sessions()] == ["q"]
    assert family.database.query("SELECT COUNT(*) FROM steps WHERE session_id <> 'q'") == [(0,)]


async def test_a_sub_agent_is_deleted_alone(family: Store) -> None:
    assert family.delete("c1") == ["g", "c1"]
    assert sorted(one.id for one in family.sessions()) == ["c2", "p", "q"]


async def test_nothing_is_deleted_while_a_sub_agent_works_or_has_a_fork(family: Store) -> None:
    family.fork("g", "fork")
    with pytest.raises(StoreError, match="Session g has the fork fork"):
        family.delete("p")
    family.delete("fork")
    until = make_lease_end(family.database.now())
    family.database.commit(
        [("UPDATE heads SET owner = 'elsewhere:1:2:x', lease_until = ? WHERE session_id = 'c2'", (until,))]
    )
    with pytest.raises(SessionHeld, match="Session c2 is running"):
        family.delete("p")
    assert sorted(list_descendants(family.database, "p")) == ["c1", "c2", "g"]


async def test_old_sub_agents_stay_with_a_session_that_was_used_lately(family: Store) -> None:
    use_at(family, 90, "c1", "c2", "g", "q")
    assert names_of(plan(family)) == ["q"]
    use_at(family, 90, "p")
    use_at(family, 0, "g")
    assert names_of(plan(family)) == ["q"]


async def test_a_session_is_pruned_after_its_sub_agents(family: Store) -> None:
    use_at(family, 90, "c1", "c2", "g", "p")
    found = plan(family)
    assert sorted(names_of(found)) == ["c1", "c2", "g", "p"]
    assert names_of(found)[-1] == "p"
    assert found.stays == 1
    assert all(delete(family.database, session) for session, _ in found.goes)
    assert [one.id for one in family.sessions()] == ["q"]


async def test_the_newest_sessions_are_kept_with_all_their_sub_agents(family: Store) -> None:
    use_at(family, 40, "c1", "c2", "g", "p")
    use_at(family, 50, "q")
    assert names_of(plan(family, keep=1)) == ["q"]
    assert plan(family, keep=2).goes == ()
    assert sorted(names_of(plan(family, keep=1, max_bytes=0))) == ["q"]


async def test_a_sub_agent_that_waits_keeps_its_family(family: Store) -> None:
    use_at(family, 90, "c1", "c2", "g", "p")
    wake = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    family.database.commit([("UPDATE heads SET wake_at = ? WHERE session_id = 'g'", (wake,))])
    assert plan(family).goes == ()


def exported(store: Store, session_id: str, **options: bool) -> io.BytesIO:
    records = export_session(store.database, session_id, **options)
    return io.BytesIO("".join(json.dumps(one) + "\n" for one in records).encode())


async def test_an_export_has_the_sub_agents_and_an_import_restores_them(
    family: Store, tmp_path: Path
) -> None:
    family.fork("p", "f")
    there = Store.open(f"sqlite:///{tmp_path / 'there.db'}")
    checked = check_import(there.database, exported(family, "p"))
    assert (checked.result.sub_agents, len(checked.result.imported_ids)) == (3, 4)
    write_import(there.database, "", checked)
    assert [one.id for one in there.roots()] == ["p"]
    assert sorted(list_descendants(there.database, "p")) == ["c1", "c2", "g"]
    assert there.verify("g") == []
    assert list(there.show("g").state.chat_history)[-1].text == "fine"
    assert check_import(there.database, exported(family, "f")).new == ("f",)


async def test_an_import_that_was_killed_goes_on_and_the_session_itself_comes_last(
    family: Store, tmp_path: Path
) -> None:
    there = Store.open(f"sqlite:///{tmp_path / 'there.db'}")
    checked = check_import(there.database, exported(family, "p"))
    assert checked.new[-1] == "p"
    for name in checked.new[:2]:
        part = check_import(there.database, exported(family, "p"))
        write_import(there.database, "", type(part)(part.export, part.sessions, (name,)))
    again = check_import(there.database, exported(family, "p"))
    assert again.new == checked.new[2:]
    write_import(there.database, "", again)
    assert sorted(list_descendants(there.database, "p")) == ["c1", "c2", "g"]


async def test_an_imported_session_is_no_sub_agent_of_a_session_that_is_here(
    family: Store, tmp_path: Path
) -> None:
    file = exported(family, "c2")
    family.delete("c2")
    write_import(family.database, "", check_import(family.database, file))
    assert family.index.summary("c2").spawned_by is None
    assert "c2" in {one.id for one in family.roots()}


async def test_a_sub_agent_gets_no_rule_that_the_person_did_not_see(tmp_path: Path) -> None:
    store, there = (Store.open(f"sqlite:///{tmp_path / name}.db") for name in ("here", "there"))
    await begin(store, "p", allow=("read_file",))
    await begin(store, "c", "p", allow=("read_file", "shell"))
    checked = check_import(there.database, exported(store, "p"))
    assert checked.result.settings.allow == ("read_file",)
    write_import(there.database, "", checked)
    assert there.index.settings("c").allow == ("read_file",)


async def test_an_export_without_sub_agents_leaves_them_out(family: Store, tmp_path: Path) -> None:
    there = Store.open(f"sqlite:///{tmp_path / 'there.db'}")
    write_import(
        there.database, "", check_import(there.database, exported(family, "p", with_sub_agents=False))
    )
    assert [one.id for one in there.sessions()] == ["p"]
    with pytest.raises(SessionNotFound):
        there.show("c1")
