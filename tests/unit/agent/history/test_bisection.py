"""The step that broke a test is found from the recorded files; the workspace is only read."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from support.models.demo_runs import DemoRuns

from sandbur.agent.history.time_travel.bisect import Bisection, Bisector
from sandbur.agent.history.time_travel.touched_files import TouchedFiles
from sandbur.agent.history.time_travel.workspace_copy import WorkspaceCopy
from sandbur.state.errors import UsageError

pytestmark = pytest.mark.slow


@pytest.fixture
def runs(tmp_path: Path) -> DemoRuns:
    return DemoRuns(tmp_path)


async def bisected(runs: DemoRuns, session_id: str, test: str, timeout_s: float = 60) -> Bisection:
    store = runs.store()
    touched = TouchedFiles(store, session_id)
    bisector = Bisector(touched, runs.folder, (runs.home,), test, timeout_s, lambda probe: None)
    found = await bisector.search()
    store.close()
    return found


def everything(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return what is below a folder, with times, so that any touch is seen."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(str(content).encode()).hexdigest()
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_ino, digest)
    return found


COUNTING = (
    "write 1 into number.txt",
    "write other into other.txt",
    "replace 1 with 2 in number.txt",
    "write more into sub/more.txt",
    "replace 2 with 3 in number.txt",
    "replace 3 with 4 in number.txt",
)
NUMBER = "$(cat number.txt 2>/dev/null || echo 0)"


@pytest.fixture
async def counted(runs: DemoRuns) -> str:
    return await runs.work(*COUNTING)


async def test_every_step_that_changed_a_file_can_be_found(runs: DemoRuns, counted: str) -> None:
    before = everything(runs.folder)
    tests = {
        "test ! -e number.txt": 2,
        "test ! -e other.txt": 6,
        f"test {NUMBER} -lt 2": 10,
        "test ! -d sub": 14,
        f"test {NUMBER} -lt 3": 18,
        f"test {NUMBER} -lt 4": 22,
    }
    for test, step in tests.items():
        found = await bisected(runs, counted, test)
        assert (found.bad, found.is_exact, len(found.probes) <= 5) == (step, True, True), test
    assert found.steps == (2, 6, 10, 14, 18, 22)
    assert everything(runs.folder) == before


async def test_what_a_command_did_to_files_links_and_rights_is_taken_back(runs: DemoRuns) -> None:
    (runs.folder / "kept.txt").write_text("kept\n")
    (runs.folder / "old.sh").write_text("exit 0\n")
    session_id = await runs.work(
        "run mkdir -p a/b && echo x > a/b/c && ln -s kept.txt link && chmod +x old.sh",
        "run rm -r a kept.txt link",
    )
    there = "test -x old.sh -a -f a/b/c -a -L link -a $(cat link) = kept"
    assert (await bisected(runs, session_id, f"! {{ {there}; }} || test ! -e kept.txt")).probes[
        0
    ].verdict == "good"
    was_never = "test -f kept.txt -a ! -x old.sh -a ! -e a -a ! -L link"
    assert (await bisected(runs, session_id, was_never)).bad == 2
    assert (await bisected(runs, session_id, "test -f kept.txt")).bad == 6
    assert (await bisected(runs, session_id, f"test ! -x old.sh || {{ {there}; }}")).bad == 6


async def test_each_try_has_a_copy_of_its_own(runs: DemoRuns, counted: str) -> None:
    test = f"test ! -e mark && touch mark && rm -f other.txt && test {NUMBER} -lt 4"
    assert (await bisected(runs, counted, test)).bad == 22
    assert not (runs.folder / "mark").exists()


async def test_what_was_compiled_from_another_content_is_seen_to_be_old(runs: DemoRuns) -> None:
    python = "env -u PYTHONDONTWRITEBYTECODE python3 -c"
    answers = [f"replace answer = {n} with answer = {n + 1} in app.py" for n in range(1, 5)]
    edits = ["write answer = 1 into app.py", *answers]
    prompts = [prompt for edit in edits for prompt in (edit, f"run {python} 'import app'")]
    session_id = await runs.work(*prompts)
    assert list(runs.folder.glob("__pycache__/app.*"))
    for most in range(1, 5):
        test = f"test ! -e app.py || {python} 'import app; assert app.answer <= {most}'"
        assert (await bisected(runs, session_id, test)).bad == 2 + 8 * most


async def test_a_link_into_the_workspace_leads_into_the_copy(runs: DemoRuns) -> None:
    (runs.folder / "precious").write_text("gold\n")
    outside = runs.folder.parent / "outside"
    outside.mkdir()
    (outside / "tool").write_text("tool\n")
    (runs.folder / "absolute").symlink_to(runs.folder / "precious")
    (runs.folder / "up").symlink_to("../outside/tool")
    (runs.folder / "folder").symlink_to(outside)
    session_id = await runs.work("write 1 into number.txt")
    test = "echo lead > absolute; test $(cat up) = tool -a $(cat folder/tool) = tool -a ! -e number.txt"
    assert (await bisected(runs, session_id, test)).bad == 2
    assert (runs.folder / "precious").read_text() == "gold\n"


async def test_states_that_cannot_be_tested_are_skipped(runs: DemoRuns, counted: str) -> None:
    test = f"case {NUMBER} in 2) exit 125;; 3|4) exit 1;; esac"
    found = await bisected(runs, counted, test)
    assert (found.is_exact, found.good, found.bad) == (False, 6, 18)


async def test_what_a_person_changed_afterwards_is_not_taken_for_the_runs(
    runs: DemoRuns, counted: str
) -> None:
    (runs.folder / "number.txt").write_text("mine\n")
    found = await bisected(runs, counted, f"test {NUMBER} -lt 3")
    assert (found.bad, found.is_exact) == (18, True)
    skipped = [probe for probe in found.probes if probe.verdict == "skip"]
    assert [probe.step for probe in skipped] == [22]
    assert skipped[0].ending == "number.txt: the file that the run left there has changed or is gone"


async def test_a_change_between_two_runs_is_seen_where_the_next_one_found_it(runs: DemoRuns) -> None:
    session_id = await runs.work("write 1 into number.txt")
    (runs.folder / "number.txt").write_text("5\n")
    await runs.work("replace 5 with 6 in number.txt", session_id=session_id)
    found = await bisected(runs, session_id, f"test {NUMBER} -lt 5")
    assert (found.good, found.bad) == (-1, 2)


async def test_a_fork_is_searched_with_the_steps_it_came_from(runs: DemoRuns, counted: str) -> None:
    fork = await runs.fork(counted, 11, files=True)
    await runs.work("replace 2 with 9 in number.txt", session_id=fork)
    assert (runs.folder / "number.txt").read_text() == "9\n"
    found = await bisected(runs, fork, f"test {NUMBER} -lt 9")
    assert (found.good, found.bad, found.steps) == (10, 14, (2, 6, 10, 14))
    assert (await bisected(runs, fork, f"test {NUMBER} -lt 2")).bad == 10
    assert (await bisected(runs, counted, f"test {NUMBER} -lt 4")).bad == 18 + 4


async def test_a_write_that_failed_is_no_step(runs: DemoRuns) -> None:
    (runs.folder / "a.txt").write_text("one\n")
    session_id = await runs.work("replace two with three in a.txt", "replace one with two in a.txt")
    assert (await bisected(runs, session_id, "grep -q one a.txt")).steps == (6,)


async def test_a_write_that_changed_nothing_is_no_step(runs: DemoRuns) -> None:
    (runs.folder / "a.txt").write_text("one\n")
    session_id = await runs.work("write one into a.txt", "write two into a.txt")
    assert (await bisected(runs, session_id, "grep -q one a.txt")).steps == (6,)


async def test_files_elsewhere_are_named(runs: DemoRuns) -> None:
    other = runs.folder.parent / "other.txt"
    session_id = await runs.work(f"write one into {other}", "write two into a.txt")
    store = runs.store()
    bisector = Bisector(
        TouchedFiles(store, session_id), runs.folder, (), "test ! -e a.txt", 9, lambda p: None
    )
    assert (await bisector.search()).bad == 6
    assert bisector.elsewhere == [str(other)]
    store.close()


def test_a_folder_beyond_the_limit_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/large").write_bytes(b"x" * 1001)
    copy = WorkspaceCopy(tmp_path / "from", tmp_path / "to", max_bytes=1000)
    with pytest.raises(UsageError, match=r"too large to be copied: over 1\.0 KB"):
        copy.make()


def test_a_copy_leaves_out_what_is_no_file_and_what_may_not_be_read(tmp_path: Path) -> None:
    source = tmp_path / "from"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_text("x")
    (source / "sub").chmod(0o555)
    os.mkfifo(source / "pipe")
    (source / "own").mkdir()
    (source / "dangling").symlink_to("nowhere")
    target = source / "temporary" / "copy"
    target.parent.mkdir()
    copy = WorkspaceCopy(source, target, (source / "own",))
    for _ in range(2):
        copy.make()
        names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
        assert names == ["dangling", "sub", "sub/file"]
        assert (target / "sub").stat().st_mode & 0o777 == 0o555
    copy.remove()
    assert not target.exists()
    (source / "sub").chmod(0o755)
