"""Code whose process or supervisor is killed while its call runs: the call ends, and no process is left."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.required import lacks
from support.tools.processes import at_work_in, below, supervisors
from support.waiting import wait_for

from sandbur.actions.tools.python.code_process import CodeEnd, CodeProcess
from sandbur.actions.tools.python.confinement import CodeLimits
from sandbur.actions.tools.shell.sandbox.wall import WallKind, why_no_wall
from sandbur.state.conversation.messages import ToolResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
CODE = "print('began')\nask('A')\nask('B')"


@pytest.fixture(params=("landlock", "bubblewrap"))
def kind(request: pytest.FixtureRequest) -> WallKind:
    if trouble := why_no_wall(request.param):
        lacks(f"a sandbox of {request.param} does not work on this machine: {trouble}")
    return request.param


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def interpreters() -> list[int]:
    """Return the processes that run the code."""
    started = [pid for pid in below(os.getpid()) if _command(pid).count("exec(marshal.loads(") == 1]
    return [pid for pid in started if not below(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def run_and_kill(kind: WallKind, folder: Path, victims: Callable[[], list[int]]) -> tuple[CodeEnd, list[str]]:
    """Run code, and kill this process in its first call; return how it ended, and what it called.

    The call returns once nothing is at work any more: killed code makes no further call.
    """
    called: list[str] = []

    async def request(function: str, arguments: str) -> ToolResult:
        called.append(arguments)
        assert at_work_in(folder)
        (victim,) = victims()
        os.kill(victim, signal.SIGKILL)
        await asyncio.to_thread(wait_for, lambda: not at_work_in(folder), lambda: at_work_in(folder))
        return ToolResult(call_id="c1/1", tool=function, outcome="ok", content="fine")

    process = CodeProcess(kind, folder / "call", CodeLimits(timeout_s=30))
    end = asyncio.run(process.run(CODE, {"ask": ("question",)}, request, lambda text: None))
    return end, called


def test_the_call_ends_with_code_that_is_killed(kind: WallKind, folder: Path) -> None:
    end, called = run_and_kill(kind, folder, interpreters)
    assert called == ['{"question": "A"}']
    assert end.frame is None
    assert end.printed.text == "began\n"
    assert "killed by signal 9" in end.problem or "status 137" in end.problem


def test_code_ends_with_its_supervisor(kind: WallKind, folder: Path) -> None:
    end, called = run_and_kill(kind, folder, lambda: supervisors(os.getpid()))
    assert called == ['{"question": "A"}']
    assert end.frame is None
    assert end.problem
