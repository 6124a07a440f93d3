"""What has run wild in a sandbox is ended, and nothing of a command outlives it there either."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tools.processes import alive
from support.tools.sandboxes import KINDS, open_sandbox, run

from sandbur.actions.tools.shell.sandbox.plan import ResourceLimits
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
PYTHON = os.path.realpath(sys.executable)
SMALL = ResourceLimits(memory_bytes=300_000_000, processes=400, file_bytes=1_000_000, cpu_s=1)


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    with open_sandbox(request.param, [tmp_path], tmp_path / "home", limits=SMALL) as sandbox:
        yield sandbox


async def test_a_memory_bomb_is_ended(tmp_path: Path, sandbox: Sandbox):
    outcome = await run(sandbox, tmp_path, f"{PYTHON} -c 'x = bytearray(400_000_000); print(\"full\")'")
    assert outcome.outcome == "error"
    assert "MemoryError" in outcome.content
    fine = await run(sandbox, tmp_path, f"{PYTHON} -c 'x = bytearray(100_000_000); print(\"fine\")'")
    assert fine.content == "fine\nexit code: 0"


async def test_a_large_file_is_ended_where_it_is_too_large(tmp_path: Path, sandbox: Sandbox):
    outcome = await run(sandbox, tmp_path, "head -c 5000000 /dev/zero > large")
    assert outcome.outcome == "error"
    assert tmp_path.joinpath("large").stat().st_size == 1_000_000


async def test_what_only_takes_time_is_ended(tmp_path: Path, sandbox: Sandbox):
    outcome = await run(sandbox, tmp_path, "while :; do :; done", timeout_s=60)
    assert outcome.outcome == "error"
    assert outcome.content.splitlines()[-1].startswith(("exit code: 137", "exit code: 152"))


async def test_a_flood_of_processes_is_ended_with_all_of_it(tmp_path: Path, sandbox: Sandbox):
    nap = f"7{time.time_ns() % 10**6:06}.{os.getpid()}"
    began = time.monotonic()
    # Bounded by itself: no test may depend on a limit to keep the machine alive (root has none).
    part = f"setsid sh -c 'for n in $(seq 300); do sleep {nap} & done; wait' &"
    outcome = await run(sandbox, tmp_path, f"for part in 1 2 3 4 5; do {part} done; wait", timeout_s=20)
    assert outcome.outcome in ("error", "timeout")
    assert time.monotonic() - began < 60
    assert alive(nap) == []


LEFT_BEHIND = {
    "in the background": "sleep {nap} &",
    "after two forks": "(setsid sh -c 'sleep {nap} & sleep {nap} & exit' &)",
    "deaf in a session of its own": "setsid sh -c 'trap \"\" TERM HUP INT; sleep {nap}; sleep {nap}' &",
    "with no environment": "env -i setsid sleep {nap} &",
}


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
async def test_what_a_command_leaves_behind_is_killed_and_told(
    tmp_path: Path, sandbox: Sandbox, command: str
):
    nap = f"7{time.time_ns() % 10**6:06}.{os.getpid()}"
    outcome = await run(sandbox, tmp_path, command.format(nap=nap) + "\nsleep 0.1; echo over")
    assert alive(nap) == []
    assert outcome.content.startswith("over\n[killed ")
    assert "bwrap" not in outcome.content


async def test_a_timeout_ends_all_of_it(tmp_path: Path, sandbox: Sandbox):
    nap = f"7{time.time_ns() % 10**6:06}.{os.getpid()}"
    command = "".join(one.format(nap=nap) + "\n" for one in LEFT_BEHIND.values()) + f"echo on; sleep {nap}"
    outcome = await run(sandbox, tmp_path, command, timeout_s=1)
    assert (outcome.outcome, outcome.content.splitlines()[0]) == ("timeout", "on")
    assert alive(nap) == []


async def test_a_cancellation_waits_until_all_of_it_is_dead(tmp_path: Path, sandbox: Sandbox):
    nap = f"7{time.time_ns() % 10**6:06}.{os.getpid()}"
    task = asyncio.create_task(run(sandbox, tmp_path, f"trap '' TERM; setsid sleep {nap} & sleep {nap}; :"))
    while not any(line.startswith("sleep") for line in alive(nap)):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(nap) == []


async def test_output_at_the_very_end_and_the_exit_code_are_not_lost(tmp_path: Path, sandbox: Sandbox):
    outcome = await run(sandbox, tmp_path, "exec > >(sleep 0.05; cat); echo through a helper; exit 7")
    assert outcome.content == "through a helper\nexit code: 7"


async def test_a_command_inherits_no_file_of_the_agent(tmp_path: Path, sandbox: Sandbox):
    outcome = await run(sandbox, tmp_path, "ls /proc/$$/fd")
    # The shell has become `ls`, which opens the folder.
    assert [line for line in outcome.content.split("\n") if line.isdigit()] == ["0", "1", "2", "3"]


async def test_nothing_stays_open_or_behind(tmp_path: Path, sandbox: Sandbox):
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await run(sandbox, tmp_path, "true")
    before = open_files()
    for _ in range(3):
        await run(sandbox, tmp_path, "echo a > /tmp/a")
    assert open_files() == before
    folder = sandbox.plan().temp
    assert folder.joinpath("a").exists()
    sandbox.close()
    assert not folder.exists()
