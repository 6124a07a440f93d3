"""The power fails at any moment: what was acknowledged is on disk, and the session goes on from there."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.crash.checks import check_files, check_journal, check_requests, check_world
from support.crash.disk_log import (
    CREATE,
    RENAME,
    SYNC,
    Change,
    Disk,
    Policy,
    changes,
    compile_library,
    needs_compiler,
    write_image,
)
from support.crash.place import Place
from support.crash.scenarios import MADE, NEW, OLD, SCENARIOS
from support.models.server import ModelServer

pytestmark = needs_compiler

TOOLS = SCENARIOS["tools"]
FULL = bool(os.environ.get("SANDBUR_FULL"))
BOOT = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
SEEDS = 40 if FULL else 4
RESUMES = 200 if FULL else 12


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Change]]:
    """A whole run in two processes, and every change it made to the disk."""
    folder = tmp_path_factory.mktemp("power")
    library, log = compile_library(folder), folder / "log"
    with ModelServer(TOOLS.responder()) as server:
        place = Place(folder / "run", server)
        place.session_id = "00000000-0000-4000-8000-000000000000"
        logging = {"LD_PRELOAD": str(library), "DISK_LOG": str(log), "DISK_LOG_ROOT": str(place.folder)}
        words = ("-p", "do it", "-y", "-m", place.model, "--session-id", place.session_id)
        # The second process checkpoints what the first one left in the log.
        place.start(*words, env={**logging, "SANDBUR_CRASH_AT": "tool_ran:5"}).communicate(timeout=60)
        place.start("-p", "-r", place.session_id, env=logging).communicate(timeout=60)
        assert len(place.effects) >= 5
    return folder / "run", list(changes(log))


def moments(recorded: list[Change]) -> Iterator[tuple[int, Disk]]:
    """Yield the disk before and after every sync and rename, and at every effect."""
    disk = Disk()
    for number, change in enumerate(recorded):
        is_edge = change.what in (SYNC, RENAME)
        if is_edge:
            yield number, disk
        disk.apply(change)
        if is_edge or is_effect(change):
            yield number + 1, disk


def policies() -> Iterator[tuple[Policy, int]]:
    yield "nothing", 0
    yield "everything", 0
    yield from (("anything", seed) for seed in range(SEEDS))


def effects_until(recorded: list[Change], number: int) -> list[str]:
    """Return what the commands had written into the world by then: each opens the file for each word."""
    opened = sum(is_effect(change) for change in recorded[:number])
    return [mark for word in TOOLS.effects for mark in (word, f"{word}-end")][:opened]


def is_effect(change: Change) -> bool:
    return change.what == CREATE and change.path.endswith("effects.txt")


def shell_calls(database: sqlite3.Connection) -> tuple[int, int]:
    """Return how many commands have started and how many have ended, by the journal."""
    started = database.execute(
        "SELECT COUNT(*) FROM calls WHERE move = 'started' AND body LIKE '%run_shell_command%'"
    ).fetchone()[0]
    ended = database.execute(
        "SELECT COUNT(*) FROM calls WHERE move = 'finished' AND call_id IN"
        " (SELECT call_id FROM calls WHERE move = 'started' AND body LIKE '%run_shell_command%')"
    ).fetchone()[0]
    return int(started), int(ended)


def test_no_power_loss_loses_what_had_started_or_finished(
    recorded: tuple[Path, list[Change]], tmp_path: Path
) -> None:
    root, log = recorded
    images = 0
    for number, disk in moments(log):
        words = effects_until(log, number)
        begun = sum(word in words for word in ("one", "two", "three"))
        for policy, seed in policies():
            images += 1
            folder = tmp_path / "image"
            write_image(disk.after_power_loss(policy, seed), root, folder)
            path = folder / "home" / "sandbur.db"
            where = f"change {number}, {policy} {seed}"
            if not path.exists() or not path.stat().st_size:
                assert begun == 0, f"{where}: no store, but {words}"
            else:
                with closing(sqlite3.connect(path)) as database:
                    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], where
                    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'calls'").fetchone():
                        started, ended = shell_calls(database)
                    else:
                        started, ended = 0, 0
                assert started >= begun, f"{where}: {words}, but {started} calls have started"
                assert ended >= begun - 1, f"{where}: {words}, but {ended} calls have ended"
            for name, contents in (("made.txt", (MADE,)), ("notes.txt", (OLD, NEW))):
                file = folder / "workspace" / name
                assert not file.exists() or file.read_text() in contents, f"{where}: {name}"
            shutil.rmtree(folder)
    assert images > 500


def test_a_run_goes_on_after_a_power_loss(recorded: tuple[Path, list[Change]]) -> None:
    root, log = recorded
    chance = random.Random(5)
    places = sorted({number for number, _ in moments(log)})
    # The start makes most of the syncs; the moments after it are worth more.
    chosen = set(chance.sample(places[len(places) // 4 :], min(RESUMES, len(places) * 3 // 4)))
    problems: list[str] = []
    for number, disk in moments(log):
        if number not in chosen:
            continue
        chosen.discard(number)
        policy: Policy = chance.choice(["nothing", "anything", "anything"])
        image = disk.after_power_loss(policy, number)
        found = _resumed(root, log[:number], image)
        problems += [f"change {number}, {policy}: {problem}" for problem in found]
    assert problems == []


def restarted(content: bytes) -> bytes:
    """Return a file as it looks to a machine that was started again: the boot it names is another one."""
    return content.replace(BOOT, b"0" * len(BOOT)) if BOOT and not content.startswith(b"SQLite") else content


def _resumed(root: Path, before: list[Change], image: dict[str, bytes]) -> list[str]:
    """Carry on in the same place: the journal names files by their full path."""
    shutil.rmtree(root)
    with ModelServer(TOOLS.responder()) as server:
        place = Place(root, server)
        place.session_id = "00000000-0000-4000-8000-000000000000"
        write_image({path: restarted(content) for path, content in image.items()}, root, root)
        # What commands did to the world is not ours to lose.
        words = effects_until(before, len(before))
        (place.workspace / "effects.txt").write_text("".join(f"{word}\n" for word in words))
        ended = place.resume()
        if ended.code == 2 and "There is no session" in ended.err:
            return [f"effects {words}, but no session"] if words else []
        if ended.code == 0 and ended.result["result"] is None:
            return [f"effects {words}, but no message"] if words else []
        if (ended.code, ended.result.get("result")) != (0, "all is written"):
            return [f"ended with {ended.code}: {ended.err[-500:]}"]
        return [
            *check_requests(place, TOOLS.messages),
            *check_world(place, TOOLS, 2, "honest", is_begun=True),
            *check_files(place, TOOLS, is_over=True),
            *check_journal(place, place.session_id),
        ]
