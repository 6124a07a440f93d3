"""The demo model working through plans, driven by the real output of the commands it asks for."""

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.models.demo_walk import Walk, ask, shell

from sandbur.agent.models.demo.diagnosis import DISK, FOLDERS, LOAD, WEB
from sandbur.state.conversation.messages import Outcome, ToolUse, person_message
from sandbur.state.conversation.transcript import Transcript


class Site(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@asynccontextmanager
async def serving(answer: int) -> AsyncIterator[str]:
    class Mine(Site):
        status = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    thread.join()


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async with serving(200) as url:
        yield url


async def test_a_slow_site_is_looked_into_with_numbers_from_the_real_output(site: str) -> None:
    walk = await Walk(shell).of(f"my web site {site} is slow, find out why")
    assert len(walk.plans) == 1
    assert len(walk.plans[0]) >= 2
    assert [status for status, _ in walk.steps] == ["completed"] * 3
    load_output, web_output, timing_output, disk_output = walk.outputs
    load, web, disk = (summary for _, summary in walk.steps)

    average, cores = float(load_output.split()[0]), int(re.findall(r"cores: (\d+)", load_output)[0])
    assert (
        f"load {average:.2f} over the last minute on {cores} cores ({average / cores:.2f} per core)" in load
    )
    assert cores == len(os.sched_getaffinity(0))
    available = int(re.findall(r"MemAvailable:\s+(\d+)", load_output)[0]) // 1024
    total = int(re.findall(r"MemTotal:\s+(\d+)", load_output)[0]) // 1024
    assert f"{available} of {total} MB memory available" in load
    for pid, cpu in re.findall(r"\(pid (\d+)\) with ([\d.]+) % CPU", load):
        assert re.search(rf"^ *{pid} +{re.escape(cpu)} ", load_output, re.MULTILINE)

    port = site.rpartition(":")[2].strip("/")
    assert f":{port} " in web_output
    assert port in web.partition("listening TCP ports: ")[2].partition(";")[0].split(", ")
    code, *seconds = re.findall(rf"== {re.escape(site)} (\d+) (\S+) (\S+) (\S+)", timing_output)[0]
    assert code == "200"
    assert f"{site} answered 200 in {float(seconds[2]):.3f} s" in web

    used = max(
        int(percent) for percent in re.findall(r"^/dev/(?!loop).* (\d+)% /", disk_output, re.MULTILINE)
    )
    assert f"at {used} %" in disk

    for _, summary in walk.steps:
        assert summary.partition(" Problem: ")[0] in walk.answer
    assert "no language model" in walk.answer
    assert "export OPENAI_API_KEY=" in walk.answer
    assert len(set(walk.call_ids)) == len(walk.call_ids)


async def test_a_failing_site_is_the_verdict() -> None:
    async with serving(503) as url:
        walk = await Walk(shell).of(f"{url} is slow")
    assert "Problem:" in walk.steps[1][1]
    assert walk.answer.startswith("Most likely the cause: ")
    assert f"{url} fails with 503" in walk.answer.split("\n\n")[0]


@pytest.mark.parametrize(
    ("request_text", "topics"),
    [
        ("the disk is full", ["Disk", "Folders"]),
        ("this machine is slow", ["Load", "Disk"]),
        ("how much memory is left?", ["Load", "Disk"]),
        ("my shop is down", ["Load", "Web", "Disk"]),
    ],
)
async def test_each_goal_has_its_measurements(request_text: str, topics: list[str], tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "file").write_bytes(b"x" * 3_000_000)
    with contextlib.chdir(tmp_path):
        walk = await Walk(shell).of(request_text)
    assert [summary.partition(":")[0] for _, summary in walk.steps] == topics
    if "Folders" in topics:
        assert "./big 2 MB" in walk.answer


async def test_the_same_request_gets_the_same_reply() -> None:
    history = Transcript.of(person_message("my web site is slow"))
    assert await ask(history) == await ask(history)


async def test_a_denied_step_fails_honestly_and_is_not_planned_again() -> None:
    def deny_the_disk(use: ToolUse) -> tuple[Outcome, str]:
        return (
            ("denied", "Denied by the user: not now. It did not run.")
            if "df -Pk" in use.arguments
            else shell(use)
        )

    walk = await Walk(deny_the_disk).of("the disk is full")
    assert walk.plans == [[DISK.title, FOLDERS.title], [FOLDERS.title]]
    status, summary = walk.steps[0]
    assert status == "failed"
    assert "Denied by the user: not now." in summary
    assert "Disk: not measured." in walk.answer
    assert "(failed)" in walk.answer


async def test_a_plan_that_is_denied_altogether_ends_without_a_verdict() -> None:
    walk = await Walk(lambda use: ("denied", "Denied by policy. It did not run.")).of("this machine is slow")
    assert walk.plans[-1] == []
    assert {status for status, _ in walk.steps} == {"failed"}
    assert "could not measure anything" in walk.answer


async def test_a_denied_second_command_leaves_what_the_first_one_showed(site: str) -> None:
    def deny_curl(use: ToolUse) -> tuple[Outcome, str]:
        return ("denied", "Denied by the user.") if "curl -sS" in use.arguments else shell(use)

    walk = await Walk(deny_curl).of(f"the site {site} is slow")
    status, summary = walk.steps[1]
    assert status == "completed"
    assert "listening TCP ports: " in summary
    assert "A command was denied: Denied by the user." in summary
    assert "answered" not in summary


async def test_an_unknown_outcome_is_run_again_once_because_it_only_reads() -> None:
    seen: list[str] = []

    def unknown_at_first(use: ToolUse) -> tuple[Outcome, str]:
        seen.append(use.arguments)
        return ("unknown", "It may or may not have taken effect.") if len(seen) == 1 else shell(use)

    walk = await Walk(unknown_at_first).of("this machine is slow")
    assert seen[0] == seen[1]
    assert [status for status, _ in walk.steps] == ["completed", "completed"]
    assert "Whether a command ran is unknown." in walk.steps[0][1]
    assert len(set(walk.call_ids)) == len(walk.call_ids)


@pytest.mark.parametrize("outcome", ["unknown", "interrupted", "timeout", "error"])
async def test_a_step_without_results_fails_after_at_most_two_tries(outcome: Outcome) -> None:
    calls: list[str] = []

    def never(use: ToolUse) -> tuple[Outcome, str]:
        calls.append(use.arguments)
        return outcome, "nothing of use"

    walk = await Walk(never).of("this machine is slow")
    assert {status for status, _ in walk.steps} == {"failed"}
    assert len(calls) <= 4


def test_an_address_cannot_smuggle_a_command_into_the_shell() -> None:
    url = "http://127.0.0.1:1/$(touch${IFS}x);id/a"
    command = WEB.follow_up(f"{WEB.title}: {url}", "/usr/bin/curl\n")
    echoed = command.replace("curl ", "printf '%s\\n' ")
    done = subprocess.run(["bash", "-c", echoed], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == url


def test_commands_only_look() -> None:
    for probe in (LOAD, WEB, DISK, FOLDERS):
        assert not re.search(r"\b(rm|mv|cp|tee|kill|touch|dd|mkfs|chmod|chown|sudo|install)\b", probe.command)
        assert set(re.findall(r">+\s*([^\s;]+)", probe.command)) <= {"/dev/null"}
