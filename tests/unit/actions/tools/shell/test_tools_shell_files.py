"""What a shell command did to the files of the workspace is told with its result, also after a crash."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import PYTHONPATH

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.tool import RunShellCommand
from sandbur.actions.workspace.snapshot import MAX_FILE_BYTES


class Workspace:
    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "ws", folder / "home"
        self.tool = RunShellCommand()
        self.calls = 0
        self.has_output = asyncio.Event()
        self.root.mkdir(exist_ok=True)

    def context(self, call: str) -> ToolContext:
        return ToolContext(
            call, self.root, lambda text: self.has_output.set(),
            scratch=self.home / "scratch" / call, cache=self.home / "snapshots", private=(self.home,),
        )  # fmt: skip

    async def run(self, command: str, **options: object) -> ToolOutcome:
        self.calls += 1
        arguments = self.tool.parse(json.dumps({"command": command, **options}))
        return await self.tool.run(arguments, self.context(f"c{self.calls}"))


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


async def test_changed_new_and_removed_files_come_with_the_result(ws: Workspace):
    ws.root.joinpath("a").write_text("old")
    ws.root.joinpath("b").write_text("gone")
    outcome = await ws.run("printf new > a; rm b; mkdir d; printf more > d/c")
    changes = {Path(change.path).name: (change.before, change.after) for change in outcome.changed.changes}
    assert changes == {
        "a": (digest("old"), digest("new")),
        "b": (digest("gone"), None),
        "c": (None, digest("more")),
    }
    assert outcome.changed.pre_images == {digest("old"): b"old", digest("gone"): b"gone"}
    assert outcome.content == "(no output)\nexit code: 0"


async def test_a_command_that_failed_or_was_too_late_has_its_changes_told(ws: Workspace):
    failed = await ws.run("echo > a; exit 1")
    late = await ws.run("echo > b; sleep 60", timeout_s=1)
    assert [Path(change.path).name for outcome in (failed, late) for change in outcome.changed.changes] == [
        "a",
        "b",
    ]


async def test_an_interrupted_command_has_its_changes_told(ws: Workspace):
    task = asyncio.create_task(ws.run("echo > a; echo made; sleep 60"))
    await asyncio.wait_for(ws.has_output.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert [Path(change.path).name for change in caught.value.args[1].changes] == ["a"]


async def test_a_command_that_only_reads_is_not_watched(ws: Workspace):
    ws.root.joinpath("a").write_text("old")
    assert (await ws.run("cat a")).changed.changes == ()
    assert not (ws.home / "snapshots").exists()


async def test_what_cannot_be_undone_is_said_once(ws: Workspace):
    ws.root.joinpath("big").write_bytes(bytes(MAX_FILE_BYTES + 1))
    first, second = await ws.run("echo > a"), await ws.run("echo > b")
    assert "[Not every change of files can be undone: " in first.content
    assert first.content.endswith("]\nexit code: 0")
    assert second.content == "(no output)\nexit code: 0"


async def test_a_place_that_takes_no_snapshot_does_not_stop_the_command(ws: Workspace):
    ws.home.mkdir()
    ws.home.joinpath("snapshots").touch()
    outcome = await ws.run("echo out; touch a")
    assert outcome.outcome == "ok"
    assert outcome.content.startswith("out\n[Changes of files cannot be undone: they cannot be recorded (")


AGENT = """
import asyncio, os
from pathlib import Path
from test_tools_shell_files import Workspace
ws = Workspace(Path(os.environ["FOLDER"]))
asyncio.run(ws.run(os.environ["COMMAND"]))
"""


def test_a_crash_does_not_lose_what_the_command_changed(ws: Workspace):
    ws.root.joinpath("a").write_text("old")
    command = "printf new > a; echo made; sleep 60"
    own = {"FOLDER": str(ws.root.parent), "COMMAND": command, "SANDBUR_CRASH_AT": "effect_mid"}
    path = {"PYTHONPATH": f"{Path(__file__).parent}:{PYTHONPATH}"}
    agent = subprocess.run(
        [sys.executable, "-c", AGENT], env=os.environ | own | path, timeout=120, check=False
    )
    assert agent.returncode == -signal.SIGKILL
    arguments = ws.tool.parse(json.dumps({"command": command}))
    found = asyncio.run(ws.tool.recover(arguments, ws.context("c1")))
    assert (found.outcome, found.output) == (None, "made\n")
    assert [(Path(change.path).name, change.after) for change in found.changed.changes] == [
        ("a", digest("new"))
    ]
    assert found.changed.pre_images == {digest("old"): b"old"}
