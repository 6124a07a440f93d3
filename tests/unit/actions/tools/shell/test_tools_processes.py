"""No process of a command outlives it, whatever it does; looked up in /proc."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.places import ROOT
from support.tools.processes import alive
from support.waiting import wait_for

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.tool import RunShellCommand

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")]


async def run(folder: Path, command: str, **options: object) -> ToolOutcome:
    tool = RunShellCommand()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"command": command, **options})), context)


NAPS = iter(range(70_000, 80_000))


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{next(NAPS)}.{os.getpid()}"


LEFT_BEHIND = {
    "in the background": "sleep {nap} &",
    "in a session of its own": "setsid sleep {nap} &",
    "after two forks": "(setsid sh -c 'sleep {nap} & sleep {nap} & exit' &)",
    "deaf to SIGTERM": "sh -c 'trap \"\" TERM HUP INT; sleep {nap}; sleep {nap}' &",
    "deaf in a session of its own": "setsid sh -c 'trap \"\" TERM HUP INT; sleep {nap}; sleep {nap}' &",
    "with no environment": "env -i setsid sleep {nap} &",
    "by nohup with its output elsewhere": "nohup sleep {nap} >/dev/null 2>&1 &",
    "stopped": "sleep {nap} & kill -STOP $!",
}


@pytest.mark.parametrize("command", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
async def test_what_a_command_leaves_behind_is_killed_with_it(tmp_path: Path, nap: str, command: str):
    began = time.monotonic()
    outcome = await run(tmp_path, command.format(nap=nap) + "\nsleep 0.1; echo over")
    assert time.monotonic() - began < 10
    assert alive(nap) == []
    assert outcome.outcome == "ok"
    assert "left in the background: " in outcome.content
    assert outcome.content.startswith("over\n[killed ")


async def test_a_timeout_kills_every_descendant(tmp_path: Path, nap: str):
    began = time.monotonic()
    outcomes = await asyncio.gather(
        *(
            run(tmp_path, command.format(nap=nap) + f"\nsleep {nap}", timeout_s=1)
            for command in LEFT_BEHIND.values()
        )
    )
    assert time.monotonic() - began < 10
    assert {outcome.outcome for outcome in outcomes} == {"timeout"}
    assert alive(nap) == []


async def test_a_cancellation_waits_until_everything_is_dead(tmp_path: Path, nap: str):
    command = f"trap '' TERM INT HUP; setsid sleep {nap} & sleep {nap}; sleep {nap}"
    task = asyncio.create_task(run(tmp_path, command))
    await asyncio.to_thread(wait_for, lambda: len(alive(nap)) >= 3)
    began = time.monotonic()
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(nap) == []
    assert time.monotonic() - began < 10


async def test_a_command_that_stops_itself_is_ended_by_the_timeout(tmp_path: Path):
    began = time.monotonic()
    outcome = await run(tmp_path, "kill -STOP $$; echo never", timeout_s=1)
    assert outcome.outcome == "timeout"
    assert time.monotonic() - began < 10


async def test_a_command_that_kills_its_supervisor_leaves_nothing(tmp_path: Path, nap: str):
    began = time.monotonic()
    outcome = await run(tmp_path, f"setsid sleep {nap} & kill -9 $PPID; sleep {nap}")
    assert time.monotonic() - began < 10
    assert outcome.outcome == "error"
    assert "the supervisor of this command was killed" in outcome.content
    assert outcome.content.endswith("exit code: unknown")
    assert alive(nap) == []


async def test_a_search_for_processes_to_kill_does_not_find_the_supervisor(tmp_path: Path, nap: str):
    outcome = await run(tmp_path, f"pkill -KILL -f 'sleep {nap}'; echo {nap}")
    assert outcome.content.endswith("exit code: 137 (killed by SIGKILL)")


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_right_after_the_start_leaves_nothing(tmp_path: Path, nap: str, turns: int):
    task = asyncio.create_task(run(tmp_path, f"sleep {nap}"))
    for _ in range(turns):
        await asyncio.sleep(0)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 10
    assert alive(nap) == []


async def test_a_stopped_supervisor_does_not_hold_up_the_timeout(tmp_path: Path, nap: str):
    tool_run = asyncio.create_task(run(tmp_path, f"kill -STOP $PPID; sleep {nap}", timeout_s=1))
    async with asyncio.timeout(4):
        outcome = await tool_run
    assert outcome.outcome == "timeout"
    assert alive(nap) == []


async def test_a_flood_of_processes_is_stopped(tmp_path: Path, nap: str):
    began = time.monotonic()
    outcome = await run(tmp_path, f"for n in $(seq 1 6000); do sleep {nap} & done; wait")
    assert outcome.outcome == "error"
    assert "[killed: it had started 1" in outcome.content
    assert "processes at once]" in outcome.content
    assert alive(nap) == []
    assert time.monotonic() - began < 10


async def test_output_written_at_the_very_end_is_not_lost(tmp_path: Path):
    outcome = await run(tmp_path, "exec > >(sleep 0.05; cat); echo through a helper")
    assert outcome == ToolOutcome("ok", "through a helper\nexit code: 0")


AGENT = """
import asyncio, sys
from pathlib import Path
from sandbur.actions.ports import ToolContext
from sandbur.actions.tools.shell.tool import RunShellCommand
tool = RunShellCommand()
context = ToolContext("c1", Path("/"), lambda text: None)
asyncio.run(tool.run(tool.parse(sys.argv[1]), context))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_agent_by_more_than_a_second(nap: str, number: signal.Signals):
    command = (
        f"trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep {nap}; sleep {nap}' &); sleep {nap}"
    )
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, json.dumps({"command": command})],
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    ) as agent:
        wait_for(lambda: sum(line.startswith("sleep") for line in alive(nap)) == 2)
        os.kill(agent.pid, number)
        agent.wait(10)
        wait_for(lambda: not alive(nap))
