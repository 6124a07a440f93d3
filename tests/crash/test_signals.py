"""Signals, a terminal that dies, a reader that leaves: the run stops in order and can be resumed."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from support.at_once import Case, Started, at_once
from support.commands.warm_process import WarmProcess
from support.crash.checks import UNKNOWN, check_journal, check_requests
from support.crash.past import Past
from support.crash.place import Place
from support.crash.scenarios import SCENARIOS
from support.models.server import Answer, ModelServer, Request, say
from support.models.turns import stall
from support.screens.terminal_pair import Terminal

from sandbur.agent.config.data_folder import acknowledge

EFFECTS = SCENARIOS["effects"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
MOST_S = 30.0
WAITS = "echo here > ../here; sleep 71.5\n"
WANDERS = "setsid sh -c 'sleep 72.5 & sleep 72.5' &\n"
BUSY = ("request", "stream", "command")


class Moment:
    """A model that keeps the first request, or the first stream, or the first command, waiting."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.is_here = threading.Event()
        self.is_over = False

    def __call__(self, request: Request) -> Answer:
        if self.is_over or self.where in ("command", "question"):
            return EFFECTS.respond(Past(request))
        self.is_here.set()
        if self.where == "stream":
            return stall(say("a long answer that never ends " * 20))
        return say("never", delay_s=60)

    def wait(self, place: Place) -> None:
        if self.where == "command":
            _until((place.folder / "here").exists, "the command has not begun")
        else:
            assert self.is_here.wait(20), "no request came"


def _until(holds: Callable[[], bool], problem: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, problem
        time.sleep(0.02)


def begin(place: Place, **options: object) -> "subprocess.Popen[bytes] | WarmProcess":
    words = ("-p", "do it", "-y", "-m", place.model, "--session-id", place.session_id)
    return place.start(*words, "--output-format", "json", **options)


def assert_goes_on(place: Place, moment: Moment) -> None:
    """Check that nothing of the run is left, and that a resume finishes it and repeats nothing."""
    assert place.left_running() == []
    moment.is_over = True
    (place.folder / "hook").write_text("")
    ended = place.resume()
    assert (ended.code, ended.result["result"]) == (0, "both are written"), ended.err
    was_cut = moment.where == "command"
    assert place.effects == ["one", *([] if was_cut else ["one-end"]), "two", "two-end"]
    told = [text for _, text in Past(place.server.requests[-1]).results.values()]
    assert [UNKNOWN in text or "nterrupted" in text for text in told] == [was_cut, False]
    assert [*check_requests(place, ["do it"]), *check_journal(place, place.session_id)] == []


def headless(act: Callable[[Place, Moment], None], where: str, folder: Path, hook: str = WAITS) -> None:
    moment = Moment(where)
    with ModelServer(moment) as server:
        place = Place(folder, server)
        acknowledge(place.home)
        if where == "command":
            (folder / "hook").write_text(hook)
        act(place, moment)
        assert_goes_on(place, moment)


def signalled(number: signal.Signals, place: Place, moment: Moment) -> None:
    process = begin(place)
    moment.wait(place)
    process.send_signal(number)
    began = time.monotonic()
    out, err = process.communicate(timeout=120)
    assert time.monotonic() - began < MOST_S
    assert process.returncode == CODES[number], err
    assert f'"exit_code": {CODES[number]}' in out.decode()
    assert '"status": "interrupted"' in out.decode()
    assert f"Resume with: sandbur -r {place.session_id}" in err.decode()
    assert "Traceback" not in err.decode()


def left_by_its_reader(place: Place, moment: Moment) -> None:
    process = begin(place)
    moment.wait(place)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    began = time.monotonic()
    process.wait(timeout=120)
    assert time.monotonic() - began < MOST_S
    assert process.returncode in (0, 1, 130)
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def on_a_dying_terminal(place: Place, moment: Moment) -> None:
    with Terminal() as terminal:
        process = begin(place, **terminal.streams)
        moment.wait(place)
        terminal.close()
        began = time.monotonic()
        process.wait(timeout=120)
        assert time.monotonic() - began < MOST_S
    assert process.returncode == 129


def signalled_as_a_group(place: Place, moment: Moment) -> None:
    """A terminal sends Ctrl-C to every process of the foreground at once, ours and the command's."""
    process = begin(place)
    moment.wait(place)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130


def signalled_twice(place: Place, moment: Moment) -> None:
    process = begin(place)
    moment.wait(place)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode in (143, 129)


def killed(place: Place, moment: Moment) -> None:
    process = begin(place)
    moment.wait(place)
    process.kill()
    process.communicate()


def killed_with_all_it_started(place: Place, moment: Moment) -> None:
    """As when the machine runs out of memory: supervisor and command die with the agent."""
    process = begin(place)
    moment.wait(place)
    for pid in sorted(place.processes()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def chat(where: str, how: signal.Signals | None, folder: Path) -> None:
    """Stop a chat; without a signal it is the terminal itself that dies."""
    moment = Moment(where)
    with ModelServer(moment) as server, Terminal() as terminal:
        place = Place(folder, server)
        acknowledge(place.home)
        (folder / "hook").write_text(WAITS if where == "command" else "")
        mode = [] if where == "question" else ["-y"]
        words = ("-m", place.model, "--session-id", place.session_id, *mode)
        process = place.start(*words, env={"TERM": "xterm-256color"}, **terminal.streams)
        terminal.see("❯")
        if where != "idle":
            terminal.type("do it\r")
        if where == "question":
            terminal.see("Run it?")
        elif where != "idle":
            moment.wait(place)
        if how is None:
            terminal.close()
        else:
            process.send_signal(how)
        began = time.monotonic()
        terminal.drain(process)
        assert time.monotonic() - began < MOST_S
        assert b"Traceback" not in terminal.output
        assert process.returncode == CODES[how or signal.SIGHUP]
        assert place.left_running() == []
        if where in BUSY:
            assert_goes_on(place, moment)
        if where == "question":
            ended = place.run("approve", place.session_id, "--all", "--output-format", "json")
            assert ended.result["status"] == "needs_approval"  # the second command
            assert place.effects == ["one", "one-end"]


CASES: dict[str, Case] = {
    **{
        f"{number.name} during {where}": partial(headless, partial(signalled, number), where)
        for number in CODES
        for where in BUSY
    },
    **{f"reader gone during {where}": partial(headless, left_by_its_reader, where) for where in BUSY},
    **{f"terminal gone during {where}": partial(headless, on_a_dying_terminal, where) for where in BUSY},
    "SIGINT to the whole group": partial(headless, signalled_as_a_group, "command"),
    "SIGTERM and SIGHUP at once": partial(headless, signalled_twice, "command"),
    "SIGKILL to everything": partial(headless, killed_with_all_it_started, "command"),
    "SIGKILL and a command that left its session": partial(headless, killed, "command", hook=WANDERS + WAITS),
    **{f"chat: terminal gone, {where}": partial(chat, where, None) for where in ("idle", "question", *BUSY)},
    "chat: SIGHUP, question": partial(chat, "question", signal.SIGHUP),
    "chat: SIGTERM, stream": partial(chat, "stream", signal.SIGTERM),
}


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with at_once(CASES, request, tmp_path_factory) as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_whatever_stops_a_run_it_ends_in_order_and_goes_on_later(running: Started, name: str) -> None:
    running[name].result()
