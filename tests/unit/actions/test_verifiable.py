"""A file write is known before it happens, happens as known or not at all, and can be checked afterwards."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools.mounts import mount_folder, needs_mounts

from sandbur.actions.ports import Prepared, ToolContext, ToolOutcome, Verifiable
from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.tools.files.write_file import WriteFile
from sandbur.actions.tools.registry import builtin_tools
from sandbur.actions.workspace.atomic_write import remove_leftovers, temporary_file
from sandbur.state.calls import FileChange

FileTool = WriteFile | EditFile


def context(folder: Path, prepared: Prepared | None = None) -> ToolContext:
    return ToolContext("c1", folder, lambda text: None, prepared=prepared)


async def prepare(folder: Path, tool: FileTool, **arguments: str) -> Prepared:
    prepared = await tool.prepare(tool.parse(json.dumps(arguments)), context(folder))
    assert isinstance(prepared, Prepared), prepared.content
    return prepared


async def run(folder: Path, tool: FileTool, prepared: Prepared, **arguments: str) -> ToolOutcome:
    return await tool.run(tool.parse(json.dumps(arguments)), context(folder, prepared))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_exactly_the_tools_that_write_files_are_verifiable():
    verifiable = {name for name, tool in builtin_tools().items() if isinstance(tool, Verifiable)}
    assert verifiable == {"write_file", "edit_file"}


async def test_preparing_a_new_file_changes_nothing(tmp_path: Path):
    prepared = await prepare(tmp_path, WriteFile(), path="new/deep/a.txt", content="one\n")
    assert list(tmp_path.iterdir()) == []
    assert prepared.changes == (
        FileChange(
            path=str(tmp_path / "new/deep/a.txt"),
            before=None,
            before_mode=None,
            after=digest(b"one\n"),
            new_folders=2,
        ),
    )
    assert prepared.pre_images == {}


async def test_preparing_an_edit_tells_what_will_be_replaced(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o640)
    tmp_path.joinpath("link").symlink_to("a.txt")
    prepared = await prepare(tmp_path, EditFile(), path="link", old="two", new="2")
    assert prepared.changes == (
        FileChange(
            path=str(path),
            before=digest(b"one\r\ntwo\r\n"),
            before_mode=0o640,
            after=digest(b"one\r\n2\r\n"),
            after_mode=0o640,
        ),
    )
    assert prepared.pre_images == {digest(b"one\r\ntwo\r\n"): b"one\r\ntwo\r\n"}
    assert path.read_bytes() == b"one\r\ntwo\r\n"


async def test_what_cannot_run_is_said_while_preparing(tmp_path: Path):
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("a.txt").write_text("a")
    for tool, arguments, told in (
        (WriteFile(), {"path": "folder", "content": ""}, "is a folder"),
        (WriteFile(), {"path": "folder/", "content": ""}, "names a folder"),
        (EditFile(), {"path": "a.txt", "old": "b", "new": ""}, "old was not found"),
        (EditFile(), {"path": "none", "old": "b", "new": ""}, "does not exist"),
    ):
        outcome = await tool.prepare(tool.parse(json.dumps(arguments)), context(tmp_path))
        assert isinstance(outcome, ToolOutcome)
        assert (outcome.outcome, told in outcome.content) == ("error", True)


async def test_the_prepared_bytes_are_written_and_verified(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content="new")
    assert await WriteFile().verify(prepared.changes) == "not_done"
    outcome = await run(tmp_path, WriteFile(), prepared, path="a.txt", content="new")
    assert outcome.outcome == "ok"
    assert digest(path.read_bytes()) == prepared.changes[0].after
    assert await WriteFile().verify(prepared.changes) == "done"


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_file_that_somebody_changed_since_is_left_alone(tmp_path: Path, is_new: bool):
    path = tmp_path / "a.txt"
    if not is_new:
        path.write_text("old")
    prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content="new")
    path.write_text("theirs")
    outcome = await run(tmp_path, WriteFile(), prepared, path="a.txt", content="new")
    assert (outcome.outcome, "changed by another program" in outcome.content) == ("error", True)
    assert path.read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert await WriteFile().verify(prepared.changes) == "unknown"


async def test_a_file_that_became_a_link_or_vanished_since_is_left_alone(tmp_path: Path):
    path, other = tmp_path / "a.txt", tmp_path / "other.txt"
    path.write_text("old")
    other.write_text("old")
    prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content="new")
    path.unlink()
    assert (await run(tmp_path, WriteFile(), prepared, path="a.txt", content="new")).outcome == "error"
    assert not path.exists()
    path.symlink_to("other.txt")
    assert (await run(tmp_path, WriteFile(), prepared, path="a.txt", content="new")).outcome == "error"
    assert (path.is_symlink(), other.read_text()) == (True, "old")


async def test_writing_what_is_there_already_counts_as_done(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("same")
    prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content="same")
    assert await WriteFile().verify(prepared.changes) == "done"


async def test_a_new_file_that_is_not_there_was_not_written(tmp_path: Path):
    prepared = await prepare(tmp_path, WriteFile(), path="new/a.txt", content="x")
    assert await WriteFile().verify(prepared.changes) == "not_done"
    tmp_path.joinpath("new/a.txt").mkdir(parents=True)
    assert await WriteFile().verify(prepared.changes) == "unknown"


async def test_of_several_changes_a_part_is_unknown(tmp_path: Path):
    both = [(await prepare(tmp_path, WriteFile(), path=name, content=name)).changes[0] for name in ("a", "b")]
    assert await WriteFile().verify(both) == "not_done"
    tmp_path.joinpath("a").write_text("a")
    assert await WriteFile().verify(both) == "unknown"
    tmp_path.joinpath("b").write_text("b")
    assert await WriteFile().verify(both) == "done"
    assert await WriteFile().verify([]) == "unknown"


@pytest.mark.slow
def test_of_agents_that_edit_one_file_none_loses_an_edit(tmp_path: Path):
    script = (
        "import asyncio, json, sys; from pathlib import Path\n"
        "from sandbur.actions.ports import ToolContext\n"
        "from sandbur.actions.tools.files.edit_file import EditFile\n"
        "folder, name, tool = Path(sys.argv[1]), sys.argv[2], EditFile()\n"
        "context = ToolContext('c1', folder, print)\n"
        "async def edit(new):\n"
        "    arguments = {'path': 'a.txt', 'old': 'end', 'new': new + 'end'}\n"
        "    return (await tool.run(tool.parse(json.dumps(arguments)), context)).outcome == 'ok'\n"
        "async def main(): print(sum([await edit(f'{name}{n},') for n in range(100)]))\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "a.txt"
    path.write_text("end")
    agents = [
        subprocess.Popen([sys.executable, "-c", script, tmp_path, name], stdout=subprocess.PIPE)
        for name in "xyz"
    ]
    edited = sum(int(agent.communicate()[0]) for agent in agents)
    assert path.read_text().count(",") == edited
    assert edited >= 100


def write_and_die(folder: Path, point: str) -> None:
    """Overwrite `a.txt` in a process of its own that dies by SIGKILL at `point`."""
    script = (
        "import asyncio, json, sys; from pathlib import Path\n"
        "from sandbur.actions.ports import ToolContext\n"
        "from sandbur.actions.tools.files.write_file import WriteFile\n"
        "folder, tool = Path(sys.argv[1]), WriteFile()\n"
        "arguments = tool.parse(json.dumps({'path': 'a.txt', 'content': 'new' * 100_000}))\n"
        "asyncio.run(tool.run(arguments, ToolContext('c1', folder, print)))\n"
    )
    environment = {**os.environ, "SANDBUR_CRASH_AT": point}
    died = subprocess.run([sys.executable, "-c", script, folder], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("point", "verdict"), [("edit_tmp_written", "not_done"), ("edit_renamed", "done")])
@pytest.mark.parametrize("is_new", [True, False])
async def test_after_a_crash_the_file_is_old_or_new_and_the_check_tells_which(
    tmp_path: Path, point: str, verdict: str, is_new: bool
):
    path = tmp_path / "a.txt"
    if not is_new:
        path.write_text("old")
        path.chmod(0o600)
    prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content="new" * 100_000)
    write_and_die(tmp_path, point)
    assert await WriteFile().verify(prepared.changes) == verdict
    assert {entry.name for entry in tmp_path.iterdir()} <= {"a.txt"}
    if verdict == "done":
        assert path.read_text() == "new" * 100_000
    else:
        assert (path.read_text() if path.exists() else None) == (None if is_new else "old")
    if not is_new:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@needs_mounts
async def test_on_a_full_disk_the_old_content_stays_and_the_call_was_not_done(tmp_path: Path):
    with mount_folder(tmp_path):
        tmp_path.joinpath("a.txt").write_text("old")
        large = "new" * 50_000
        prepared = await prepare(tmp_path, WriteFile(), path="a.txt", content=large)
        outcome = await run(tmp_path, WriteFile(), prepared, path="a.txt", content=large)
        assert outcome == ToolOutcome("error", f"{tmp_path}/a.txt cannot be written: the disk is full.")
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
        assert await WriteFile().verify(prepared.changes) == "not_done"


@needs_mounts
async def test_a_file_that_is_a_mount_point_stays(tmp_path: Path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("old")
    outer.write_text("old")
    with mount_folder(inner, "--bind", str(outer)):
        prepared = await prepare(tmp_path, WriteFile(), path="inner", content="new")
        outcome = await run(tmp_path, WriteFile(), prepared, path="inner", content="new")
        assert "cannot be replaced as a whole" in outcome.content
        assert await WriteFile().verify(prepared.changes) == "not_done"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["inner", "outer"]


def test_leftovers_of_the_living_and_foreign_files_stay(tmp_path: Path):
    foreign = tmp_path / ".sandbur-notes.tmp"
    foreign.write_text("mine")
    dead = tmp_path / ".sandbur-0123456789ab.tmp"
    dead.write_text("half")
    with temporary_file(tmp_path / "a.txt", 0o600) as living:
        remove_leftovers(tmp_path)
        assert set(tmp_path.iterdir()) == {foreign, tmp_path / living.name}
    remove_leftovers(tmp_path)
    assert set(tmp_path.iterdir()) == {foreign}
