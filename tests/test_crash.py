"""The real command is killed at named points and resumed: nothing is lost and nothing is done twice."""

import asyncio
import json
import os
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_server import Answer, ModelServer, Request, call, fail, say

COMMITS = 8
"""Of the run below: message, and for each of two rounds reply, start and result, then the answer."""


def two_effects(request: Request) -> Answer:
    """Ask for one effect after the other, by what the history already answers."""
    results = [message for message in request.body["messages"] if message["role"] == "tool"]
    if len(results) < 2:
        return call("run_shell_command", command=f"echo {('one', 'two')[len(results)]} >> effects.txt")
    return say("both are written")


@dataclass
class Place:
    """A folder, a store and a model server for one trial."""

    folder: Path
    server: ModelServer
    session_id: str

    async def sandbur(self, *arguments: str, crash_at: str = "") -> tuple[int, str, str]:
        env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        env |= {
            "SANDBUR_HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": self.server.base_url,
            "SANDBUR_CRASH_AT": crash_at,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ui.cli", *arguments,
            cwd=self.workspace, env=env | {"PYTHONPATH": str(Path(__file__).parent.parent)},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    @property
    def workspace(self) -> Path:
        path = self.folder / "workspace"
        path.mkdir(exist_ok=True)
        return path

    @property
    def effects(self) -> list[str]:
        path = self.workspace / "effects.txt"
        return path.read_text().split() if path.exists() else []

    async def start(self, crash_at: str) -> int:
        code, _, _ = await self.sandbur(
            "-p", "write both", "--yolo", "-m", "openai-chat/m", "--session-id", self.session_id,
            crash_at=crash_at,
        )  # fmt: skip
        return code

    async def resume(self, *more: str) -> tuple[int, dict[str, Any]]:
        code, out, err = await self.sandbur("-p", "-r", self.session_id, "--output-format", "json", *more)
        assert "Traceback" not in err
        return code, json.loads(out)


async def trial(folder: Path, crash_at: str, *also: str) -> Place:
    """Run, die at `crash_at`, resume (and die again at each of `also`), until done."""
    with ModelServer(two_effects) as server:
        place = Place(folder, server, str(uuid.uuid4()))
        assert await place.start(crash_at) == -signal.SIGKILL
        for point in also:
            code, _, _ = await place.sandbur("-p", "-r", place.session_id, crash_at=point)
            assert code == -signal.SIGKILL
        code, result = await place.resume()
        assert (code, result["status"], result["result"]) == (0, "done", "both are written")
        assert server.rejections == []
        last = server.requests[-1].body["messages"]
    assert [message["content"] for message in last if message["role"] == "user"] == ["write both"]
    assert len(place.effects) == len(set(place.effects))
    told = [message["content"] for message in last if message["role"] == "tool"]
    for word, content in zip(("one", "two"), told, strict=True):
        assert word in place.effects or "may or may not" in content
    return place


POINTS = [
    *(f"store_before_commit:{number}" for number in range(2, COMMITS + 1)),
    *(f"store_after_commit:{number}" for number in range(1, COMMITS + 1)),
    "started_before_commit", "started_after_commit:2", "request_before_send:2", "stream_mid",
    "reply_before_commit:2", "tool_ran", "tool_ran:2",
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
async def test_a_run_killed_at_any_point_is_finished_by_a_resume(tmp_path: Path, point: str) -> None:
    await trial(tmp_path, point)


async def test_two_crashes_in_a_row_are_survived(tmp_path: Path) -> None:
    await trial(tmp_path, "tool_ran", "store_before_commit", "store_after_commit:2")


async def test_a_call_that_was_running_is_reported_and_not_repeated(tmp_path: Path) -> None:
    place = await trial(tmp_path, "tool_ran")
    assert place.effects == ["one", "two"]


async def test_a_finished_call_is_not_run_again(tmp_path: Path) -> None:
    place = await trial(tmp_path, "store_after_commit:4")
    assert place.effects == ["one", "two"]


async def test_a_crash_while_compressing_is_survived(tmp_path: Path) -> None:
    def full_once(request: Request) -> Answer:
        text = request.raw.decode()
        if "Below is the older part" in text:
            return say("one was written")
        if "Summary of what came before" in text:
            return say("that was long")
        if '"role":"tool"' in text.replace(" ", ""):
            return fail(400, "too long", code="context_length_exceeded")
        return call("run_shell_command", command="echo one >> effects.txt; seq 1 2000")

    with ModelServer(full_once) as server:
        place = Place(tmp_path, server, str(uuid.uuid4()))
        assert await place.start("compaction_mid") == -signal.SIGKILL
        code, result = await place.resume()
        assert (code, result["result"], server.rejections) == (0, "that was long", [])
    assert place.effects == ["one"]


async def test_sigterm_ends_the_run_resumable_and_leaves_no_process(tmp_path: Path) -> None:
    def one_long(request: Request) -> Answer:
        results = [message for message in request.body["messages"] if message["role"] == "tool"]
        return say("stopped") if results else call("run_shell_command", command="sleep 61.5; sleep 61.5")

    with ModelServer(one_long) as server:
        place = Place(tmp_path, server, str(uuid.uuid4()))
        run = asyncio.create_task(place.start(""))
        pid = await _running("sleep\x0061.5")
        os.kill(await _parent_sandbur(place), signal.SIGTERM)
        assert await run == 143
        assert not Path(f"/proc/{pid}").exists()
        code, result = await place.resume()
        assert (code, result["result"]) == (0, "stopped")
        told = server.requests[-1].body["messages"][-1]["content"]
        assert "nterrupted" in told


async def _running(command: str) -> int:
    """Wait until a process with this command line exists."""
    async with asyncio.timeout(20):
        while True:
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    if (path / "cmdline").read_text().rstrip("\0") == command:
                        return int(path.name)
                except OSError:
                    continue
            await asyncio.sleep(0.05)


async def _parent_sandbur(place: Place) -> int:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if place.session_id in words and "ui.cli" in words:
            return int(path.name)
    raise AssertionError("the run is not there")
