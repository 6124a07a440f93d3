"""Supervisors that wait for orders: whoever dies, and when, a command runs once and the truth is told."""

import asyncio
import json
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.commands.warm_process import WarmProcess
from support.tools.processes import below, open_files, parent_of, supervisors
from support.tools.sandboxes import KINDS, require
from support.victims.victims import start_victim
from support.waiting import wait_for

from sandbur.actions.ports import Recovered, ToolContext
from sandbur.actions.tools.shell.tool import RunShellCommand

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each command has its own program")

SPARE_S = 0.5
"""What is meant to stay as it is has so long to change."""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def alike(pid: int, parent: int) -> bool:
    """Tell whether a fork still has the very files of its parent: then it has not come far."""
    return open_files(pid) == open_files(parent)


@dataclass
class Agent:
    """A process that runs the commands it is told, one after the other."""

    folder: Path
    nap: str
    process: WarmProcess | None = None
    commands: int = 0
    seen: frozenset[int] = frozenset()

    def start(self, sandbox: str = "", first: str = "", **variables: str) -> None:
        self.begin(sandbox, first, **variables)
        assert self.run("echo ready") == "ready\nexit code: 0"
        wait_for(lambda: self.spare)
        self.notice()

    def begin(self, sandbox: str = "", first: str = "", **variables: str) -> None:
        own = {"FOLDER": str(self.folder), "SANDBOX": sandbox, "FIRST": first, **variables}
        self.process = start_victim("commands_victim", {**os.environ, **own})

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def zygote(self) -> int:
        [found] = [pid for pid in below(self.pid) if parent_of(pid) == self.pid and is_alive(pid)]
        return found

    @property
    def spare(self) -> int:
        """The supervisor that waits for an order; 0 if there is none."""
        waiting = [pid for pid in below(self.zygote) if "SANDBUR_CALL=" + "0" * 16 in environment(pid)]
        return waiting[0] if waiting and self.is_ready(waiting[0]) else 0

    @staticmethod
    def is_ready(pid: int) -> bool:
        """Tell whether a process below the zygote has told the agent of itself, and hears what comes."""
        return any("socket" in name for name in open_files(pid)) and not alike(pid, parent_of(pid))

    @property
    def scratch(self) -> Path:
        return self.folder / "calls" / f"c{self.commands - 1}"

    def notice(self) -> None:
        """Remember who is there now, to be looked for later."""
        self.seen |= {self.pid, *below(self.pid)}

    def tell(self, command: str, **options: object) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        told = json.dumps({"command": command.format(nap=self.nap), **options})
        self.process.stdin.write(told + "\n")
        self.process.stdin.flush()
        self.commands += 1

    def answer(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return eval(self.process.stdout.readline())

    def run(self, command: str, **options: object) -> str:
        self.tell(command, **options)
        return self.answer()

    def kill(self, *others: int) -> None:
        """Kill the agent and others, none of whom sees the others die."""
        self.notice()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (*others, self.pid):
                os.kill(pid, number)
        assert self.process is not None
        self.process.wait(20)

    def recover(self) -> Recovered:
        tool = RunShellCommand()
        context = ToolContext("c", self.folder, lambda text: None, self.scratch)
        return asyncio.run(tool.recover(tool.parse('{"command": "true"}'), context))

    def assert_nothing_is_left(self) -> None:
        wait_for(lambda: not [pid for pid in self.seen if is_alive(pid)])
        wait_for(lambda: not self.sleeping)

    @property
    def sleeping(self) -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if path.read_bytes() == f"sleep\0{self.nap}\0".encode():
                    return True
        return False

    @property
    def effects(self) -> str:
        path = self.folder / "effects"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    # A number of seconds that no other process sleeps.
    agent = Agent(tmp_path, f"8{secrets.randbelow(10**6):06}.{os.getpid()}")
    yield agent
    agent.notice()
    if agent.process is not None:
        agent.process.kill()
        agent.process.communicate()
    for pid in agent.seen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    agent.assert_nothing_is_left()


EFFECT = "echo once >> effects; echo done"
DONE = "done\nexit code: 0"


def test_a_spare_waits_and_takes_the_next_command(agent: Agent):
    agent.start()
    spare, zygote = agent.spare, agent.zygote
    agent.tell("echo begun > begun; read line < pipe; echo $line")
    os.mkfifo(agent.folder / "pipe")
    wait_for(agent.folder.joinpath("begun").exists)
    assert supervisors(agent.pid) == [spare]
    wait_for(lambda: agent.spare)
    assert agent.spare not in (0, spare)
    agent.folder.joinpath("pipe").write_text("over\n")
    assert agent.answer() == "over\nexit code: 0"
    wait_for(lambda: not is_alive(spare))
    assert agent.zygote == zygote


@pytest.mark.parametrize("victims", ["spare", "zygote", "zygote spare", "spare zygote"])
def test_a_command_runs_once_whoever_was_killed_before_it(agent: Agent, victims: str):
    agent.start()
    for pid in [getattr(agent, name) for name in victims.split()]:
        os.kill(pid, signal.SIGKILL)
    assert agent.run(EFFECT) == DONE
    assert agent.run(EFFECT) == DONE
    assert agent.effects == "once\nonce\n"
    wait_for(lambda: agent.spare)


@pytest.mark.parametrize("stopped", ["", "spare", "zygote", "zygote spare"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_spares_end_with_their_agent_also_when_they_are_stopped(
    agent: Agent, stopped: str, how: signal.Signals
):
    agent.start()
    agent.notice()
    for pid in [getattr(agent, name) for name in stopped.split()]:
        os.kill(pid, signal.SIGSTOP)
    os.kill(agent.pid, how)
    assert agent.process is not None
    agent.process.wait(20)
    agent.assert_nothing_is_left()


def test_an_agent_that_ends_by_itself_leaves_nothing(agent: Agent):
    agent.start()
    agent.notice()
    assert agent.process is not None
    _, _ = agent.process.communicate(timeout=20)
    assert agent.process.returncode == 0
    agent.assert_nothing_is_left()


def order_is_sent(agent: Agent, spare: int) -> None:
    """Give a command to a spare that is stopped, and wait until it has been told."""
    os.kill(spare, signal.SIGSTOP)
    agent.tell(EFFECT)
    # The one for the command after this is forked once the order is out.
    wait_for(lambda: [pid for pid in below(agent.zygote) if pid != spare and agent.is_ready(pid)])
    agent.notice()
    assert list(agent.scratch.glob("ready-*"))


@pytest.mark.parametrize("victims", ["spare", "zygote", "zygote spare"])
def test_a_command_whose_spare_died_with_the_order_is_started_once_by_another(agent: Agent, victims: str):
    agent.start()
    spare = agent.spare
    order_is_sent(agent, spare)
    for pid in [spare if name == "spare" else agent.zygote for name in victims.split()]:
        os.kill(pid, signal.SIGKILL)
    assert agent.answer() == DONE
    wait_for(lambda: not is_alive(spare))
    assert agent.effects == "once\n"


def test_a_command_whose_spare_does_not_stir_is_started_once_by_another(agent: Agent):
    agent.start()
    spare = agent.spare
    order_is_sent(agent, spare)
    assert agent.answer() == DONE
    wait_for(lambda: not is_alive(spare))
    assert agent.effects == "once\n"


def test_an_order_that_was_taken_back_is_never_carried_out(agent: Agent):
    """Not even by a spare that wakes up while the program runs the command."""
    agent.start()
    spare = agent.spare
    order_is_sent(agent, spare)
    [ready] = agent.scratch.glob("ready-*")
    ready.rename(ready.with_name("ready-" + "f" * 16))
    os.kill(spare, signal.SIGCONT)
    wait_for(lambda: not is_alive(spare))
    assert agent.answer() == "The command was not run: another process took the call over."
    assert agent.effects == ""


@pytest.mark.parametrize("wakes", [True, False])
@pytest.mark.parametrize("with_zygote", [True, False])
def test_an_agent_that_dies_between_order_and_claim_started_nothing(
    agent: Agent, with_zygote: bool, wakes: bool
):
    agent.start()
    spare, zygote = agent.spare, agent.zygote
    order_is_sent(agent, spare)
    agent.kill(*([zygote] if with_zygote else []))
    if wakes:
        with suppress(ProcessLookupError):
            os.kill(spare, signal.SIGCONT)
    agent.assert_nothing_is_left()
    found = agent.recover()
    assert found.is_not_started
    assert agent.effects == ""


def test_a_time_limit_strikes_also_while_an_order_waits(agent: Agent):
    agent.start()
    spare = agent.spare
    os.kill(spare, signal.SIGSTOP)
    agent.tell(EFFECT, timeout_s=1)
    began = time.monotonic()
    assert "[timed out: killed, with all its processes, after 1 s" in agent.answer()
    assert time.monotonic() - began < 3
    wait_for(lambda: not is_alive(spare))


def running(agent: Agent, command: str = "echo begun; setsid sleep {nap} & sleep {nap}") -> int:
    """Start a command that goes on; return its supervisor."""
    agent.tell(command)
    wait_for(lambda: (agent.scratch / "output").exists() and (agent.scratch / "output").read_text())
    wait_for(lambda: agent.sleeping)
    agent.notice()
    [found] = supervisors(agent.pid)
    return found


def test_a_running_command_outlives_the_zygote(agent: Agent):
    agent.start()
    os.mkfifo(agent.folder / "pipe")
    agent.tell("echo begun; read line < pipe; echo $line")
    wait_for(lambda: (agent.scratch / "output").exists() and (agent.scratch / "output").read_text())
    zygote = agent.zygote
    os.kill(zygote, signal.SIGKILL)
    wait_for(lambda: not is_alive(zygote))
    time.sleep(SPARE_S)
    agent.folder.joinpath("pipe").write_text("over\n")
    assert agent.answer() == "begun\nover\nexit code: 0"
    assert agent.run(EFFECT) == DONE


@pytest.mark.parametrize("sandbox", ["", *KINDS])
@pytest.mark.parametrize("with_zygote", [True, False])
def test_a_running_command_ends_with_its_agent_and_the_record_says_so(
    agent: Agent, sandbox: str, with_zygote: bool
):
    if sandbox:
        require(sandbox)
    agent.start(sandbox)
    running(agent)
    agent.kill(*([agent.zygote] if with_zygote else []))
    agent.assert_nothing_is_left()
    assert "stopped agent\n" in (agent.scratch / "ended").read_text()
    found = agent.recover()
    assert (found.outcome, found.output) == (None, "begun\n")
    assert found.note.endswith("because the agent was gone.")


def test_what_outlives_agent_zygote_and_supervisor_is_killed_by_the_recovery(agent: Agent):
    agent.start()
    supervisor = running(agent)
    agent.kill(agent.zygote, supervisor)
    found = agent.recover()
    agent.assert_nothing_is_left()
    assert (found.outcome, found.output) == (None, "begun\n")
    assert found.note.startswith("Its end is not recorded")


def test_a_stopped_supervisor_of_a_dead_agent_is_killed_by_the_recovery(agent: Agent):
    """It does not have the environment of its command, but shows its mark."""
    agent.start()
    supervisor = running(agent)
    os.kill(supervisor, signal.SIGSTOP)
    # Which would have it go on, and end its command.
    agent.kill(agent.zygote)
    assert agent.recover().note.startswith("Its end is not recorded. Its remaining processes were killed")
    assert not is_alive(supervisor)
    agent.assert_nothing_is_left()


def test_a_stopped_supervisor_of_a_dead_agent_goes_on_and_ends_its_command(agent: Agent):
    agent.start()
    os.kill(running(agent), signal.SIGSTOP)
    agent.kill()
    agent.assert_nothing_is_left()
    assert agent.recover().note.endswith("because the agent was gone.")


def test_a_killed_supervisor_means_an_unknown_end_and_the_next_command_runs(agent: Agent):
    agent.start()
    supervisor = running(agent)
    os.kill(supervisor, signal.SIGKILL)
    assert agent.answer().endswith("exit code: unknown")
    assert not agent.sleeping
    assert agent.run(EFFECT) == DONE
    assert agent.effects == "once\n"


@pytest.mark.parametrize("dies", ["supervisor", "supervisor and agent"])
def test_a_supervisor_that_dies_between_the_end_and_the_record_leaves_it_unknown(agent: Agent, dies: str):
    agent.start()
    os.mkfifo(agent.folder / "pipe")
    agent.tell("echo begun; read line < pipe; echo once >> effects")
    wait_for(lambda: (agent.scratch / "output").exists() and (agent.scratch / "output").read_text())
    [supervisor] = supervisors(agent.pid)
    os.kill(supervisor, signal.SIGSTOP)
    agent.folder.joinpath("pipe").write_text("over\n")
    wait_for(lambda: agent.effects == "once\n")
    if dies == "supervisor":
        os.kill(supervisor, signal.SIGKILL)
        assert agent.answer().endswith("exit code: unknown")
    else:
        agent.kill(supervisor)
        found = agent.recover()
        assert (found.outcome, found.output, found.is_not_started) == (None, "begun\n", False)
    assert agent.effects == "once\n"


@pytest.mark.parametrize("seed", range(int(os.environ.get("SANDBUR_SPARE_TRIALS", "12"))))
def test_whoever_is_killed_at_any_moment_a_command_runs_once_at_most_and_the_truth_is_told(
    agent: Agent, seed: int
):
    agent.start()
    chance = random.Random(seed)
    named = {"zygote": agent.zygote, "spare": agent.spare, "agent": agent.pid}
    victims = chance.sample(sorted(named), chance.randint(1, 3))
    agent.tell(EFFECT)
    time.sleep(chance.uniform(0, 0.02))
    agent.notice()
    for name in victims:
        with suppress(ProcessLookupError):
            os.kill(named[name], signal.SIGKILL)
    if "agent" in victims:
        assert agent.process is not None
        agent.process.wait(20)
        agent.assert_nothing_is_left()
        found = agent.recover()
        is_done = found.outcome is not None and found.outcome.outcome == "ok"
        is_known = found.outcome is not None
    else:
        told = agent.answer()
        is_done, is_known = told == DONE, "unknown" not in told
    assert agent.effects in ("", "once\n")
    if is_known:
        assert agent.effects == ("once\n" if is_done else "")


def test_who_waits_for_orders_holds_no_secret_and_a_command_gets_nothing_of_theirs(agent: Agent):
    agent.start(MY_TOKEN="not for everybody", OPENAI_API_KEY="for nobody")
    for pid in (agent.zygote, agent.spare):
        assert environment(pid) == ["SANDBUR_CALL=" + "0" * 16]
        assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert agent.run("echo $MY_TOKEN $OPENAI_API_KEY") == "not for everybody\nexit code: 0"
    seen = agent.run("tr '\\0' '\\n' < /proc/$PPID/environ; ls /proc/self/fd").splitlines()
    # The last is the folder that is listed.
    assert seen[1:5] == ["0", "1", "2", "3"]
    assert seen[0].startswith("SANDBUR_CALL=")
    assert seen[0] != "SANDBUR_CALL=" + "0" * 16
    assert seen[5:] == ["exit code: 0"]


@pytest.mark.parametrize("sandbox", KINDS)
def test_a_command_in_a_sandbox_has_the_open_files_that_it_had_without_spares(agent: Agent, sandbox: str):
    require(sandbox)
    agent.start(sandbox)
    assert agent.run("ls /proc/self/fd") == "0\n1\n2\n3\nexit code: 0"


def test_commands_at_once_have_a_supervisor_each(agent: Agent):
    agent.start()
    tool = RunShellCommand()

    async def both() -> list[str]:
        contexts = [
            ToolContext("c", agent.folder, lambda text: None, agent.folder / "at once" / str(number))
            for number in range(12)
        ]
        told = [tool.parse(json.dumps({"command": f"echo {number}"})) for number in range(12)]
        runs = (tool.run(arguments, context) for arguments, context in zip(told, contexts, strict=True))
        return [outcome.content for outcome in await asyncio.gather(*runs)]

    assert asyncio.run(both()) == [f"{number}\nexit code: 0" for number in range(12)]


REFUSING = """\
#!/bin/sh
case "$*" in *supervisor.zygote*) {instead};; esac
exec {python} "$@"
"""


@pytest.mark.parametrize("instead", ["exit 1", "exec sleep {nap}", "kill -9 $$"])
def test_where_no_zygote_can_be_each_command_starts_its_own_supervisor(agent: Agent, instead: str):
    python = agent.folder / "python"
    refused = instead.format(nap=agent.nap)
    python.write_text(REFUSING.format(instead=refused, python=sys.executable))
    python.chmod(0o700)
    agent.begin(first=f"sys.executable = {str(python)!r}")
    assert agent.run(EFFECT) == DONE
    began = time.monotonic()
    assert agent.run(EFFECT) == DONE
    # It is not tried again with each of them.
    assert time.monotonic() - began < 2.5
    assert agent.effects == "once\nonce\n"
    assert not agent.sleeping


def test_what_the_agent_changes_of_itself_holds_for_the_next_command(agent: Agent):
    agent.start(first="import threading; threading.Timer(1.5, os.umask, [0o027]).start()")
    before = agent.run("umask")
    time.sleep(2)
    assert (before, agent.run("umask")) == ("0022\nexit code: 0", "0027\nexit code: 0")


def test_a_fork_of_the_agent_has_spares_of_its_own(agent: Agent):
    agent.start()
    tool = RunShellCommand()

    def content(number: int) -> str:
        context = ToolContext("c", agent.folder, lambda text: None, agent.folder / "forked" / str(number))
        return asyncio.run(tool.run(tool.parse(json.dumps({"command": f"echo {number}"})), context)).content

    assert content(0).startswith("0\n")
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, content(1).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(hear) as told:
        assert told.read() == "1\nexit code: 0"
    os.waitpid(child, 0)
    assert content(2).startswith("2\n")


@pytest.mark.parametrize("stopped", ["", "zygote"])
def test_no_process_outlives_an_agent_and_a_supervisor_that_are_killed_at_once(agent: Agent, stopped: str):
    agent.start()
    # One that left the session, and one below it whose parent has ended.
    agent.tell(
        "setsid sh -c 'sleep {nap} & sleep {nap} & wait' & (setsid -f sleep {nap}); touch begun; sleep 600"
    )
    wait_for(agent.folder.joinpath("begun").exists)
    wait_for(lambda: agent.sleeping)
    supervisor = supervisors(agent.pid)
    assert supervisor
    if stopped:
        os.kill(agent.zygote, signal.SIGSTOP)
    agent.kill(*supervisor)
    agent.assert_nothing_is_left()


def test_what_a_killed_supervisor_watched_is_killed_while_the_agent_lives(agent: Agent):
    agent.start()
    agent.tell("(setsid -f sleep {nap}); touch begun; sleep 600")
    wait_for(agent.folder.joinpath("begun").exists)
    [supervisor] = supervisors(agent.pid)
    os.kill(supervisor, signal.SIGKILL)
    agent.answer()
    wait_for(lambda: not agent.sleeping)
    assert agent.run(EFFECT) == DONE
