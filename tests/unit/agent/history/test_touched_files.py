"""The files of a run are known as they were after each step, whatever tools and commands did to them."""

import os
import random
import stat
from pathlib import Path

import pytest
from support.models.demo_runs import DemoRuns

from sandbur.agent.history.time_travel.touched_files import TouchedFiles
from sandbur.agent.history.time_travel.workspace_copy import WorkspaceCopy

Tree = dict[str, tuple[str, int, bytes]]


@pytest.fixture
def runs(tmp_path: Path) -> DemoRuns:
    return DemoRuns(tmp_path)


def tree(folder: Path) -> Tree:
    """Return every file and link below a folder: kind, rights and content."""
    found: Tree = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = ("link", 0, os.fsencode(path.readlink()))
        elif path.is_file():
            mode = stat.S_IMODE(path.stat().st_mode)
            found[str(path.relative_to(folder))] = ("file", mode, path.read_bytes())
    return found


PATHS = ("a", "b", "sub/a", "sub/b", "sub/deep/a")
COMMANDS = (
    "rm -rf {0}; mkdir -p $(dirname {0}); echo {1} > {0}",
    "rm -rf {0}; mkdir -p $(dirname {0}); ln -s nowhere-{1} {0}",
    "test -f {0} -a ! -L {0} && chmod {2} {0}; true",
    "rm -rf {0}",
    "rm -rf {0}; mkdir -p {0}; echo {1} > {0}/inside",
    "test -f {0} && mv {0} moved-{1}; true",
    "test -f {0} -a ! -L {0} && head -c 5000 /dev/zero >> {0}; true",
)


def prompt(chance: random.Random, number: int) -> str:
    path, text = chance.choice(PATHS), f"text{number}"
    if chance.random() < 0.25:
        return f"write {text} into {path}-written"
    mode = chance.choice(("644", "755", "600"))
    # A command that is only tests would be taken for one that reads.
    return "run " + chance.choice(COMMANDS).format(path, text, mode) + "; touch mark"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
async def test_every_state_of_a_random_run_can_be_had_again(runs: DemoRuns, seed: int) -> None:
    chance = random.Random(seed)
    (runs.folder / "sub").mkdir()
    for name in ("a", "sub/b", "untouched"):
        (runs.folder / name).write_text(f"{name} of old\n")
    states = {-1: tree(runs.folder)}
    session_id: str | None = None
    for number in range(12):
        session_id = await runs.work(prompt(chance, number), session_id=session_id)
        states[4 * number + 2] = tree(runs.folder)
    assert session_id is not None
    store = runs.store()
    touched = TouchedFiles(store, session_id)
    copy = WorkspaceCopy(runs.folder, runs.folder.parent / "copies" / "work")
    copy.place.parent.mkdir()
    for step, expected in states.items():
        copy.make()
        assert copy.bring_to(touched, step) == []
        assert tree(copy.place) == expected, step
    store.close()


async def test_a_damaged_record_of_a_change_is_gone_around(runs: DemoRuns) -> None:
    session_id = await runs.work(*(f"write {word} into a.txt" for word in ("one", "two", "three")))
    store = runs.store()
    store.database.commit([("UPDATE files SET body = 'broken' WHERE n = 1", ())])
    store.quarantine_damage(session_id)
    touched = TouchedFiles(store, session_id)
    path = str(runs.folder / "a.txt")
    contents = [touched.content(path, touched.version(path, step)) for step in (2, 9, 10)]
    assert contents == [b"one\n", b"one\n", b"three\n"]
    assert touched.steps == [2, 10]
    store.close()


async def test_a_content_that_is_lost_from_the_store_is_not_made_up(runs: DemoRuns) -> None:
    session_id = await runs.work("write one into a.txt", "write two into a.txt")
    store = runs.store()
    store.database.commit([("DELETE FROM blobs", ())])
    touched = TouchedFiles(store, session_id)
    path = str(runs.folder / "a.txt")
    lost = touched.version(path, 2)
    assert lost.problem or touched.content(path, lost) is None
    assert touched.content(path, touched.version(path, 6)) == b"two\n"
    store.close()
