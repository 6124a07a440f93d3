"""Writing real files: atomic, and in the form they had."""

import asyncio
import errno
import json
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.disk import run_in_thread
from sandbur.actions.tools.files.write_file import WriteFile
from sandbur.actions.workspace.atomic_write import replace_content
from sandbur.actions.workspace.paths import FileProblem, FileStat


async def write(folder: Path, path: str, content: str) -> ToolOutcome:
    tool = WriteFile()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"path": path, "content": content})), context)


async def test_a_new_file_and_its_folders_are_made(tmp_path: Path):
    outcome = await write(tmp_path, "new/deep/a.txt", "one\ntwo\n")
    assert outcome == ToolOutcome("ok", "Created new/deep/a.txt: 2 lines, 8 bytes.")
    assert tmp_path.joinpath("new/deep/a.txt").read_bytes() == b"one\ntwo\n"


async def test_a_new_file_has_the_mode_that_the_umask_allows(tmp_path: Path):
    old = os.umask(0o027)
    try:
        await write(tmp_path, "a.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE(tmp_path.joinpath("a.txt").stat().st_mode) == 0o640


async def test_an_overwritten_file_shows_what_changed(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("one\ntwo\nthree")
    outcome = await write(tmp_path, "a.txt", "one\n2\nthree")
    assert outcome.content.split("\n") == [
        "Overwrote a.txt: 3 lines, 11 bytes.",
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "+2",
        " three",
        "\\ No newline at end of file",
    ]


async def test_writing_the_same_content_says_so(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("same\n")
    assert "The content is the same as before." in (await write(tmp_path, "a.txt", "same\n")).content


async def test_mode_and_attributes_stay(tmp_path: Path):
    path = tmp_path / "run.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o4751)
    os.setxattr(path, "user.note", b"kept")
    await write(tmp_path, "run.sh", "#!/bin/bash\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o4751
    assert os.getxattr(path, "user.note") == b"kept"


async def test_a_link_stays_a_link(tmp_path: Path):
    tmp_path.joinpath("real.txt").write_text("old")
    tmp_path.joinpath("one").symlink_to("two")
    tmp_path.joinpath("two").symlink_to("real.txt")
    await write(tmp_path, "one", "new")
    assert tmp_path.joinpath("one").is_symlink()
    assert tmp_path.joinpath("two").is_symlink()
    assert tmp_path.joinpath("real.txt").read_text() == "new"


async def test_a_dangling_link_gets_its_target(tmp_path: Path):
    tmp_path.joinpath("link").symlink_to("target.txt")
    await write(tmp_path, "link", "new")
    assert tmp_path.joinpath("link").is_symlink()
    assert tmp_path.joinpath("target.txt").read_text() == "new"


async def test_other_names_of_the_file_are_told_of(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    tmp_path.joinpath("b.txt").hardlink_to(path)
    outcome = await write(tmp_path, "a.txt", "new")
    assert "had 2 names (hard links); the others keep the old content" in outcome.content
    assert (path.read_text(), tmp_path.joinpath("b.txt").read_text()) == ("new", "old")


@pytest.mark.parametrize(
    ("old", "content", "stored"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"a\nb\n", "c\r\nd\r\n", b"c\r\nd\r\n"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffc\n", b"\xef\xbb\xbfc\n"),
        (b"\xff\xfe" + "ä\r\n".encode("utf-16-le"), "ö\n", b"\xff\xfe" + "ö\r\n".encode("utf-16-le")),
        ("café\n".encode("latin-1"), "naïve\n", "naïve\n".encode("latin-1")),
        ("café\n".encode("latin-1"), "5 €\n", "5 €\n".encode()),
        (b"", "new\n", b"new\n"),
        (b"\x00\x01\x02" * 50, "text\n", b"text\n"),
    ],
)
async def test_a_file_keeps_its_form_where_it_can(tmp_path: Path, old: bytes, content: str, stored: bytes):
    tmp_path.joinpath("a.txt").write_bytes(old)
    outcome = await write(tmp_path, "a.txt", content)
    assert outcome.outcome == "ok"
    assert tmp_path.joinpath("a.txt").read_bytes() == stored
    assert f"{len(stored)} bytes." in outcome.content


async def test_a_change_of_the_encoding_is_told(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_bytes("café\n".encode("latin-1"))
    assert "was LATIN-1, which cannot hold the new content" in (await write(tmp_path, "a.txt", "€")).content


async def test_what_cannot_be_replaced_stays_as_it_is(tmp_path: Path):
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("file").write_text("file")
    tmp_path.joinpath("circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    expected = {
        "folder": "is a folder",
        "pipe": "is a named pipe",
        "circle": "its links form a cycle",
        "/dev/null": "is a character device",
    }
    for path, told in expected.items():
        async with asyncio.timeout(2):
            outcome = await write(tmp_path, path, "x")
        assert (outcome.outcome, told in outcome.content) == ("error", True), outcome.content
    assert (await write(tmp_path, "file/below", "x")).outcome == "error"
    assert (await write(tmp_path, "n" * 300, "x")).content.endswith("the name is too long.")
    assert tmp_path.joinpath("file").read_text() == "file"


def test_a_full_disk_leaves_the_old_content_and_no_rest(tmp_path: Path):
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from sandbur.actions.workspace.atomic_write import replace_content\n"
        "try: replace_content(Path(sys.argv[1]), b'x' * 1_000_000, None)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    path = tmp_path / "a.txt"
    path.write_text("old")
    ran = subprocess.run(["python3", "-c", script, path], capture_output=True, text=True, check=True)
    why = "the system allows no larger file; raise ulimit -f"
    assert ran.stdout == f"FileProblem {path} cannot be written: {why}.\n"
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_the_disk_being_full_is_said_in_words(tmp_path: Path):
    full = Path("/dev/full")
    from sandbur.actions.workspace.paths import make_file_problem

    with full.open("wb", buffering=0) as file, pytest.raises(OSError) as caught:  # noqa: PT011
        file.write(b"x")
    assert caught.value.errno == errno.ENOSPC
    assert (
        str(make_file_problem(tmp_path, caught.value, "written"))
        == f"{tmp_path} cannot be written: the disk is full."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_read_only_file_or_folder_is_respected(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("old")
    tmp_path.joinpath("a.txt").chmod(0o444)
    assert "is read-only" in (await write(tmp_path, "a.txt", "new")).content
    tmp_path.joinpath("b.txt").write_text("old")
    tmp_path.chmod(0o555)
    try:
        assert "its folder accepts no new files" in (await write(tmp_path, "b.txt", "new")).content
    finally:
        tmp_path.chmod(0o755)
    assert tmp_path.joinpath("a.txt").read_text() + tmp_path.joinpath("b.txt").read_text() == "oldold"


async def test_a_reader_sees_the_old_or_the_new_content_and_never_a_mix(tmp_path: Path):
    path = tmp_path / "a.txt"
    versions = {letter * 300_000 for letter in "ab"}
    path.write_text("a" * 300_000)
    seen: set[str] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            seen.add(path.read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for round_number in range(20):
        await write(tmp_path, "a.txt", "ab"[round_number % 2] * 300_000)
    is_over.set()
    watcher.join()
    assert seen <= versions
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_stale_write_is_refused(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("read")
    version = FileStat.of(path.stat())
    path.write_text("changed by somebody else")
    with pytest.raises(FileProblem, match="changed by another program meanwhile"):
        replace_content(path, b"mine", version)
    assert path.read_text() == "changed by somebody else"


async def test_a_cancelled_write_tells_what_it_did(tmp_path: Path):
    started = threading.Event()

    def work() -> str:
        started.set()
        threading.Event().wait(0.2)
        tmp_path.joinpath("a.txt").write_text("done")
        return "Created a.txt"

    task = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.args == ("Created a.txt",)
    assert tmp_path.joinpath("a.txt").read_text() == "done"


async def test_a_placeholder_is_not_written_over_the_secret_that_it_stands_for(tmp_path: Path):
    path = tmp_path / ".env"
    path.write_text("KEY=real\nMODE=a\n")
    outcome = await write(tmp_path, ".env", "KEY=[masked value of KEY]\nMODE=b\n")
    assert (outcome.outcome, "Edit the text around it" in outcome.content) == ("error", True)
    assert path.read_text() == "KEY=real\nMODE=a\n"
    assert (await write(tmp_path, "new.env", "KEY=[masked value of KEY]\n")).outcome == "error"
    assert not tmp_path.joinpath("new.env").exists()


async def test_a_placeholder_that_the_file_has_itself_may_stay(tmp_path: Path):
    path = tmp_path / "notes.md"
    path.write_text("A secret is shown as [masked value].\n")
    assert (await write(tmp_path, "notes.md", "It is shown as [masked value].\n")).outcome == "ok"
    path.write_bytes(b"\0\1\2[masked value]" * 9)
    assert (await write(tmp_path, "notes.md", "[masked value]\n")).outcome == "ok"
