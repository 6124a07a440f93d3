"""Every prefix of a recorded journal is a crash that could have been: each one is carried on honestly."""

import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.crash.place import Place
from support.crash.scenarios import NEW, SCENARIOS
from support.crash.trials import Course, Trial
from support.models.server import ModelServer

FULL = bool(os.environ.get("SANDBUR_FULL"))
SCENARIO_NAMES = ("effects", "rules", "tools", "vibe", "replan")
SEED = int(os.environ.get("SANDBUR_MATRIX_SEED", "1"))
MOST = 1000 if FULL else 8
"""Prefixes of each recorded run."""
_FILES = {"write_file": "made.txt", "edit_file": "notes.txt"}


@dataclass(frozen=True)
class Prefix:
    """A store as it was after one of its commits, and one of the worlds that it may stand in."""

    scenario: str
    session_id: str
    database: bytes
    log: bytes
    commit: int
    world: str
    """Of the call that had started and not ended: `untouched`, `half` done or `done`."""


def commits(log: bytes) -> list[bytes]:
    """Return the write-ahead log as it was after each of its commits."""
    page_bytes = struct.unpack_from(">I", log, 8)[0]
    found: list[bytes] = []
    for start in range(32, len(log) - page_bytes - 23, 24 + page_bytes):
        _, pages_after = struct.unpack_from(">II", log, start)
        if pages_after:
            found.append(log[: start + 24 + page_bytes])
    return found


def record(name: str, folder: Path) -> list[Prefix]:
    """Run a scenario undisturbed while its log is kept from being folded into the database."""
    scenario = SCENARIOS[name]
    with ModelServer(scenario.responder()) as server:
        place = Place(folder, server)
        assert place.run("sessions", "list").code == 0
        path = place.home / "sandbur.db"
        database = path.read_bytes()  # before the reader is there: closing the file would drop its locks
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM sessions").fetchall()
            ended = place.begin(*scenario.flags)
            assert (ended.code, ended.result["result"]) == (0, scenario.answers[0])
            log = path.with_name("sandbur.db-wal").read_bytes()
    return [
        Prefix(name, place.session_id, database, cut, number, world)
        for number, cut in enumerate(commits(log))
        for world in ("untouched", "half", "done")
    ]


def shell_moves(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield (tool, last move) of every call that has started, in their order."""
    calls: dict[str, tuple[str, str]] = {}
    for call_id, move, body in database.execute("SELECT call_id, move, body FROM calls ORDER BY n"):
        if move == "started":
            tool = next((name for name in ("run_shell_command", *_FILES) if f'"{name}"' in body), "")
            calls[call_id] = (tool, move)
        elif call_id in calls:
            calls[call_id] = (calls[call_id][0], move)
    yield from calls.values()


def lay_out(prefix: Prefix, place: Place) -> bool:
    """Make store and world; return whether this world differs from the untouched one."""
    place.session_id = prefix.session_id
    place.home.mkdir(mode=0o700)
    path = place.home / "sandbur.db"
    path.write_bytes(prefix.database)
    path.with_name("sandbur.db-wal").write_bytes(prefix.log)
    with closing(sqlite3.connect(path)) as database:
        moves = list(shell_moves(database))
    path.write_bytes(prefix.database)
    path.with_name("sandbur.db-wal").write_bytes(prefix.log)
    words = list(SCENARIOS[prefix.scenario].effects)
    is_open = False
    for tool, move in moves:
        happened = "done" if move == "finished" else prefix.world
        if tool == "run_shell_command":
            word = words.pop(0)
            marks = {"untouched": [], "half": [word], "done": [word, f"{word}-end"]}[happened]
            with (place.workspace / "effects.txt").open("a") as file:
                file.writelines(f"{mark}\n" for mark in marks)
        elif tool in _FILES and happened == "done":
            content = SCENARIOS[prefix.scenario].files[_FILES[tool]]
            assert tool != "edit_file" or content == NEW
            (place.workspace / _FILES[tool]).write_text(content)
        is_open = is_open or (move == "started" and tool != "")
    return is_open or prefix.world == "untouched"


def problems_of(prefix: Prefix, folder: Path) -> list[str]:
    """Carry a prefix on in the folder of its recording: the journal names files by their full path."""
    scenario = SCENARIOS[prefix.scenario]
    shutil.rmtree(folder)
    with ModelServer(scenario.responder()) as server:
        place = Place(folder, server)
        if not lay_out(prefix, place):
            return []
        course = Course(place, scenario, Trial(prefix.scenario), record=False)
        course.is_begun, course.deaths = True, 1
        where = f"{prefix.scenario} after commit {prefix.commit}, {prefix.world}"
        return [f"{where}: {problem}" for problem in course.problems()]


def played(name: str, folder: Path) -> list[str]:
    """Record a scenario and carry its prefixes on; return what is wrong."""
    prefixes = record(name, folder)
    assert len(prefixes) > 15
    chosen = random.Random(SEED).sample(prefixes, min(MOST, len(prefixes)))
    return [problem for prefix in chosen for problem in problems_of(prefix, folder)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, "Future[list[str]]"]]:
    """All scenarios at once, each in a folder of its own."""
    folder = tmp_path_factory.mktemp("prefixes")
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        yield {name: pool.submit(played, name, folder / name) for name in SCENARIO_NAMES}


@pytest.mark.parametrize("name", SCENARIO_NAMES)
def test_every_prefix_of_a_journal_is_carried_on_honestly(
    running: dict[str, "Future[list[str]]"], name: str
) -> None:
    assert running[name].result() == []
