"""A disk that is full, or takes no longer file: nothing starts unrecorded, and later the run goes on."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash.checks import check_journal, check_requests, check_world
from support.crash.place import Place
from support.crash.scenarios import SCENARIOS, WITH_RULES
from support.models.server import ModelServer
from support.tools.small_disk import fill, mount_small_disk, needs_root

TOOLS = SCENARIOS["tools"]
ALL = ["one", "one-end", "two", "two-end"]
CI_LEVELS = (0, 90, 110, 180, 260, 400)
LEVELS = range(0, 600, 6) if os.environ.get("SANDBUR_FULL") else CI_LEVELS


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ModelServer(TOOLS.responder()) as server:
        yield Place(tmp_path, server)


def begin(place: Place) -> tuple[str, ...]:
    return (
        "-p",
        "do it",
        "-y",
        "-m",
        place.model,
        "--session-id",
        place.session_id,
        "--output-format",
        "json",
    )


def carry_on(place: Place, failures: int) -> None:
    """Resume, or begin again if nothing had been kept; check what must hold of any interrupted run."""
    ended = place.run("-p", "-r", place.session_id, "--output-format", "json")
    if ended.code == 2 or (ended.code == 0 and ended.result["result"] is None):
        assert place.effects == [], f"effects without a session: {place.effects}"
        words = begin(place) if ended.code == 2 else ("-p", "do it", "-r", place.session_id)
        ended = place.run(*words, "--output-format", "json")
    assert (ended.code, ended.result["result"]) == (0, "all is written"), ended.err
    problems = [
        *check_requests(place, TOOLS.messages),
        *check_world(place, TOOLS, failures, "honest"),
        *check_journal(place, place.session_id),
    ]
    assert problems == []


@needs_root
@pytest.mark.parametrize("free_kb", LEVELS)
def test_a_full_disk_stops_the_run_and_loses_nothing(place: Place, free_kb: int) -> None:
    with mount_small_disk(place.home, "4M"):
        # A store that exists: the start itself is the other test's.
        assert place.run("-p", "hello", "-m", "demo").code == 0
        filler = fill(place.home, leave=free_kb * 1024)
        ended = place.run(*begin(place))
        assert "Traceback" not in ended.err
        assert "internal error" not in ended.err
        if ended.code == 0:
            return
        assert ended.code == 1
        assert "sandbur.db" in ended.err
        assert "space" in ended.err
        filler.unlink()
        carry_on(place, failures=1)


@needs_root
def test_a_full_disk_at_the_first_start_is_said(place: Place) -> None:
    with mount_small_disk(place.home, "1M"):
        filler = fill(place.home, leave=0)
        ended = place.run(*begin(place))
        assert ended.code == 1
        assert "Traceback" not in ended.err
        assert "internal error" not in ended.err
        assert "space" in ended.err
        assert place.effects == []
        filler.unlink()
        carry_on(place, failures=0)


@needs_root
def test_a_disk_that_fills_up_during_a_command_is_told_and_nothing_runs_twice(place: Place) -> None:
    with mount_small_disk(place.home, "4M"):
        hook = f"case $1 in two) head -c 8M /dev/zero > {place.home}/filler;; esac; true\n"
        (place.folder / "hook").write_text(hook)
        ended = place.run(*begin(place))
        assert ended.code == 1
        assert "space" in ended.err
        # A command whose output cannot be kept any more may be stopped.
        assert place.effects in (ALL[:3], ALL)
        (place.home / "filler").unlink()
        (place.folder / "hook").write_text("")
        carry_on(place, failures=1)


@pytest.mark.parametrize("most_kb", [4, 60, 100, 140])
def test_a_store_that_may_not_grow_stops_the_run_and_loses_nothing(place: Place, most_kb: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_kb * 1024, most_kb * 1024))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as a shell's `ulimit -f` leaves it

    process = place.start(*begin(place), preexec_fn=limit)
    out, err = process.communicate(timeout=60)
    text = err.decode()
    assert "Traceback" not in text
    assert "internal error" not in text
    if process.returncode == 0:
        assert b"all is written" in out
        return
    assert process.returncode == 1, text
    assert "sandbur.db" in text
    carry_on(place, failures=1)


@needs_root
def test_a_person_is_asked_about_what_a_full_disk_left_open(place: Place) -> None:
    with mount_small_disk(place.home, "4M"):
        hook = f"case $1 in two) head -c 8M /dev/zero > {place.home}/filler;; esac; true\n"
        (place.folder / "hook").write_text(hook)
        words = ("-p", "do it", *WITH_RULES, "-m", place.model, "--session-id", place.session_id)
        assert place.run(*words).code == 1
        (place.home / "filler").unlink()
        ended = place.run("-p", "-r", place.session_id, "--output-format", "json")
        if ended.code == 3:  # unless the end of the command is known from elsewhere
            assert ended.result["status"] == "needs_decision"
            (pending,) = ended.result["pending"]
            assert (pending["kind"], pending["tool"]) == ("outcome_unknown", "run_shell_command")
        assert place.effects[:3] == ALL[:3]
        assert place.effects.count("two") == 1
