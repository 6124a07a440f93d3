"""A real Ray cluster: its actors, its workers and its head are killed, and each session ends once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.required import require_module
from support.stores.fleet_sessions import add_sessions, count_unfinished, require_all_done, wait_until
from support.stores.ray_head import RayHead, find_processes, open_head

from sandbur.agent.fleet.cluster.ray_connection import ClusterRefused, RayConnection
from sandbur.agent.fleet.worker_process import WorkerOrder
from sandbur.state.store.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(1200)]

NAME = "bot:agent"
BOT = """
from pathlib import Path
from support.victims.agents.fleet_victim import make_agent

agent = make_agent(Path(__file__).with_name("log"), effect_s=0.5)
"""
PATIENCE_S = 300
ADDED = 6
RUNNING_AT_ONCE = 6


class FleetCommands:
    """`sandbur fleet` on one store and one cluster."""

    def __init__(self, folder: Path, head: RayHead, store: str = "store.db") -> None:
        self.folder, self.head = folder, head
        self.url = f"sqlite:///{folder}/{store}"
        self.env = {**head.env, "SANDBUR_STORE": self.url, "SANDBUR_HOME": str(folder / "data")}
        self.env |= {"SANDBUR_LEASE_S": "4", "RAY_ADDRESS": head.address}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "sandbur.ui", "fleet", *words],
            env=self.env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        command = self.start(*words)
        out, _ = command.communicate(timeout=PATIENCE_S)
        assert command.returncode == 0, out
        return out

    def list_actors(self) -> dict[str, Any]:
        return json.loads(self.run("status", "--json"))["actors"]

    def find_running(self) -> dict[str, Any]:
        """Return an actor whose worker runs."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [actor for actor in self.list_actors().values() if actor["state"] == "running"]
            return bool(found)

        wait_until(look, PATIENCE_S, 0.5)
        return found[0]


@contextmanager
def run_controller(commands: FleetCommands, concurrency: int = 3) -> Generator[subprocess.Popen[str]]:
    bounds = ("--min", "2", "--max", "2", "--concurrency", str(concurrency))
    with commands.start("up", "--address", commands.head.address, "--agent", NAME, *bounds) as controller:
        try:
            yield controller
        finally:
            if controller.poll() is None:
                controller.kill()


def test_killed_actors_workers_and_heads_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    require_module("ray")
    (tmp_path / "bot.py").write_text(BOT)
    (tmp_path / "home").mkdir()
    log = tmp_path / "log"
    with open_head(tmp_path / "home") as head:
        commands = FleetCommands(tmp_path, head)
        store = Store.open(commands.url)
        count = 0

        def add_work() -> None:
            """Add sessions, and wait until some calls take effect, so that a kill comes in between."""
            nonlocal count
            add_sessions(commands.url, log, ADDED, NAME, first=count)
            count += ADDED
            wanted = len(log.read_text().split()) + 3
            wait_until(lambda: len(log.read_text().split()) >= wanted, PATIENCE_S)

        with run_controller(commands) as controller:
            for process in ("actor_pid", "pid"):
                running = commands.find_running()
                add_work()
                os.kill(running[process], signal.SIGKILL)
            add_work()
            head.kill()
            add_sessions(commands.url, log, ADDED, NAME, first=count)
            count += ADDED
            assert count_unfinished(store)
            assert controller.poll() is None
            head.start()
            wait_until(lambda: not count_unfinished(store), PATIENCE_S, 0.2)
            commands.run("down")
            out, _ = controller.communicate(timeout=PATIENCE_S)
            assert controller.returncode == 0, out
            assert "Ray is back" in out
        assert commands.list_actors() == {}
        store.close()
        wait_until(lambda: not find_processes(commands.url), PATIENCE_S, 0.2)
    require_all_done(commands.url, log, count, may_lack=3 * RUNNING_AT_ONCE)


async def test_stores_share_no_workers_another_order_replaces_them_and_a_refused_request_ends_nothing(
    tmp_path: Path,
) -> None:
    require_module("ray")
    (tmp_path / "bot.py").write_text(BOT)
    (tmp_path / "home").mkdir()
    with open_head(tmp_path / "home") as head:
        first, second = FleetCommands(tmp_path, head), FleetCommands(tmp_path, head, "other.db")
        with run_controller(first) as replaced:
            before = first.find_running()
            assert second.list_actors() == {}
            with run_controller(second):
                second.find_running()
                second.run("down")
            assert before["actor_pid"] in {actor["actor_pid"] for actor in first.list_actors().values()}
            names = set(first.list_actors())
            with run_controller(first, concurrency=2) as newest:
                wait_until(lambda: not names & set(first.list_actors()), PATIENCE_S, 0.5)
                first.find_running()
                assert replaced.wait(PATIENCE_S) == 0
                first.run("down")
                assert newest.wait(PATIENCE_S) == 0
        connection = RayConnection(head.address, "third", head.env)
        await connection.open()
        order = WorkerOrder(first.url, "", str(tmp_path), (NAME,), 1, ("GPU",))
        with pytest.raises(ClusterRefused, match="GPU"):
            await connection.start_actor("worker-1", order)
        await connection.drain_actor("worker-that-is-gone")
        assert (await connection.list_actors()).actors == {}
        await connection.aclose()
        head.env["RAY_AUTH_TOKEN"] = "wrong"
        refused = FleetCommands(tmp_path, head).start("status")
        out, _ = refused.communicate(timeout=PATIENCE_S)
        assert (refused.returncode, "The token of RAY_AUTH_TOKEN is not that of" in out) == (1, True)
