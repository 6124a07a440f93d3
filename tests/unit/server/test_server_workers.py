"""A server whose sessions run in worker processes answers as one that runs them, and ends with them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Command
from support.network.sandbur_server import RunningServer, serve
from support.places import PYTHONPATH
from support.stores.fleet_sessions import wait_until
from support.stores.ray_head import find_processes

pytestmark = pytest.mark.slow

PATIENCE_S = 120
BOT = """
from pathlib import Path
from support.victims.agents.fleet_victim import make_agent

agent = make_agent(Path(__file__).with_name("log"), effect_s=0.2)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    (tmp_path / "bot.py").write_text(BOT)
    words = ("--agent", "bot:agent", "--workers", "2", "-C", str(tmp_path))
    with serve(tmp_path, *words, env={"PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "4"}) as running:
        yield running


def test_sessions_run_in_the_workers_and_the_server_streams_what_they_store(server: RunningServer) -> None:
    server.begin("s1", "s1")
    seen = []
    with server.stream("s1") as events:
        for event in events:
            seen.append(event.data)
            if event.data["type"] == "result":
                break
    assert seen[-1]["status"] == "done"
    assert [one["content"] for one in seen if one["type"] == "message"][-1] == "s1 is done"
    text = server.ask("GET", "/metrics").body.decode()
    assert "sandbur_running_sessions 0" in text
    assert "sandbur_sessions_waiting 0" in text


def test_a_killed_worker_is_replaced_and_no_worker_outlives_the_server(
    server: RunningServer, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    server.begin("s1", "s1")
    wait_until(lambda: log.exists() and bool(log.read_text()), PATIENCE_S)
    workers = find_processes("--until-stdin-ends") & find_processes(str(tmp_path))
    assert len(workers) == 2
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    server.wait_for("s1", "done")
    lines = log.read_text().split()
    assert len(lines) == len(set(lines))
    server.process.kill()
    wait_until(lambda: not find_processes("--until-stdin-ends") & find_processes(str(tmp_path)), PATIENCE_S)


def test_requests_are_refused_while_no_worker_can_start_and_accepted_when_one_does(tmp_path: Path) -> None:
    is_broken = "if '--until-stdin-ends' in sys.argv: raise SystemExit('no worker today')"
    (tmp_path / "bot.py").write_text(f"import sys\n{is_broken}\n{BOT}")
    words = ("--agent", "bot:agent", "--workers", "1", "-C", str(tmp_path))
    with serve(tmp_path, *words, env={"PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": "4"}) as server:
        refused = server.ask("POST", "/v1/sessions", {"session_id": "s1", "message": "s1"})
        assert (refused.status, refused.json["error"]["type"]) == (503, "no_worker")
        assert server.ask("GET", "/v1/sessions/s1").status == 404
        assert server.ask("GET", "/readyz").status == 503
        said = {"model": "bot:agent", "messages": [{"role": "user", "content": "s2"}]}
        assert server.ask("POST", "/v1/chat/completions", said).status == 503
        (tmp_path / "bot.py").write_text(BOT)
        wait_until(lambda: server.ask("GET", "/readyz").status == 200, PATIENCE_S)
        server.begin("s1", "s1")
        server.wait_for("s1", "done")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--workers 2", "--workers needs --agent"),
        ("--workers 2 --agent a.yaml", "agent file a.yaml"),
        ("--workers x", "not a whole number"),
    ],
)
def test_workers_that_cannot_run_are_refused(command: Command, line: str, problem: str) -> None:
    ended = command.run("serve", *line.split())
    assert ended.code == 2
    assert problem in ended.err
