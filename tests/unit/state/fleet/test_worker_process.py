"""A worker process is started again when it ends, hands its sessions back, and never outlives its starter."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import PYTHONPATH
from support.stores.fleet_sessions import add_sessions, count_unfinished, require_all_done, wait_until

from sandbur.agent.fleet.worker_process import WorkerOrder, WorkerProcess, load_order
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

PATIENCE_S = 120
NAME = "bot:agent"
BOT = """
from pathlib import Path
from support.victims.agents.fleet_victim import make_agent

agent = make_agent(Path(__file__).with_name("log"), effect_s=0.2)
"""
STARTER = """
import sys, time
from sandbur.agent.fleet.worker_process import WorkerOrder, WorkerProcess

process = WorkerProcess(WorkerOrder(sys.argv[1], "", sys.argv[2], ("bot:agent",), 2))
process.start()
while not process.pid:
    time.sleep(0.02)
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setenv("SANDBUR_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "for the cluster only")
    (tmp_path / "bot.py").write_text(BOT)


def make_order(tmp_path: Path) -> WorkerOrder:
    return WorkerOrder(f"sqlite:///{tmp_path}/store.db", "", str(tmp_path), (NAME,), 2)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def test_a_worker_that_is_killed_is_started_again_and_its_sessions_end_once(tmp_path: Path) -> None:
    order, log = make_order(tmp_path), tmp_path / "log"
    add_sessions(order.store, log, 3, NAME)
    store = Store.open(order.store)
    process = WorkerProcess(order)
    process.start()
    wait_until(lambda: len(log.read_text().split()) > 1, PATIENCE_S)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not count_unfinished(store), PATIENCE_S)
    assert process.restarts == 1
    process.drain()
    assert process.wait(PATIENCE_S)
    assert (process.state, process.pid) == ("drained", 0)
    store.close()
    require_all_done(order.store, log, 3, may_lack=2)


def test_a_drained_worker_hands_its_sessions_back_and_stays_away_until_it_is_started(tmp_path: Path) -> None:
    order, log = make_order(tmp_path), tmp_path / "log"
    add_sessions(order.store, log, 2, NAME)
    store = Store.open(order.store)
    process = WorkerProcess(order)
    process.start()
    wait_until(lambda: len(log.read_text().split()) > 1, PATIENCE_S)
    process.drain()
    assert process.wait(PATIENCE_S)
    assert store.database.query("SELECT COUNT(*) FROM heads WHERE owner <> ''") == [(0,)]
    assert count_unfinished(store) == 2
    process.start()
    wait_until(lambda: not count_unfinished(store), PATIENCE_S)
    process.drain()
    assert process.wait(PATIENCE_S)
    store.close()
    require_all_done(order.store, log, 2, may_lack=2)


def test_a_worker_ends_with_the_process_that_started_it_however_that_ends(tmp_path: Path) -> None:
    order, log = make_order(tmp_path), tmp_path / "log"
    add_sessions(order.store, log, 2, NAME)
    line = [sys.executable, "-c", STARTER, order.store, order.cwd]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        wait_until(lambda: len(log.read_text().split()) > 1, PATIENCE_S)
        starter.kill()
    wait_until(lambda: not is_running(pid), PATIENCE_S)
    store = Store.open(order.store)
    assert store.database.query("SELECT COUNT(*) FROM heads WHERE owner <> ''") == [(0,)]
    store.close()


def test_a_worker_that_cannot_start_says_why_and_is_tried_again(tmp_path: Path) -> None:
    process = WorkerProcess(WorkerOrder(f"sqlite:///{tmp_path}/s.db", "", str(tmp_path), ("no_module:x",), 1))
    process.start()
    wait_until(lambda: process.restarts > 0, PATIENCE_S)
    wait_until(lambda: "no_module" in process.problem, PATIENCE_S, 0.001)
    process.drain()
    assert process.wait(PATIENCE_S)


def test_a_worker_gets_the_store_in_its_environment_and_nothing_of_ray(tmp_path: Path) -> None:
    order = WorkerOrder("postgresql://me:secret@db/runs", "acme", str(tmp_path), ("a:b",), 3, ("gpu", "eu"))
    assert "secret" not in " ".join(order.make_command())
    assert order.make_command()[-2:] == ["--labels", "gpu,eu"]
    env = order.make_environment()
    assert (env["SANDBUR_STORE"], env["SANDBUR_TENANT"]) == (order.store, "acme")
    assert not [name for name in env if name.startswith("RAY_")]
    assert load_order(order.dump()) == order
