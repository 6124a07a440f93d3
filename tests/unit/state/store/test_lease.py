"""One session has one writer; who lost it writes nothing, and is told who has it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.models.server import Answer, ModelServer, Request, call, say
from support.places import PYTHONPATH, ROOT
from support.stores.reopening import reopen

from sandbur.state.databases.sqlite.lock_holder import find_lock_holder
from sandbur.state.errors import SessionHeld, StoreError
from sandbur.state.process.identity import is_process_gone, make_runner_name, read_process_start
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.lease import make_lease_end
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

ELSEWHERE = "elsewhere:77:1:abcd"


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


def set_head(store: Store, **columns: Any) -> None:
    for name, value in columns.items():
        store.database.commit([(f"UPDATE heads SET {name} = ? WHERE session_id = 's1'", (value,))])


def head(store: Store) -> tuple[Any, ...]:
    return store.database.query("SELECT owner, epoch, status, last_seq FROM heads WHERE session_id = 's1'")[0]


async def with_one_turn(store: Store) -> None:
    await collect((await open_session(store, ScriptedModel("one"), Recorder())).send("first"))


async def test_a_session_that_another_host_runs_is_refused_at_once(store: Store) -> None:
    await with_one_turn(store)
    from sandbur.state.store.sessions.lease import make_lease_end

    set_head(store, owner=ELSEWHERE, lease_until=make_lease_end(store.database.now()))
    session = await open_session(reopen(store), ScriptedModel(), Recorder())
    with pytest.raises(SessionHeld, match="process 77 on elsewhere"):
        await collect(session.send("second"))
    assert head(store)[0] == ELSEWHERE


@pytest.mark.parametrize(
    "lease_until", ["2020-01-01T00:00:00.000+00:00", "2199-01-01T00:00:00.000+00:00", "x"]
)
async def test_an_owner_without_a_sign_of_life_is_taken_over(store: Store, lease_until: str) -> None:
    """Also where a clock was set wrong: a lease that ends in a century does not last that long."""
    await with_one_turn(store)
    set_head(store, owner=ELSEWHERE, lease_until=lease_until, status="running")
    session = await open_session(reopen(store), ScriptedModel("two"), Recorder())
    events, end = await collect(session.send("second"))
    assert end.result == "two"
    # A server judges by its own clock. For a file, the owner is watched for a moment.
    assert ("does not renew its lease" in str(events)) is not store.database.has_clock


async def test_an_owner_that_still_beats_keeps_its_session_whatever_the_clocks_say(store: Store) -> None:
    await with_one_turn(store)
    # On a server, the owner names the time of the server. For a file, it may have another clock.
    first, renewed = "2020-01-01T00:00:00.000+00:00", "2020-01-01T00:00:05.000+00:00"
    if store.database.has_clock:
        first = renewed = make_lease_end(store.database.now())
    set_head(store, owner=ELSEWHERE, lease_until=first)
    session = await open_session(reopen(store), ScriptedModel(), Recorder())
    run = asyncio.ensure_future(collect(session.send("second")))
    await asyncio.sleep(0.3)
    set_head(store, lease_until=renewed)
    with pytest.raises(SessionHeld):
        await run


async def test_a_writer_that_was_taken_over_writes_nothing_more(store: Store) -> None:
    running, taken = asyncio.Event(), asyncio.Event()

    async def stall(text: str) -> None:
        running.set()
        await taken.wait()

    tool = Recorder(work=stall)
    session = await open_session(store, ScriptedModel(act("a"), "done"), tool)
    run = asyncio.ensure_future(collect(session.send("go")))
    await running.wait()
    set_head(store, owner=ELSEWHERE, epoch=99)
    before = head(store)
    taken.set()
    _, end = await run
    assert end.error is not None
    assert (end.error.code, end.exit_code) == ("session_held", 1)
    assert "process 77 on elsewhere took it over" in end.error.message
    assert head(store) == before


def test_a_bad_length_of_leases_is_told_where_a_store_is_opened_and_imports_do_not_fail() -> None:
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "words"}
    script = "from sandbur.state.store.store import Store; print('imported'); Store.open('sqlite:///nowhere')"
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert run.stdout == "imported\n"
    assert "SANDBUR_LEASE_S should be a number" in run.stderr


def test_a_running_tool_is_stopped_when_the_session_is_lost(store: Store) -> None:
    """The sign of life notices; nothing has to be written for that."""
    script = (
        "import asyncio, sys\n"
        "from support.models.scripted import Recorder, ScriptedModel, collect, open_session\n"
        "from sandbur.state.store.store import Store\n"
        "async def main():\n"
        "    async def long(text): print('running', flush=True); await asyncio.sleep(60)\n"
        "    model = ScriptedModel([('act', {'text': 'a'})])\n"
        "    session = await open_session(Store.open(sys.argv[1]), model, Recorder(work=long))\n"
        "    _, end = await collect(session.send('go'))\n"
        "    print(end.error.code)\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "1"}
    run = subprocess.Popen(
        [sys.executable, "-c", script, store.url], env=env, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    set_head(store, owner=ELSEWHERE, epoch=99)
    out, _ = run.communicate(timeout=120)
    assert out == "session_held\n"


def test_a_lease_is_renewed_while_the_event_loop_is_blocked(store: Store) -> None:
    script = (
        "import asyncio, sys, time\n"
        "from support.models.scripted import Recorder, ScriptedModel, collect, open_session\n"
        "from sandbur.state.store.store import Store\n"
        "async def main():\n"
        "    async def block(text): print('running', flush=True); time.sleep(60)\n"
        "    model = ScriptedModel([('act', {'text': 'a'})])\n"
        "    session = await open_session(Store.open(sys.argv[1]), model, Recorder(work=block))\n"
        "    await collect(session.send('go'))\n"
        "asyncio.run(main())\n"
    )
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "1"}
    run = subprocess.Popen(
        [sys.executable, "-c", script, store.url], env=env, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    seen: set[str] = set()
    end = time.monotonic() + 50
    while len(seen) < 4 and time.monotonic() < end:
        query = "SELECT lease_until FROM heads WHERE session_id = 's1'"
        seen.add(store.database.query(query)[0][0])
        time.sleep(0.02)
    run.kill()
    run.communicate()
    assert len(seen) == 4


async def test_of_many_claims_at_once_one_wins(store: Store) -> None:
    settings = SessionSettings(model="m", cwd="/")
    store.index.create("s1", settings)
    stores = [reopen(store) for _ in range(8)]

    async def claim(one: Store) -> int | None:
        writer = one.writer("s1")
        known = writer.chain.records, writer.chain.digest
        writer.claim = await one.index.claim("s1", make_runner_name(), known, settings, "")
        await writer.commit()
        return writer.epoch

    results = await asyncio.gather(*map(claim, stores), return_exceptions=True)
    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, StoreError) for result in results) == 7


@pytest.mark.slow
def test_a_stopped_process_that_comes_back_finds_its_session_taken(tmp_path: Path) -> None:
    """Stopped for longer than the lease while its command runs; the other one tells its model the truth."""

    def one_effect(request: Request) -> Answer:
        results = [message for message in request.body["messages"] if message["role"] == "tool"]
        return say("the end") if results else call("run_shell_command", command="echo one >> out; sleep 4")

    session_id = "11111111-2222-4333-8444-555555555555"
    with ModelServer(one_effect) as server:
        env = {
            **os.environ, "PYTHONPATH": str(ROOT), "SANDBUR_HOME": str(tmp_path / "home"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"), "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": server.base_url, "SANDBUR_LEASE_S": "1",
        }  # fmt: skip
        line = [sys.executable, "-m", "sandbur.ui.cli.main", "-p"]
        first = subprocess.Popen(
            [*line, "go", "--yolo", "-m", "openai-chat/m", "--session-id", session_id],
            cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        while not (tmp_path / "out").exists():
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)
        while find_lock_holder(tmp_path / "home" / "sandbur.db") is not None:
            # It was stopped in the middle of a write, which would block every other process.
            first.send_signal(signal.SIGCONT)
            time.sleep(0.05)
            first.send_signal(signal.SIGSTOP)
        time.sleep(1.2)  # longer than the lease
        second = subprocess.run([*line, "-r", session_id], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert (second.returncode, second.stdout) == (0, b"the end\n"), second.stderr
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=120)
        assert first.returncode == 1
        assert b"took it over" in err or b"This process does not run session" in err, err
        told = server.requests[-1].body["messages"][-1]["content"]
    assert (tmp_path / "out").read_text() == "one\n"
    assert "may or may not" in told or "exit code: 0" in told
    assert len(server.requests) == 2


def test_an_owner_is_gone_when_its_process_is() -> None:
    assert not is_process_gone(make_runner_name())
    host = os.uname().nodename
    assert is_process_gone(f"{host}:999999999:1:n")
    assert is_process_gone(f"{host}:{os.getpid()}:1:n")
    assert not is_process_gone(ELSEWHERE)


def test_the_program_of_a_runner_may_have_a_name_that_is_not_text() -> None:
    rename = "open('/proc/self/comm', 'wb').write(b'\\xc3) (\\xff'); print('renamed', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"renamed\n"
        start = read_process_start(program.pid)
        assert start.isdigit()
        assert not is_process_gone(f"{os.uname().nodename}:{program.pid}:{start}:n")
        program.communicate(b"\n", timeout=60)
    assert read_process_start(program.pid) == ""
