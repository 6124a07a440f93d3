"""The output of a shell command is on disk whole, whatever becomes of the disk or of who reads it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT
from support.tools.small_disk import fill, mount_small_disk, needs_root
from support.waiting import wait_for

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.supervisor.claim import OUTPUT
from sandbur.actions.tools.shell.tool import RunShellCommand


async def run(folder: Path, command: str, scratch: Path, tool: RunShellCommand | None = None) -> ToolOutcome:
    tool = tool or RunShellCommand()
    context = ToolContext("c1", folder, lambda text: None, scratch=scratch)
    return await tool.run(tool.parse(json.dumps({"command": command})), context)


async def test_the_folder_of_a_call_holds_its_output_until_the_result_is_safe(tmp_path: Path):
    outcome = await run(tmp_path, "seq 100000", tmp_path / "c")
    assert tmp_path.joinpath("c", OUTPUT).read_bytes() == outcome.full_output
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["ended", "output", "started"]


async def test_a_folder_that_was_used_starts_nothing_twice(tmp_path: Path):
    assert (await run(tmp_path, "echo one >> done", tmp_path / "c")).outcome == "ok"
    again = await run(tmp_path, "echo two >> done", tmp_path / "c")
    assert again.content == "The command was not run: its output cannot be kept: file exists."
    assert tmp_path.joinpath("done").read_text() == "one\n"


async def test_an_output_may_be_opened_anew_and_loses_nothing(tmp_path: Path):
    outcome = await run(tmp_path, "echo one; echo two > /dev/stdout; echo three >&2", tmp_path / "c")
    assert outcome.content == "one\ntwo\nthree\nexit code: 0"


async def test_output_of_every_size_arrives_whole(tmp_path: Path):
    for number, size in enumerate((0, 1, 65_535, 65_536, 262_144, 262_145, 1_024_000, 1_024_001)):
        outcome = await run(tmp_path, f"head -c {size} /dev/zero | tr '\\0' x", tmp_path / f"c{number}")
        kept = tmp_path.joinpath(f"c{number}", OUTPUT).read_bytes()
        assert kept == b"x" * size
        assert outcome.full_output == (kept if size > 30_000 else None)


async def test_the_limit_is_exact(tmp_path: Path):
    tool = RunShellCommand(max_output_bytes=1000)
    fits = await run(tmp_path, "head -c 1000 /dev/zero | tr '\\0' x", tmp_path / "c1", tool)
    assert fits.content == "x" * 1000 + "\nexit code: 0"
    over = await run(tmp_path, "head -c 1001 /dev/zero | tr '\\0' x; sleep 20", tmp_path / "c2", tool)
    assert "[killed, with all its processes: it wrote more than" in over.content
    assert tmp_path.joinpath("c2", OUTPUT).stat().st_size == 1000


async def test_a_command_that_removes_the_folder_of_its_call_is_still_told_whole(tmp_path: Path):
    outcome = await run(tmp_path, "rm -r c; echo gone; exit 3", tmp_path / "c")
    assert outcome == ToolOutcome("error", "gone\nexit code: 3")


AGENT = """
import asyncio, os
from pathlib import Path
from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.tool import RunShellCommand
tool = RunShellCommand(max_output_bytes=200_000_000)
folder = Path(os.environ["FOLDER"])
context = ToolContext("c1", folder, lambda text: None, folder / "c")
outcome = asyncio.run(tool.run(tool.parse(os.environ["ARGUMENTS"]), context))
print(outcome.outcome, len(outcome.full_output))
"""


@pytest.mark.slow
def test_an_agent_that_stands_still_holds_up_no_command_and_misses_nothing(tmp_path: Path):
    arguments = json.dumps({"command": "echo begun; head -c 100000000 /dev/zero; touch done"})
    own = {"FOLDER": str(tmp_path), "ARGUMENTS": arguments}
    with subprocess.Popen(
        [sys.executable, "-c", AGENT], cwd=ROOT, env=os.environ | own, stdout=subprocess.PIPE
    ) as agent:
        wait_for((tmp_path / "c" / "started").exists)
        os.kill(agent.pid, signal.SIGSTOP)
        wait_for((tmp_path / "c" / "ended").exists)
        assert tmp_path.joinpath("done").exists()
        os.kill(agent.pid, signal.SIGCONT)
        out, _ = agent.communicate(timeout=120)
    assert out == b"ok 100000006\n"


@needs_root
@pytest.mark.parametrize("leave", [0, 100_000])
async def test_a_full_disk_ends_the_command_and_says_so(tmp_path: Path, leave: int):
    with mount_small_disk(tmp_path / "disk", "1m") as disk:
        fill(disk, leave)
        outcome = await run(tmp_path, "while :; do echo a line; done", disk / "c")
    assert outcome.outcome == "error"
    told = "its output could not be stored any more (No space left on device)"
    assert f"[killed, with all its processes: {told}]" in outcome.content or leave == 0
    assert "o space left on device" in outcome.content


def test_the_supervisor_imports_little_and_only_the_standard_library():
    code = "import sys; sys.path.append(sys.argv[1]); import supervisor.program"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", code, ROOT / "actions/tools/shell"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "supervisor.watch" in loaded
    assert not loaded & {"pathlib", "subprocess", "asyncio", "typing", "pydantic", "actions", "json", "re"}
    assert not loaded & {"ctypes", "enum", "functools", "collections", "contextlib", "signal"}
