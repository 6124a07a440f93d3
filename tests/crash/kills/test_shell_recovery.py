"""An agent dies while a command runs: nothing of the command lives on, and what came of it can be told."""

import asyncio
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands.warm_process import WarmProcess
from support.tools.processes import alive, below, parent_of, state_of, supervisors
from support.tools.sandboxes import KINDS, require
from support.victims.victims import start_victim
from support.waiting import wait_for

from sandbur.actions.ports import Recovered, ToolContext, ToolOutcome
from sandbur.actions.tools.shell.execution.abandoned import this_boot
from sandbur.actions.tools.shell.execution.process import PROGRAM
from sandbur.actions.tools.shell.execution.supervisor_pool import PACKAGE
from sandbur.actions.tools.shell.tool import RunShellCommand

pytestmark = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")


@dataclass
class Trial:
    """A process that runs a command as the agent does, and can be killed."""

    folder: Path
    nap: str
    agent: WarmProcess | None = None
    arguments: str = ""
    sandbox: str = ""

    def start(self, command: str, crash_at: str = "", idle_s: float = 300, **options: object) -> None:
        self.arguments = json.dumps({"command": command.format(nap=self.nap), **options})
        own = {
            "FOLDER": str(self.folder),
            "ARGUMENTS": self.arguments,
            "IDLE_S": str(idle_s),
            "SANDBOX": self.sandbox,
        }
        self.agent = start_victim("shell_victim", {**os.environ, **own, "SANDBUR_CRASH_AT": crash_at})

    @property
    def scratch(self) -> Path:
        return self.folder / "calls" / "c1"

    @property
    def output(self) -> bytes:
        path = self.scratch / "output"
        return path.read_bytes() if path.exists() else b""

    @property
    def supervisor(self) -> int:
        assert self.agent is not None
        [found] = supervisors(self.agent.pid)
        return found

    def wait_for_processes(self) -> None:
        """Wait for the output, which comes first, and for what sleeps."""
        wait_for(lambda: b"so far" in self.output and self.sleeping)

    @property
    def sleeping(self) -> bool:
        return any(line.startswith("sleep") for line in alive(self.nap))

    def kill(self, *others: int) -> None:
        assert self.agent is not None
        # Whoever of them is stopped cannot see that the others die.
        for pid in (*others, self.agent.pid):
            os.kill(pid, signal.SIGSTOP)
        for pid in (*others, self.agent.pid):
            os.kill(pid, signal.SIGKILL)
        self.agent.wait(10)

    def recover(self) -> Recovered:
        return asyncio.run(self._recover())

    async def _recover(self) -> Recovered:
        tool = RunShellCommand()
        context = ToolContext("c1", self.folder, lambda text: None, self.scratch)
        return await tool.recover(tool.parse(self.arguments), context)

    def record(self) -> str:
        wait_for(self.scratch.joinpath("ended").exists)
        return self.scratch.joinpath("ended").read_text()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    # A number of seconds that no other process sleeps.
    trial = Trial(tmp_path, f"8{secrets.randbelow(10**6):06}.{os.getpid()}")
    yield trial
    if trial.agent is not None:
        trial.agent.kill()
        trial.agent.communicate()


@pytest.fixture(params=["", *KINDS], ids=["no sandbox", *KINDS])
def confined(request: pytest.FixtureRequest, trial: Trial) -> Trial:
    """A trial whose command runs in a sandbox, or in none."""
    kind = request.param
    if kind:
        require(kind)
    trial.sandbox = kind
    return trial


TREES = {
    "plain": "sleep {nap}",
    "in a session of its own": "setsid sleep {nap} & sleep {nap}",
    "after two forks": "(setsid sh -c 'sleep {nap} & sleep {nap} & exit' &); sleep {nap}",
    "deaf": "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep {nap}; sleep {nap}' & sleep {nap}; :",
    "with no environment": "env -i setsid sleep {nap} & sleep {nap}",
    "stopped": "sleep {nap} & kill -STOP $!; sleep {nap}",
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_killed_agent_takes_the_command_along_and_the_record_says_so(confined: Trial, tree: str):
    trial = confined
    trial.start("echo so far; " + tree)
    trial.wait_for_processes()
    began = time.monotonic()
    trial.kill()
    wait_for(lambda: not alive(trial.nap))
    assert time.monotonic() - began < 10
    assert "stopped agent\n" in trial.record()
    found = trial.recover()
    assert (found.outcome, found.output) == (None, "so far\n")
    assert found.note.startswith("It was stopped ")
    assert found.note.endswith(" s after its start because the agent was gone.")


@pytest.mark.parametrize("tree", [tree for name, tree in TREES.items() if name != "with no environment"])
def test_what_outlives_agent_and_supervisor_is_killed_by_the_recovery(confined: Trial, tree: str):
    trial = confined
    trial.start("echo so far; " + tree)
    trial.wait_for_processes()
    trial.kill(trial.supervisor)
    found = trial.recover()
    wait_for(lambda: not alive(trial.nap))
    assert (found.outcome, found.output) == (None, "so far\n")
    assert found.note.startswith("Its end is not recorded")


def test_a_command_that_ended_before_the_agent_could_hear_of_it_has_its_true_result(confined: Trial):
    trial = confined
    trial.start("echo out; exit 7")
    assert trial.agent is not None
    wait_for(lambda: b"out" in trial.output)
    os.kill(trial.agent.pid, signal.SIGSTOP)
    assert "status 7\n" in trial.record()
    trial.kill()
    assert trial.recover() == Recovered(
        ToolOutcome(
            "error",
            "out\n[the agent had died before the command ended; the supervisor of the command recorded"
            " its end]\n"
            "exit code: 7",
        )
    )


def test_a_command_that_is_just_finishing_may_finish_when_the_agent_dies(trial: Trial):
    trial.start("echo out; read x < fifo; echo more; exit 3")
    os.mkfifo(trial.folder / "fifo")
    wait_for(lambda: b"out" in trial.output)
    with trial.folder.joinpath("fifo").open("w"):
        trial.kill()
    assert "stopped" not in trial.record()
    found = trial.recover().outcome
    assert found is not None
    assert (found.outcome, found.content.splitlines()[-1]) == ("error", "exit code: 3")


def test_a_limit_that_struck_is_told_as_if_the_agent_had_been_there(trial: Trial):
    trial.start("echo out; trap 'sleep 0.2; exit' TERM; sleep {nap}", idle_s=0.3)
    assert trial.agent is not None
    wait_for(lambda: b"out" in trial.output)
    wait_for(lambda: trial.sleeping)
    wait_for(lambda: not trial.sleeping)
    os.kill(trial.agent.pid, signal.SIGSTOP)
    assert "stopped idle\n" in trial.record()
    trial.kill()
    found = trial.recover().outcome
    assert found is not None
    assert found.outcome == "timeout"
    assert "without any output]" in found.content


def test_an_agent_that_dies_right_after_the_start_never_began(trial: Trial):
    trial.start("touch done", crash_at="spawned")
    assert trial.agent is not None
    assert trial.agent.wait(20) == -signal.SIGKILL
    found = trial.recover()
    assert found.outcome is not None
    assert found.outcome.content.startswith("The command was not run: ") is found.is_not_started
    assert trial.folder.joinpath("done").exists() is not found.is_not_started


def test_the_output_until_the_agent_died_is_there(trial: Trial):
    trial.start("echo first; sleep {nap}", crash_at="effect_mid")
    assert trial.agent is not None
    assert trial.agent.wait(20) == -signal.SIGKILL
    assert trial.recover().output == "first\n"


def test_what_was_left_before_a_restart_of_the_machine_proves_nothing(trial: Trial):
    scratch = trial.scratch
    scratch.mkdir(parents=True, mode=0o700)
    trial.arguments = '{"command": "touch done"}'
    for name in ("ready-abc", "started"):
        scratch.joinpath(name).write_text("abc\nanother-boot")
        scratch.joinpath("output").write_text("a part")
        scratch.joinpath("ended").write_text("")
        found = trial.recover()
        assert (found.outcome, found.is_not_started) == (None, False)
        assert "restarted" in found.note


@pytest.mark.parametrize("kept", ["", "abc", "abc\n", f"abc\n{this_boot()[:9]}"])
@pytest.mark.parametrize("name", ["ready-abc", "started"])
def test_a_file_that_a_full_disk_cut_is_no_sign_of_a_restart(trial: Trial, name: str, kept: str):
    trial.scratch.mkdir(parents=True, mode=0o700)
    trial.arguments = '{"command": "touch done"}'
    trial.scratch.joinpath(name).write_text(kept)
    trial.scratch.joinpath("output").write_text("a part")
    found = trial.recover()
    assert (found.outcome, found.is_not_started) == (None, False)
    assert "restarted" not in found.note
    assert "incomplete" in found.note


def test_an_agent_that_wakes_up_after_the_recovery_starts_nothing(trial: Trial):
    scratch = trial.scratch
    scratch.mkdir(parents=True, mode=0o700)
    scratch.joinpath("ready-abc").write_text(f"abc\n{this_boot()}")
    scratch.joinpath("output").touch()
    trial.arguments = '{"command": "touch done"}'
    assert trial.recover().is_not_started
    own = {"SANDBUR_COMMAND": "touch done", "SANDBUR_FOLDER": str(scratch), "SANDBUR_CALL": "abc"}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM, PACKAGE, "/bin/sh", "1000", "-1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=trial.folder, env=os.environ | own,
    ) as late:  # fmt: skip
        assert late.stdout is not None
        assert late.stdout.read() == b"refused\n"
    assert not trial.folder.joinpath("done").exists()


def test_recovery_waits_for_nobody_and_can_be_repeated(trial: Trial):
    trial.arguments = '{"command": "true"}'
    assert trial.recover() == Recovered(None)
    trial.start("echo so far; setsid sleep {nap}; :")
    trial.wait_for_processes()
    wait_for(lambda: b"so far" in trial.output)
    trial.kill(trial.supervisor)
    began = time.monotonic()
    first = trial.recover()
    assert time.monotonic() - began < 10
    assert not alive(trial.nap)
    assert trial.recover().output == first.output == "so far\n"


def test_a_stopped_supervisor_is_waited_for_a_moment_only(trial: Trial):
    trial.start("echo so far; setsid sleep {nap}; :")
    trial.wait_for_processes()
    wait_for(lambda: b"so far" in trial.output)
    # The zygote would let it go on.
    zygote = parent_of(trial.supervisor)
    os.kill(trial.supervisor, signal.SIGSTOP)
    trial.kill(zygote)
    began = time.monotonic()
    found = trial.recover()
    assert time.monotonic() - began < 10
    assert found.output == "so far\n"
    wait_for(lambda: not alive(trial.nap))


def test_a_stopped_supervisor_goes_on_when_the_agent_is_gone_and_records_the_end(trial: Trial):
    os.mkfifo(trial.folder / "pipe")
    trial.start("echo so far; setsid sleep {nap} & read line < pipe")
    trial.wait_for_processes()
    supervisor = trial.supervisor
    [shell] = [pid for pid in below(supervisor) if parent_of(pid) == supervisor]
    os.kill(supervisor, signal.SIGSTOP)
    trial.folder.joinpath("pipe").write_text("over\n")
    wait_for(lambda: state_of(shell) == "Z")
    trial.kill()
    found = trial.recover()
    assert found.outcome is not None
    assert "so far" in found.outcome.content
    wait_for(lambda: not alive(trial.nap))


def test_nobody_else_can_read_what_a_command_writes(trial: Trial):
    trial.start("echo secret; sleep {nap}")
    wait_for(lambda: b"secret" in trial.output)
    trial.kill()
    trial.record()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in trial.scratch.iterdir()}
    assert modes == {"output": 0o600, "started": 0o600, "ended": 0o600}
    assert stat.S_IMODE(trial.scratch.stat().st_mode) == 0o700
    assert stat.S_IMODE(trial.scratch.parent.stat().st_mode) == 0o700
