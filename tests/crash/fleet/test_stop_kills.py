"""A request to stop a run counts, whoever is killed meanwhile; a worker that slept says what is true."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.places import PYTHONPATH, SUPPORT
from support.stores.databases import DATABASES, ON_POSTGRESQL, fresh_url
from support.victims.agents.stop_victim import NAME, make_agent
from support.victims.victims import run_victim
from support.waiting import wait_for

from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

LEASE = {"SANDBUR_LEASE_S": "2"}
VICTIM = "agents/stop_victim"


class Place:
    """A store with a session that was told to sleep, and what its agent did."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self.store = Store.open(url)
        log.touch()

    async def begin(self) -> None:
        await create_session(self.store, NAME, make_agent(self.log), "s")
        await send_message(self.store, "s", "sleep")

    @contextmanager
    def worker(self, point: str = "") -> Generator["subprocess.Popen[str]"]:
        """Start a worker; yield it when its call works."""
        env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_CRASH_AT": point, **LEASE}
        line = [sys.executable, str(SUPPORT / f"victims/{VICTIM}.py"), self.url, str(self.log), "work"]
        with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True) as process:
            try:
                wait_for(lambda: "call" in self.lines)
                yield process
            finally:
                process.kill()

    def ask(self, point: str = "") -> tuple[int, str]:
        ended = run_victim(VICTIM, self.url, str(self.log), "ask", point=point, **LEASE)
        return ended.code, ended.out.strip()

    def go_on(self) -> str:
        """Run another worker until no session waits; return what it says."""
        ended = run_victim(VICTIM, self.url, str(self.log), "work", **LEASE)
        assert ended.code == 0, ended.err
        return ended.out

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().split()

    @property
    def status(self) -> str:
        (one,) = self.store.sessions()
        return one.status

    def require_stopped(self) -> None:
        """Check that the turn ended where it was, and that the next message is answered alone."""
        assert (self.status, self.lines) == ("interrupted", ["asked", "call"])
        asyncio.run(send_message(self.store, "s", "next"))
        self.go_on()
        assert (self.status, self.lines) == ("done", ["asked", "call", "asked"])
        last = self.store.show("s").state.chat_history.last
        assert last is not None
        assert last.text == "heard next"
        assert self.store.database.query("SELECT n FROM inbox WHERE kind = 'stop'") == []
        assert not audit(self.store.database, ["s"]).breaches


@contextmanager
def open_place(kind: str, folder: Path) -> Generator[Place]:
    with fresh_url(kind, folder) as url:
        place = Place(url, folder / "log")
        asyncio.run(place.begin())
        yield place
        place.store.close()


@pytest.mark.parametrize("kind", DATABASES)
def test_a_request_is_stored_whole_or_not_at_all(tmp_path: Path, kind: str) -> None:
    with open_place(kind, tmp_path) as place:
        with place.worker() as worker:
            assert place.ask("stop_before_commit")[0] == -signal.SIGKILL
            assert place.store.database.query("SELECT n FROM inbox WHERE kind = 'stop'") == []
            assert place.ask("stop_committed")[0] == -signal.SIGKILL
            assert worker.wait(60) == 0
        place.require_stopped()


@pytest.mark.parametrize("kind", DATABASES)
def test_a_worker_that_dies_when_it_notices_a_request_leaves_it_to_the_next_one(
    tmp_path: Path, kind: str
) -> None:
    with open_place(kind, tmp_path) as place:
        with place.worker("stop_noticed") as worker:
            assert place.ask() == (0, "True")
            assert worker.wait(60) == -signal.SIGKILL
        assert "taken over from a dead worker" in place.go_on()
        place.require_stopped()


@pytest.mark.parametrize("kind", DATABASES)
def test_the_run_of_a_worker_that_is_dead_already_can_be_stopped(tmp_path: Path, kind: str) -> None:
    with open_place(kind, tmp_path) as place:
        with place.worker() as worker:
            worker.kill()
            worker.wait()
        assert place.ask() == (0, "True")
        place.go_on()
        place.require_stopped()
        assert place.ask() == (0, "False")


@ON_POSTGRESQL
def test_a_worker_that_slept_past_its_lease_says_only_that_its_session_moved(tmp_path: Path) -> None:
    with open_place("postgresql", tmp_path) as place:
        with place.worker() as worker:
            worker.send_signal(signal.SIGSTOP)
            wait_for(lambda: "taken over" in place.go_on())
            assert place.status == "done"
            worker.send_signal(signal.SIGCONT)
            said, _ = worker.communicate(timeout=60)
        assert "failed" not in said
        assert "Session s was taken over by another worker." in said
        assert place.status == "done"
