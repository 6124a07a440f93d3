"""Nobody reads what is written: work and lease go on, signals are heard, and a slow reader misses nothing."""

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from support.at_once import Case, Started, at_once
from support.commands.warm_process import WarmProcess
from support.crash.past import Past
from support.crash.place import Place
from support.models.server import Answer, ModelServer, Request, ToolCall, Turn, say
from support.places import ROOT
from support.screens.terminal_pair import Terminal

from sandbur.agent.config.data_folder import acknowledge

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
MOST_S = 30.0
"""Within 5 s by the contract; only a hang takes so long."""
SMALL = 4096
F_SETPIPE_SZ = 1031
WORDS = "some words that nobody reads; "
STAYS = "echo here > ../here; for n in $(seq 900); do test -e ../over && break; sleep 0.1; done"


class Rounds:
    """A model that says much and runs a command, so many times over, and then ends."""

    def __init__(self, *commands: str, chars: int = 20_000, pieces: int = 50, last: str = "the end") -> None:
        self.commands = commands
        self.pieces = pieces
        self.text = (WORDS * (chars // len(WORDS) + 1))[:chars]
        self.last = last

    def __call__(self, request: Request) -> Answer:
        done = Past(request).rounds
        if done >= len(self.commands):
            return say(self.last, pieces=50)
        arguments = json.dumps({"command": self.commands[done]})
        return Turn(self.text, (ToolCall("run_shell_command", arguments),), pieces=self.pieces)


def until(holds: Callable[[], bool], problem: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, problem
        time.sleep(0.02)


def small_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, SMALL)
    return reader, writer


def begin(
    place: Place, form: str, *, stream: str = "stdout", **env: str
) -> tuple["subprocess.Popen[bytes] | WarmProcess", int]:
    """Start a run one of whose streams is a small pipe; return it with the pipe's other end."""
    reader, writer = small_pipe()
    words = ("-p", "do it", "-y", "-m", place.model, "--session-id", place.session_id)
    process = place.start(*words, "--output-format", form, env=env, **{stream: writer})
    os.close(writer)
    return process, reader


def status(place: Place) -> str:
    """Return what the store says of the session now."""
    try:
        with closing(sqlite3.connect(f"file:{place.home}/sandbur.db?mode=ro", uri=True, timeout=30)) as base:
            rows = base.execute("SELECT status FROM heads WHERE session_id = ?", (place.session_id,))
            return next((row[0] for row in rows), "")
    except sqlite3.OperationalError:
        return ""


def ends(process: "subprocess.Popen[bytes] | WarmProcess") -> int:
    """Wait for the end as `wait` does, without leaving a process behind."""
    try:
        return process.wait(MOST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def goes_on(place: Place) -> None:
    """Check that nothing is left of the run, and that another one finishes it."""
    assert place.left_running() == []
    (place.folder / "over").touch()
    ended = place.resume()
    assert (ended.code, ended.result["result"]) == (0, "the end"), ended.err


def signalled(number: signal.Signals, form: str, stream: str, folder: Path) -> None:
    """The second command runs, whatever became of the words before it, and the signal ends it."""
    with ModelServer(Rounds("echo one >> ../done", STAYS)) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        process, reader = begin(place, form, stream=stream)
        try:
            until((folder / "here").exists, "the work does not go on")
            process.send_signal(number)
            assert ends(process) == CODES[number]
        finally:
            process.kill()
            process.communicate()
            os.close(reader)
        goes_on(place)
        assert (folder / "done").read_text() == "one\n"


def signalled_at_the_end(number: signal.Signals, form: str, folder: Path) -> None:
    """The run is over and recorded; its result does not fit into the pipe."""
    with ModelServer(Rounds(last=WORDS * 1000)) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        process, reader = begin(place, form)
        try:
            until(lambda: status(place) == "done", "the run does not end")
            assert process.poll() is None
            process.send_signal(number)
            assert ends(process) == CODES[number]
        finally:
            process.kill()
            _, err = process.communicate()
            os.close(reader)
        assert f"Resume with: sandbur -r {place.session_id}" in err.decode()
        assert "Traceback" not in err.decode()


def signalled_in_an_export(number: signal.Signals, folder: Path) -> None:
    """What is printed without a run is not more than its reader takes, either, and a signal ends it."""
    with ModelServer(Rounds(*["true"] * 4, chars=50_000)) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        assert place.begin().code == 0
        reader, writer = small_pipe()
        process = place.start("sessions", "export", place.session_id, stdout=writer)
        os.close(writer)
        try:
            assert os.read(reader, 50)
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(number)
            assert ends(process) == CODES[number]
        finally:
            process.kill()
            _, err = process.communicate()
            os.close(reader)
        assert b"Traceback" not in err


def chat(how: str, number: signal.Signals, folder: Path) -> None:
    """Stop a chat whose terminal takes nothing: stopped by a key, by a program, or with nobody at its end."""
    with ModelServer(Rounds("echo one >> ../done", STAYS, chars=120_000)) as server, Terminal() as terminal:
        place = Place(folder, server)
        acknowledge(place.home)
        words = ("-y", "-m", place.model, "--session-id", place.session_id)
        process = place.start(*words, env={"TERM": "xterm-256color"}, **terminal.streams)
        try:
            terminal.see("❯")
            if how == "at the prompt":
                terminal.stop_output()
            else:
                terminal.type("do it\r")
                if how == "by ^S":
                    terminal.see(WORDS[:20])
                    terminal.type("\x13")
                until((folder / "here").exists, "the work does not go on")
            process.send_signal(number)
            assert ends(process) == CODES[number]
        finally:
            process.kill()
            process.wait()
        assert b"Traceback" not in terminal.output
        if how != "at the prompt":
            goes_on(place)


def held_meanwhile(folder: Path) -> None:
    """Blocked for longer than the lease, the run is still its process's, and goes on when somebody reads."""
    with ModelServer(Rounds("echo one >> ../done", STAYS, "true")) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        process, reader = begin(place, "stream-json", SANDBUR_LEASE_S="1")
        try:
            until((folder / "here").exists, "the work does not go on")
            time.sleep(2.5)  # longer than the lease
            second = place.run("-p", "-r", place.session_id)
            assert second.code == 1, second.err
            assert f"is running in process {process.pid} on" in second.err
            (folder / "over").touch()
            with os.fdopen(reader, "rb") as stream:
                lines = [json.loads(line) for line in stream]
            assert process.wait(MOST_S) == 0
        finally:
            process.kill()
            process.communicate()
        assert lines[-1]["result"] == "the end"
        assert (folder / "done").read_text() == "one\n"


def read_slowly(stalls_s: float, folder: Path) -> None:
    rounds = Rounds("true", "true", chars=100_000, pieces=1000)
    with ModelServer(rounds) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        process, reader = begin(place, "stream-json")
        time.sleep(stalls_s)
        raw = bytearray()
        while piece := os.read(reader, 1500):
            raw += piece
            time.sleep(0.0005)
        os.close(reader)
        _, err = process.communicate(timeout=MOST_S)
    assert process.returncode == 0, err
    lines = [json.loads(line) for line in raw.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    said = "".join(line["delta"] for line in lines if line["type"] == "text")
    assert said == rounds.text * 2 + "the end"
    assert [line["type"] for line in lines].count("result") == 1
    assert (lines[0]["type"], lines[-1]["type"]) == ("init", "result")


def paused(folder: Path) -> None:
    """What nobody reads does not pile up: the run waits between its steps, and then goes on."""
    with ModelServer(Rounds(*(f"true {number}" for number in range(12)), chars=25_000)) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        process, reader = begin(place, "stream-json")
        until(lambda: server.served > 1, "the work does not go on")
        served, since = 0, time.monotonic()
        while served < 13 and time.monotonic() < since + 3:
            if server.served > served:
                served, since = server.served, time.monotonic()
            time.sleep(0.02)
        assert 2 <= served <= 9
        with os.fdopen(reader, "rb") as stream:
            lines = [json.loads(line) for line in stream]
        _, err = process.communicate(timeout=MOST_S)
    assert (process.returncode, lines[-1]["result"]) == (0, "the end"), err


CASES: dict[str, Case] = {
    **{
        f"{number.name}, stream-json": partial(signalled, number, "stream-json", "stdout") for number in CODES
    },
    "SIGTERM, progress on stderr": partial(signalled, signal.SIGTERM, "text", "stderr"),
    "SIGTERM, json at the end": partial(signalled_at_the_end, signal.SIGTERM, "json"),
    "SIGINT, text at the end": partial(signalled_at_the_end, signal.SIGINT, "text"),
    "SIGTERM, stream-json at the end": partial(signalled_at_the_end, signal.SIGTERM, "stream-json"),
    "SIGINT, export": partial(signalled_in_an_export, signal.SIGINT),
    "SIGTERM, export": partial(signalled_in_an_export, signal.SIGTERM),
    **{
        f"{number.name}, chat nobody reads": partial(chat, "unread", number)
        for number in (signal.SIGTERM, signal.SIGHUP)
    },
    "SIGTERM, chat stopped by ^S": partial(chat, "by ^S", signal.SIGTERM),
    "SIGTERM, chat stopped at the prompt": partial(chat, "at the prompt", signal.SIGTERM),
    "SIGHUP, chat stopped at the prompt": partial(chat, "at the prompt", signal.SIGHUP),
    "held meanwhile": held_meanwhile,
    "a reader that is slow": partial(read_slowly, 0),
    "a reader that comes late": partial(read_slowly, 2),
    "paused": paused,
}


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with at_once(CASES, request, tmp_path_factory) as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_output_that_nobody_reads_holds_nothing_up(running: Started, name: str) -> None:
    running[name].result()


def test_a_thread_that_the_end_of_the_interpreter_stopped_holds_nothing_up(tmp_path: Path) -> None:
    # The interpreter stops its threads anywhere, so also where one holds the lock of the output.
    program = (
        "import sys, threading\n"
        "from sandbur.ui.cli.main import main\n"
        "main(['--version'])\n"
        "writer = sys.stdout.buffer.writer\n"
        "held = threading.Event()\n"
        "def hold():\n"
        "    with writer._changed:\n"
        "        held.set()\n"
        "        threading.Event().wait()\n"
        "threading.Thread(target=hold, daemon=True).start()\n"
        "held.wait()\n"
        "print('the last words')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, timeout=MOST_S, check=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "the last words"
