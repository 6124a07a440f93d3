"""Whatever the gate, a worker or a server reads of a session's row, a change from outside keeps it closed."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.commands.command import Command
from support.stores.old_stores import PRESENT, STORES, open_store, write_old_store
from support.stores.tampering import chain_again
from support.stores.waiting import AGENT
from test_worker import Fleet, make_agent

from sandbur import Agent, tool
from sandbur.agent.fleet.messages import send_message
from sandbur.agent.fleet.worker_sessions import open_runtime
from sandbur.state.databases.schema import COLUMNS
from sandbur.state.errors import SandburError, SettingsChanged, StoreError
from sandbur.state.maintenance.verify import audit, audit_all
from sandbur.state.session import SessionSettings
from sandbur.state.store.seals import KeySealer
from sandbur.state.store.sessions.budgets import BudgetRows
from sandbur.state.store.sessions.claims import write_quota
from sandbur.state.store.sessions.sealed_limits import list_changed_limits
from sandbur.state.store.sessions.settings_proof import list_moved_sessions, record_settings
from sandbur.state.store.store import Store
from sandbur.testing import ToolCall

OTHER: dict[str, Any] = {
    "model": "demo",
    "agents_model": "demo",
    "cwd": "/",
    "add_dirs": ["/etc"],
    "fallback_models": ["demo"],
    "allow": ["run_shell_command"],
    "deny": [],
    "ask": [],
    "network_tools": ["web_fetch"],
    "agent": "other:agent",
    "agent_file": {"path": "/a.yaml", "digest": "0", "text": "x"},
    "has_shipped_tools": False,
    "has_planning": True,
    "orders_steps": True,
    "plan_tools": ["propose_plan"],
    "memory": "auto",
    "own_tools": {"look": "0"},
    "mode": "yolo",
    "sandbox": "auto",
    "allow_net": ["*"],
    "system_prompt": "Obey the page.",
    "effort": "max",
    "output_schema": {"name": "x", "json_schema": {}},
    "done_tool": "finish",
    "max_result_tokens": 7,
    "strict_tools": True,
    "app": "other",
    "user": "mallory",
    "tags": ["other"],
    "needs": ["gpu"],
    "priority": 9,
    "variables": {"host": "evil.example"},
    "tool_choice": {"only": ["look"]},
    "skills": ["other"],
    "knowledge": ["other"],
    "max_budget_usd": 1000.0,
    "spawned_by": {"session_id": "p", "sequence": 0, "call_id": "c", "agents": ["a"]},
    "trial": "t",
    "keeps_settings": True,
    "imported_seq": 5,
}
"""Another value for each stored setting."""
ROWS = {
    "sessions": {"parent_id": "s0", "parent_seq": 0, "parent_session": "s0", "parent_sequence": 0,
                 "parent_call": "c"},
    "heads": {"tenant": "b", "folder": "/", "app": "other", "app_user": "mallory", "lane": "|gpu|9|" + AGENT},
    "session_tags": {"tag": "other"},
}  # fmt: skip
"""Another value for each column beside the settings that repeats or places them."""
NOT_SEALED = {
    "sessions": {"id", "created_at"},
    "heads": {"session_id", "title", "status", "updated_at", "wake_at", "last_seq", "records", "chain",
              "owner", "epoch", "lease_until", "asked", "attempts", "committed_at"},
}  # fmt: skip
"""What every process may change, such as a title, and what the chain, its seals and the lease cover."""


class Change(NamedTuple):
    name: str
    table: str
    column: str
    value: Any


class Fixed:
    """A session that has run once, and is changed and restored by SQL."""

    def __init__(self, store: Store, agent: Agent[Any]) -> None:
        self.fleet, self.store, self.agent = Fleet(store, agent), store, agent

    async def begin(self) -> None:
        labels = {"app": "shop", "user": "ann", "tags": ("one",)}
        await self.fleet.add("s", "hello", labels=labels)
        await self.fleet.worker().run(once=True)
        assert self.fleet.head("s")[0] == "done"

    def list_changes(self) -> Iterator[Change]:
        [(text,)] = self.store.database.query("SELECT settings FROM sessions WHERE id = 's'")
        for name, value in OTHER.items():
            settings = json.loads(text)
            settings[name] = value
            if SessionSettings.model_validate(settings) == SessionSettings.model_validate_json(text):
                settings[name] = not value
            yield Change(name, "sessions", "settings", json.dumps(settings))
        for table, columns in ROWS.items():
            for column, value in columns.items():
                yield Change(column, table, column, value)

    def write(self, change: Change, value: Any) -> Any:
        key = "id" if change.table == "sessions" else "session_id"
        [(was,)] = self.store.database.query(f"SELECT {change.column} FROM {change.table} WHERE {key} = 's'")
        sql = f"UPDATE {change.table} SET {change.column} = ? WHERE {key} = 's'"
        self.store.database.commit([(sql, (value,))])
        return was

    async def open_each_way(self) -> list[str]:
        """Return what each way to open the session, or to make others open it, answers."""
        runtime = open_runtime(self.agent, AGENT, self.store, {})

        async def resume() -> None:
            await runtime.let_go(await runtime.resume("s"))

        async def send() -> None:
            await send_message(self.store, "s", "again")

        async def steer() -> None:
            await runtime.leave_messages("s", "steer", "again")

        async def fork() -> None:
            await runtime.fork("s")

        answers: list[str] = []
        for way in (resume, send, steer, fork):
            try:
                await way()
                answers.append(f"{way.__name__} opened it")
            except SettingsChanged as error:
                answers.append(error.message)
            except SandburError as error:
                answers.append(f"{way.__name__}: {error.message}")
            finally:
                self.store.forget("s")
        await runtime.aclose(closes_store=False)
        return answers


@pytest.fixture
async def fixed(store: Store, tmp_path: Path) -> Fixed:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = make_agent(
        tmp_path,
        lambda request: "heard",
        tools=[look],
        deny=["run_shell_command(rm *)"],
        ask=["read_file(secrets/**)"],
        instructions="Be kind.",
    )
    fixed = Fixed(store, agent)
    await fixed.begin()
    return fixed


def test_every_column_of_a_session_is_sealed_or_says_why_not(store: Store) -> None:
    assert OTHER.keys() == SessionSettings.model_fields.keys() - {"catastrophic"}
    own = {"sessions": {"tenant", "settings"}, "heads": set[str]()}
    for table, free in NOT_SEALED.items():
        assert set(COLUMNS[table]) == free | ROWS[table].keys() | own[table]


async def test_a_changed_column_keeps_the_session_closed_and_is_named(fixed: Fixed) -> None:
    for change in fixed.list_changes():
        was = fixed.write(change, change.value)
        answers = await fixed.open_each_way()
        assert all("were changed outside of Sandbur" in answer for answer in answers), (change.name, answers)
        (problem,) = [one.problem for one in audit(fixed.store.database, ["s"]).breaches]
        assert problem.startswith("its settings differ"), change.name
        if change.column == "settings":
            assert change.name in problem
            assert all(change.name in answer for answer in answers)
        fixed.write(change, was)
    assert not audit(fixed.store.database, ["s"]).breaches
    assert await fixed.open_each_way() == [f"{way} opened it" for way in ("resume", "send", "steer", "fork")]


async def test_a_worker_hands_a_changed_session_back_without_a_try_and_runs_nothing(fixed: Fixed) -> None:
    await send_message(fixed.store, "s", "again")
    allow = next(one for one in fixed.list_changes() if one.name == "allow")
    was = fixed.write(allow, allow.value)
    await fixed.fleet.worker().run(once=True)
    assert fixed.fleet.head("s") == ("failed", "", "", 1)
    assert "changed outside of Sandbur: allow" in fixed.fleet.notices[-1]
    assert fixed.fleet.results("s") == ["heard"]
    fixed.write(allow, was)
    await send_message(fixed.store, "s", "once more")
    await fixed.fleet.worker().run(once=True)
    assert fixed.fleet.results("s") == ["heard", "heard", "heard"]


async def test_a_session_that_moved_to_another_tenant_is_not_opened_there(fixed: Fixed) -> None:
    fixed.store.database.commit(
        [
            ("UPDATE sessions SET tenant = 'b' WHERE id = 's'", ()),
            ("UPDATE heads SET tenant = 'b', lane = ? WHERE session_id = 's'", (f"b||5|{AGENT}",)),
        ]
    )
    there = Store(fixed.store.database, fixed.store.url, "b")
    with pytest.raises(SettingsChanged, match="tenant"):
        there.open_settings("s")
    [(_, (breach,))] = audit_all(fixed.store.database, {"s": None})
    assert breach.problem.endswith(": tenant")
    assert list(list_moved_sessions(fixed.store.database, "")) == ["s"]


async def test_a_session_that_never_ran_is_sealed_as_it_was_created(store: Store, tmp_path: Path) -> None:
    fleet = Fleet(store, make_agent(tmp_path, lambda request: ToolCall("none")))
    await fleet.add("s")
    [(text,)] = store.database.query("SELECT settings FROM sessions WHERE id = 's'")
    settings = json.dumps({**json.loads(text), "allow": ["run_shell_command"]})
    store.database.commit([("UPDATE sessions SET settings = ? WHERE id = 's'", (settings,))])
    with pytest.raises(SettingsChanged, match="allow"):
        await send_message(store, "s", "hello")


CHANGED_LIMITS = {
    "another value": ("UPDATE quotas SET most_running = 9", "UPDATE budgets SET tokens_per_minute = 900"),
    "removed": ("DELETE FROM quotas", "DELETE FROM budgets"),
    "removed with its code": (
        "DELETE FROM quotas",
        "DELETE FROM budgets",
        "DELETE FROM meta WHERE name LIKE 'limit:%'",
    ),
    "changed, and its code removed": (
        "UPDATE quotas SET most_running = 9",
        "UPDATE budgets SET requests_per_minute = 900",
        "DELETE FROM meta WHERE name LIKE 'limit:%'",
    ),
}


@pytest.mark.parametrize("change", CHANGED_LIMITS)
async def test_a_changed_limit_stops_what_it_limits_until_it_is_set_again(
    store: Store, tmp_path: Path, change: str
) -> None:
    store.database.sealer = KeySealer(tmp_path / "key", store.name)
    fleet = Fleet(store, make_agent(tmp_path, lambda request: "heard"))
    await fleet.add("s", "hello")
    budgets = BudgetRows(store.database)
    write_quota(store.database, "", 1)
    budgets.write("scripted", 5, 600)
    assert list(list_changed_limits(store.database)) == []
    store.database.commit([(sql, ()) for sql in CHANGED_LIMITS[change]])
    await fleet.worker().run(once=True)
    assert (fleet.head("s")[0], fleet.results("s")) == ("new", [])
    assert "The quota of tenant default was changed outside of Sandbur." in fleet.notices[0]
    with pytest.raises(StoreError, match="The budget of the model scripted was changed outside"):
        budgets.find("scripted/model", "scripted")
    if "DELETE FROM meta WHERE name LIKE 'limit:%'" not in CHANGED_LIMITS[change]:
        assert list(list_changed_limits(store.database)) == [("quota", ""), ("budget", "scripted")]
    write_quota(store.database, "", 0)
    budgets.write("scripted", 0, 600)
    await fleet.worker().run(once=True)
    assert fleet.results("s") == ["heard"]
    assert list(list_changed_limits(store.database)) == []


async def test_a_forged_record_of_settings_does_not_pass_with_a_key(store: Store, tmp_path: Path) -> None:
    """Somebody who writes the store changes the row, and the record that should prove it, and its chain."""
    home = tmp_path / "key"
    store.database.sealer = KeySealer(home, store.name)
    fixed = Fixed(store, make_agent(tmp_path, lambda request: "heard"))
    await fixed.begin()
    [(n, body)] = store.database.query("SELECT n, body FROM traces WHERE event = 'run_began'")
    allow = next(one for one in fixed.list_changes() if one.name == "allow")
    forged = SessionSettings.model_validate_json(allow.value)
    record = json.loads(body) | {"settings_sha256": forged.digest}
    record["settings"] = record_settings(forged, "").model_dump(mode="json")
    fixed.write(allow, allow.value)
    store.database.commit([("UPDATE traces SET body = ? WHERE n = ?", (json.dumps(record), n))])
    runtime = open_runtime(fixed.agent, AGENT, store, {})
    with pytest.raises(SettingsChanged, match="allow"):
        await runtime.resume("s")
    store.database.commit([("DELETE FROM quarantine", ())])
    chain_again(store, "s")
    store.forget("s")
    opened = await runtime.resume("s")
    assert opened.settings.allow == ()
    assert any("do not prove its rules" in notice for notice in opened.notices)
    await runtime.aclose(closes_store=False)


async def test_a_person_at_a_terminal_goes_on_without_the_rules(fixed: Fixed) -> None:
    allow = next(one for one in fixed.list_changes() if one.name == "allow")
    fixed.write(allow, allow.value)
    runtime = open_runtime(fixed.agent, AGENT, fixed.store, {})
    runtime.accepts_changed = True
    opened = await runtime.resume("s")
    assert (opened.settings.allow, opened.state.execution_mode) == ((), "interactive")
    assert any("changed outside of Sandbur: allow" in notice for notice in opened.notices)
    async for _ in opened.send("go on"):
        pass
    await runtime.aclose(closes_store=False)
    assert not audit(fixed.store.database, ["s"]).breaches
    fixed.store.forget("s")
    assert await fixed.open_each_way() == [f"{way} opened it" for way in ("resume", "send", "steer", "fork")]
    user = next(one for one in fixed.list_changes() if one.name == "user")
    fixed.write(user, user.value)
    runtime.accepts_changed = True
    with pytest.raises(SettingsChanged, match="user"):
        await runtime.resume("s")


@pytest.mark.parametrize("statements", [*STORES, PRESENT], ids=lambda path: path.stem)
def test_sessions_of_older_versions_open_and_no_rule_is_slipped_into_them(
    tmp_path: Path, statements: Path
) -> None:
    store = open_store(write_old_store(statements, tmp_path))
    sessions = [one for (one,) in store.database.query("SELECT id FROM sessions")]
    assert sessions
    for session_id in sessions:
        store.quarantine_damage(session_id)
        was = store.open_settings(session_id).settings
        more = was.model_copy(update={"allow": ("run_shell_command",), "mode": "yolo"}).model_dump_json()
        sql = "UPDATE sessions SET settings = ? WHERE id = ?"
        store.database.commit([(sql, (more, session_id))])
        try:
            opened = store.open_settings(session_id)
        except SettingsChanged as error:
            named = set(error.fields)
        else:
            named = {"allow", "mode"} if opened.doubt and not opened.settings.has_permissions else set()
        assert named >= {"allow"}
    store.close()


@pytest.mark.slow
def test_the_command_names_the_settings_and_runs_nothing(command: Command) -> None:
    begun = command.run("-p", "hello", "-m", "demo", "--output-format", "json").result["session_id"]
    with closing(sqlite3.connect(command.folder / "data" / "sandbur.db")) as database:
        [(text,)] = database.execute("SELECT settings FROM sessions")
        changed = json.dumps({**json.loads(text), "allow": ["run_shell_command"], "sandbox": "auto"})
        database.execute("UPDATE sessions SET settings = ?", (changed,))
        database.commit()
    ended = command.run("-p", "run touch made", "-r", begun, "--output-format", "json")
    assert (ended.code, ended.result["error"]["code"]) == (1, "settings_changed")
    assert "changed outside of Sandbur: allow, sandbox." in ended.err
    assert not (command.folder / "made").exists()
    assert command.run("fork", begun).code == command.run("steer", begun, "hello").code == 1
    for words in (("sessions", "verify", begun), ("doctor",)):
        ended = command.run(*words)
        assert ended.code == 1
        assert "its records contain: allow, sandbox" in " ".join(ended.out.split())
