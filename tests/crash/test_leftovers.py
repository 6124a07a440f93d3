"""What killed processes left behind goes with the next run; what belongs to living ones stays."""

import os
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.commands.command import Command
from support.samples.trial_folders import make_ended_trial
from support.tools.processes import parent_of, supervisors
from support.waiting import wait_for

from sandbur.state.process.identity import make_runner_name

WAIT_S = 120

pytestmark = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")


def killed_at(command: Command, point: str) -> str:
    """Kill a run of a command that changes files; return the session's id."""
    session_id = str(uuid.uuid4())
    words = ("-p", "run echo hi > made; echo there", "-m", "demo", "-y", "--session-id", session_id)
    assert command.run(*words, SANDBUR_CRASH_AT=point).code == -signal.SIGKILL
    return session_id


@pytest.mark.parametrize("words", [(), ("hello",)])
def test_the_next_run_removes_what_a_call_left_whose_result_is_on_disk(
    command: Command, words: tuple[str, ...]
) -> None:
    session_id = killed_at(command, "scratch_mid:1")
    scratch = command.folder / "data" / "scratch"
    assert [path.read_text() for path in scratch.rglob("output")] == ["there\n"]
    ended = command.run("-p", *words, "-r", session_id, "-y")
    assert ended.code == 0, ended.err
    assert list(scratch.rglob("*")) == []


def test_the_next_run_removes_half_a_content_and_not_that_of_a_living_process(command: Command) -> None:
    (command.folder / "content").write_text("a content to keep")
    killed_at(command, "content_mid:1")
    contents = command.folder / "data" / "snapshots" / "contents"
    [left] = contents.glob("tmp-*")
    living = contents / f"tmp-{make_runner_name()}"
    living.touch()
    index = contents.parent / f"tmp-{make_runner_name().replace(str(os.getpid()), '999999999')}"
    index.touch()
    assert command.run("-p", "hello", "-m", "demo").code == 0
    assert [left.exists(), index.exists(), living.exists()] == [False, False, True]


def change_files(folder: Path, word: str) -> None:
    (folder / "a.txt").write_text(word)
    (folder / "below").mkdir(exist_ok=True)
    (folder / "below" / "b.txt").write_text(word)
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to(f"{word}.txt")


def prepare_trial(command: Command) -> Path:
    workspace = command.folder / "ws"
    workspace.mkdir()
    change_files(workspace, "old")
    make_ended_trial(command.folder / "data", workspace, lambda copy: change_files(copy, "new"))
    return workspace


def prepare_undo(command: Command) -> tuple[str, ...]:
    words = ("t1", "--yes", "-C", str(prepare_trial(command)), "-m", "demo")
    assert command.run("try", "apply", *words).code == 0
    return ("try", "undo", *words)


def prepare_fork(command: Command) -> tuple[str, ...]:
    workspace = command.folder / "ws"
    workspace.mkdir()
    (workspace / "made.txt").write_text("before")
    words = ("-p", 'write "hi" to made.txt', "-m", "demo", "-y", "-C", str(workspace))
    ended = command.run(*words, "--output-format", "json")
    return ("fork", ended.result["session_id"], "--at", "0", "--files", "--yes", "-C", str(workspace))


WRITERS: dict[str, Callable[[Command], tuple[str, ...]]] = {
    "try apply": lambda command: (
        "try", "apply", "t1", "--yes", "-C", str(prepare_trial(command)), "-m", "demo"
    ),
    "try undo": prepare_undo,
    "fork --files": prepare_fork,
    "a setting": lambda command: ("config", "set", "model", "demo"),
    "a run": lambda command: ("-p", 'write "hi" to made.txt', "-m", "demo", "-y"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_the_next_command_removes_each_temporary_file_of_a_killed_one(command: Command, name: str) -> None:
    (command.folder / "data").mkdir(mode=0o700)
    words = WRITERS[name](command)
    kills = 0
    while (died := command.run(*words, SANDBUR_CRASH_AT=f"temporary_made:{kills + 1}")).code < 0:
        kills += 1
        found = [path for path in command.folder.rglob("*") if path.name.startswith(".sandbur-")]
        assert len(found) == 1
        assert command.run("trust").code == 0
        assert [path for path in found if os.path.lexists(path)] == []
    assert (died.code, kills > 0) == (0, True), died.err
    assert list((command.folder / "data" / "temporary").iterdir()) == []


MAKES_FOLDER = """
import os, signal, tempfile
from pathlib import Path
from sandbur.state.process.temporaries import NOTES, make_prefix
NOTES.keep_in(Path(os.environ["SANDBUR_HOME"]))
place = tempfile.mkdtemp(prefix=make_prefix("test"))
Path(place, "file").touch()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_command_removes_the_temporary_folders_of_a_killed_one(command: Command) -> None:
    temp = command.folder / "tmp"
    temp.mkdir()
    (command.folder / "data").mkdir(mode=0o700)
    foreign = temp / "sandbur-notes"
    foreign.mkdir()
    env = {**command.env, "TMPDIR": str(temp)}
    died = subprocess.run([sys.executable, "-c", MAKES_FOLDER], env=env, check=False)
    assert (died.returncode, len(list(temp.iterdir()))) == (-signal.SIGKILL, 2)
    assert command.run("trust").code == 0
    assert list(temp.iterdir()) == [foreign]


class Working:
    """A run whose command starts a process in a session of its own, and waits."""

    def __init__(self, command: Command) -> None:
        # A number of seconds that no other process sleeps.
        self.nap = f"8{secrets.randbelow(10**6):06}.{os.getpid()}"
        self._begun = command.folder / f"begun-{self.nap}"
        self.go = command.folder / f"go-{self.nap}"
        shell = (
            f"setsid sleep {self.nap} & touch {self._begun}; while [ ! -e {self.go} ]; do sleep 0.05; done"
        )
        self.session_id = str(uuid.uuid4())
        words = ("-p", f"run {shell}", "-m", "demo", "-y", "--session-id", self.session_id)
        self.agent = command.start(*words)
        wait_for(lambda: self._begun.exists() and self.sleeper)
        [self.supervisor] = supervisors(self.agent.pid)
        self.zygote = parent_of(self.supervisor)
        assert self.zygote != self.agent.pid

    @property
    def sleeper(self) -> int:
        """The process in a session of its own; 0 if it is gone."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes() == f"sleep\0{self.nap}\0".encode():
                    return int(path.parent.name)
            except OSError:
                continue
        return 0

    def kill_agent_and_supervisor(self) -> None:
        self._kill(self.supervisor)

    def kill_all(self) -> None:
        """Kill the process that forked the supervisor, too: nobody is left who inherits what goes on."""
        self._kill(self.supervisor, self.zygote)

    def _kill(self, *others: int) -> None:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in others:
                os.kill(pid, number)
            self.agent.send_signal(number)
        self.agent.communicate()

    def end(self) -> None:
        self.agent.kill()
        self.agent.communicate()
        if self.sleeper:
            os.kill(self.sleeper, signal.SIGKILL)


@pytest.fixture
def working(command: Command) -> Iterator[Working]:
    started = Working(command)
    yield started
    started.end()


def test_no_command_outlives_an_agent_and_a_supervisor_that_are_killed_at_once(working: Working) -> None:
    working.kill_agent_and_supervisor()
    wait_for(lambda: not working.sleeper)


@pytest.mark.parametrize("how", ["a new session", "another session", "the newest session"])
def test_what_outlived_all_who_watched_ends_when_any_session_starts(
    command: Command, working: Working, how: str
) -> None:
    other = command.run("-p", "hello", "-m", "demo", "--output-format", "json").result["session_id"]
    working.kill_all()
    assert working.sleeper
    words = {
        "a new session": ("-m", "demo"),
        "another session": ("-r", other),
        "the newest session": ("-c",),
    }[how]
    assert command.run("-p", "hello", *words).code == 0
    assert not working.sleeper
    ended = command.run("-p", "-r", working.session_id, "--output-format", "json", "--mode", "interactive")
    assert (ended.code, ended.result["status"]) == (3, "needs_decision")
    [call] = ended.result["pending"]
    assert call["kind"] == "outcome_unknown"
    # What the command wrote stays until somebody says what came of it.
    scratch = command.folder / "data" / "scratch"
    assert list(scratch.rglob("output"))
    assert command.run("settle", working.session_id, call["call_id"], "--as", "done").code == 0
    assert list(scratch.rglob("*")) == []


def test_another_home_ends_nothing_of_this_one(command: Command, working: Working, tmp_path: Path) -> None:
    working.kill_all()
    ended = command.run("-p", "hello", "-m", "demo", SANDBUR_HOME=str(tmp_path / "other"))
    assert (ended.code, bool(working.sleeper)) == (0, True)


def test_the_command_of_a_living_agent_goes_on_while_other_sessions_start(
    command: Command, working: Working
) -> None:
    assert command.run("-p", "hello", "-m", "demo").code == 0
    assert working.sleeper
    working.go.touch()
    out, _ = working.agent.communicate(timeout=WAIT_S)
    assert working.agent.returncode == 0, out


def test_a_living_agent_that_lost_its_supervisor_ends_its_command_itself(
    command: Command, working: Working
) -> None:
    """Also if it is stopped just then: nobody else judges its calls."""
    working.agent.send_signal(signal.SIGSTOP)
    os.kill(working.zygote, signal.SIGSTOP)
    os.kill(working.supervisor, signal.SIGKILL)
    assert command.run("-p", "hello", "-m", "demo").code == 0
    assert working.sleeper
    working.agent.send_signal(signal.SIGCONT)
    os.kill(working.zygote, signal.SIGCONT)
    wait_for(lambda: not working.sleeper)
    working.agent.communicate(timeout=WAIT_S)
    assert working.agent.returncode == 0
