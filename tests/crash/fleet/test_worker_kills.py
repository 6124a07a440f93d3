"""Workers are killed anywhere: others take their sessions over, nothing runs twice, nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.crash.disk_log import COMPILER, needs_compiler
from support.places import PYTHONPATH, SUPPORT
from support.required import require
from support.stores.databases import DATABASES, ON_POSTGRESQL, fresh_url
from support.stores.fleet_sessions import add_sessions, count_unfinished, require_all_done, wait_until
from support.victims.victims import run_victim

from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SANDBUR_TEST_WORKER_KILLS", "9"))
SESSIONS = 2 * KILLS
PATIENCE_S = 60 + 4 * KILLS
CLOCKS = {"alpha": -60, "beta": 0, "gamma": 60}
"""Name of a host -> how many seconds its clock is off."""
VICTIM = SUPPORT / "victims/agents/fleet_victim.py"


@pytest.mark.parametrize(
    "point",
    [
        "worker_registered", "claim_before_commit", "claim_committed",
        "hand_back_before_commit", "hand_back_before_commit:2", "handed_back", "store_after_commit",
        "store_after_commit:4", "started_after_commit:3", "tool_ran:2", "store_before_commit:6",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", DATABASES)
def test_the_sessions_of_a_worker_that_is_killed_anywhere_end_with_another(
    tmp_path: Path, kind: str, point: str
) -> None:
    log = tmp_path / "log"
    with fresh_url(kind, tmp_path) as url:
        add_sessions(url, log, 3)
        words = (url, str(log), "once")
        died = run_victim("agents/fleet_victim", *words, point=point, SANDBUR_LEASE_S="1")
        assert died.code == -signal.SIGKILL, died.err
        ended = run_victim("agents/fleet_victim", *words, SANDBUR_LEASE_S="1")
        assert ended.code == 0, ended.err
        require_all_done(url, log, 3, may_lack=3)


@pytest.mark.parametrize("point", ["take_over_before_commit", "take_over_committed"])
def test_a_worker_that_is_killed_while_it_takes_over_is_taken_over_itself(tmp_path: Path, point: str) -> None:
    log, url = tmp_path / "log", f"sqlite:///{tmp_path}/store.db"
    add_sessions(url, log, 2)
    words = (url, str(log), "once")
    for where in ("tool_ran:2", point):
        died = run_victim("agents/fleet_victim", *words, point=where, SANDBUR_LEASE_S="1")
        assert died.code == -signal.SIGKILL, died.err
    ended = run_victim("agents/fleet_victim", *words, SANDBUR_LEASE_S="1")
    assert ended.code == 0, ended.err
    require_all_done(url, log, 2, may_lack=2)


def compile_clock(folder: Path) -> Path:
    library = folder / "clock_offset.so"
    source = SUPPORT / "crash/clock_offset.c"
    assert COMPILER is not None
    command = [COMPILER, "-O1", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


@contextmanager
def run_hosts(url: str, log: Path, clock: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run a worker on each host; yield them by the names of the hosts, and end those that are there."""
    workers: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for host in CLOCKS:
            workers[host] = start_worker(host, url, log, clock)
        yield workers
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()


def start_worker(host: str, url: str, log: Path, clock: Path) -> subprocess.Popen[bytes]:
    """Start a worker in a UTS namespace with the name of a host, and with the clock of that host."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "2"}
    env |= {"LD_PRELOAD": str(clock), "CLOCK_OFFSET_S": str(CLOCKS[host])}
    script = 'hostname "$0"; exec "$@"'
    line = ["unshare", "-u", "sh", "-c", script, host, sys.executable, str(VICTIM), url, str(log)]
    with (log.parent / f"{host}.err").open("a") as errors:
        return subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, stderr=errors)


@needs_compiler
@ON_POSTGRESQL
def test_three_hosts_whose_clocks_differ_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    require("unshare", "hostname")
    log, chance = tmp_path / "log", random.Random(1)
    clock = compile_clock(tmp_path)
    with fresh_url("postgresql", tmp_path) as url:
        add_sessions(url, log, SESSIONS)
        store = Store.open(url)
        running = "SELECT COUNT(*) FROM heads WHERE owner <> ''"
        with run_hosts(url, log, clock) as workers:
            for _ in range(KILLS):
                wait_until(lambda: bool(store.database.query(running)[0][0]), PATIENCE_S)
                time.sleep(chance.uniform(0.1, 0.4))
                host = chance.choice(list(CLOCKS))
                workers[host].kill()
                workers[host].wait()
                workers[host] = start_worker(host, url, log, clock)
            wait_until(lambda: not count_unfinished(store), PATIENCE_S)
        store.close()
        require_all_done(url, log, SESSIONS, may_lack=3 * KILLS)
