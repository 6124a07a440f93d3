"""A store that any released version wrote opens in this one, with everything in it."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.old_stores import DONE, FORK, KILLED, STORES, WAITING, opened

from sandbur.state.calls import CallDecision
from sandbur.state.databases.schema import SCHEMA_VERSION


def schema_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0]
    finally:
        connection.close()


def test_there_is_a_fixture_of_every_older_version() -> None:
    assert [path.stem for path in STORES] == [f"store-{n}" for n in range(1, SCHEMA_VERSION)]


def test_an_old_store_is_brought_up_to_date_and_holds(old: Path) -> None:
    store = opened(old)
    assert schema_of(old) == str(SCHEMA_VERSION)
    assert {session.id for session in store.sessions()} >= {DONE, WAITING, KILLED, FORK}
    assert not any(store.verify(session.id) for session in store.sessions())
    view = store.show(DONE)
    assert [step.analysis for step in view.state.vibe_plan] == ["first", "second"]
    assert view.state.chat_history.last is not None
    assert view.state.chat_history.last.text == "all done"
    store.close()


async def test_old_sessions_go_on(old: Path) -> None:
    store = opened(old)
    for session_id in (DONE, FORK):
        session = await open_session(store, ScriptedModel("more"), Recorder(), session_id=session_id)
        _, end = await collect(session.send("And now?"))
        assert (end.status, end.result) == ("done", "more")
    tool = Recorder()
    with chdir("/tmp"):  # where it was to run: elsewhere an approval would not hold
        model = ScriptedModel("ran")
        waiting = await open_session(store, model, tool, session_id=WAITING, mode="interactive")
        call = waiting.state.pending_tool_calls[0]
        _, end = await collect(waiting.decide([CallDecision(call_id=call.call_id, approved=True)]))
    assert (end.result, tool.done) == ("ran", ["x"])
    store.close()


async def test_a_call_that_was_running_under_an_old_version_is_not_run_again(old: Path) -> None:
    store = opened(old)
    tool, model = Recorder(), ScriptedModel("told")
    killed = await open_session(store, model, tool, session_id=KILLED)
    _, end = await collect(killed.carry_on())
    assert (end.result, tool.done) == ("told", [])
    assert "may or may not have taken effect" in str(list(model.requests[0].messages)[-1].blocks)
    store.close()


def test_a_crash_in_the_middle_of_a_migration_changes_nothing(old: Path) -> None:
    code = f"from sandbur.state.store.store import Store; Store.open('sqlite:///{old}')"
    env = {**os.environ, "SANDBUR_CRASH_AT": "migration_mid"}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == -signal.SIGKILL
    assert int(schema_of(old)) < SCHEMA_VERSION
    assert len(opened(old).sessions()) >= 4
