"""A message that was acknowledged is on disk, however the power fails; before that it is whole or absent."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.crash.disk_log import Disk, Policy, changes, compile_library, needs_compiler, write_image
from support.crash.place import Place
from support.models.server import ModelServer, say

pytestmark = [needs_compiler, pytest.mark.slow]
POLICIES: tuple[tuple[Policy, int], ...] = (
    ("nothing", 0), ("everything", 0), *(("anything", seed) for seed in range(4)),
)  # fmt: skip
ID = "00000000-0000-4000-8000-000000000000"


def messages(folder: Path) -> list[str] | None:
    """Return what waits in the store of an image; None: there is no store to speak of yet."""
    path = folder / "home" / "sandbur.db"
    if not path.exists() or not path.stat().st_size:
        return None
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'inbox'").fetchone():
            return None
        return [body for (body,) in database.execute("SELECT body FROM inbox ORDER BY n")]


def test_no_power_loss_loses_an_acknowledged_message(tmp_path: Path) -> None:
    library, log = compile_library(tmp_path), tmp_path / "log"
    with ModelServer([say("hello")]) as server:
        place = Place(tmp_path / "run", server)
        place.session_id = ID
        logging = {"LD_PRELOAD": str(library), "DISK_LOG": str(log), "DISK_LOG_ROOT": str(place.folder)}
        ends: list[int] = []
        for words in (
            ("-p", "hi", "-m", place.model, "--session-id", ID),
            ("steer", ID, "first words"),
            ("steer", ID, "--queue", "more words"),
        ):
            process = place.start(*words, env=logging)
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
            ends.append(len(list(changes(log))))
    disk = Disk()
    for number, change in enumerate(changes(log), 1):
        disk.apply(change)
        if number < ends[0]:
            continue
        acknowledged = sum(number >= end for end in ends[1:])
        for policy, seed in POLICIES:
            folder = tmp_path / "image"
            write_image(disk.after_power_loss(policy, seed), tmp_path / "run", folder)
            found = messages(folder)
            where = f"change {number} of {ends}, {policy} {seed}"
            assert found is not None, where
            assert len(found) >= acknowledged, where
            assert ['"first words"' in found[0] if found else True, len(found) <= 2] == [True, True], where
            shutil.rmtree(folder)
