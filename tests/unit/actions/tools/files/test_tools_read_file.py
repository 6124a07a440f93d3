"""Reading pages of real files."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.read_file import ReadFile


async def read(folder: Path, path: str, **options: int) -> ToolOutcome:
    tool = ReadFile()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"path": path, **options})), context)


async def test_lines_come_with_their_numbers(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("one\n\n  three\n")
    assert await read(tmp_path, "a.txt") == ToolOutcome("ok", "     1\tone\n     2\t\n     3\t  three")


async def test_a_page_tells_how_much_is_left_and_where_to_go_on(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    first = (await read(tmp_path, "a.txt")).content.split("\n")
    assert (first[0], first[1999]) == ("     1\tline 1", "  2000\tline 2000")
    assert first[2000:] == ["[lines 1-2000 shown; 3,000 left; go on with offset 2001]"]
    last = (await read(tmp_path, "a.txt", offset=4999, limit=50)).content
    assert last == "  4999\tline 4999\n  5000\tline 5000"
    middle = (await read(tmp_path, "a.txt", offset=10, limit=1)).content
    assert middle == "    10\tline 10\n[lines 10-10 shown; 4,990 left; go on with offset 11]"


async def test_pages_put_together_are_the_file(tmp_path: Path):
    lines = [f"{n} " + "x" * (n % 900) for n in range(3000)]
    tmp_path.joinpath("a.txt").write_text("\n".join(lines))
    offset, found = 1, []
    while True:
        *page, last = (await read(tmp_path, "a.txt", offset=offset)).content.split("\n")
        if not last.startswith("[lines"):
            found += [*page, last]
            break
        found += page
        offset = int(last.rsplit(" ", 1)[1].rstrip("]"))
    assert [line.split("\t", 1)[1] for line in found] == lines


async def test_a_page_has_at_most_fifty_kilobytes(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text(("é" * 500 + "\n") * 1000)
    content = (await read(tmp_path, "a.txt")).content
    assert 45_000 < len(content.encode()) < 50_200
    assert "left; go on with offset" in content


async def test_a_long_line_is_cut_with_its_length_told(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_bytes(b"x" * 10_000_000 + b"\nshort\n" + b"y" * 2001)
    first, second, third = (await read(tmp_path, "a.txt")).content.split("\n")
    assert first == "     1\t" + "x" * 2000 + "... [line cut; it has 10,000,000 bytes]"
    assert second == "     2\tshort"
    assert third.endswith("... [line cut; it has 2,001 bytes]")


@pytest.mark.parametrize(
    ("encoding", "mark", "told"),
    [
        ("utf-8", b"\xef\xbb\xbf", ""),
        ("utf-8", b"", ""),
        ("utf-16-le", b"\xff\xfe", "\n[encoding: UTF-16-LE]"),
        ("utf-16-be", b"\xfe\xff", "\n[encoding: UTF-16-BE]"),
        ("utf-16-le", b"", "\n[encoding: UTF-16-LE]"),
        ("utf-32-le", b"\xff\xfe\x00\x00", "\n[encoding: UTF-32-LE]"),
        ("latin-1", b"", "\n[encoding: LATIN-1]"),
    ],
)
async def test_an_encoding_is_recognised(tmp_path: Path, encoding: str, mark: bytes, told: str):
    tmp_path.joinpath("a.txt").write_bytes(mark + "Straße\r\ncafé au lait\r\n".encode(encoding))
    outcome = await read(tmp_path, "a.txt")
    assert outcome == ToolOutcome("ok", f"     1\tStraße\n     2\tcafé au lait{told}")


async def test_a_character_on_the_border_of_the_sample_is_no_other_encoding(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_bytes(b"a" * 65_535 + "é\nnext é\n".encode())
    assert "next é" in (await read(tmp_path, "a.txt", offset=2)).content


async def test_a_late_latin1_line_is_still_shown(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_bytes(b"ascii line\n" * 10_000 + b"caf\xe9\n")
    assert (await read(tmp_path, "a.txt", offset=10_001)).content == " 10001\tcafé"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10, "PNG image"),
        (b"%PDF-1.7\nplain so far\n", "PDF document"),
        (b"\x7fELF" + bytes(500), "ELF program or library"),
        (os.urandom(200) + b"\0" * 400, "unknown type"),
        (b"\x1f\x8b" + bytes(range(128, 256)) * 3 + bytes(range(1, 32)) * 5, "gzip archive"),
    ],
)
async def test_a_binary_file_is_refused_with_size_and_type(tmp_path: Path, content: bytes, kind: str):
    tmp_path.joinpath("a.bin").write_bytes(content)
    outcome = await read(tmp_path, "a.bin")
    assert outcome.outcome == "error"
    size = f"{len(content)} bytes" if len(content) < 1000 else f"{len(content) / 1000:.1f} KB"
    assert f"is a binary file ({kind}, {size})" in outcome.content


async def test_an_empty_file_is_called_empty(tmp_path: Path):
    tmp_path.joinpath("a.txt").touch()
    tmp_path.joinpath("mark.txt").write_bytes(b"\xef\xbb\xbf")
    assert (await read(tmp_path, "a.txt")).content == f"[{tmp_path}/a.txt is empty: 0 bytes]"
    assert (await read(tmp_path, "mark.txt")).content == f"[{tmp_path}/mark.txt is empty: 3 bytes]"


async def test_an_offset_behind_the_end_is_an_error_that_tells_the_length(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("1\n2\n3")
    outcome = await read(tmp_path, "a.txt", offset=4)
    assert outcome.outcome == "error"
    assert "has only 3 lines" in outcome.content


async def test_a_missing_file_brings_similar_names(tmp_path: Path):
    tmp_path.joinpath("README.md").touch()
    outcome = await read(tmp_path, "readme.txt")
    assert outcome.outcome == "error"
    assert "does not exist. Similar names there: README.md." in outcome.content


async def test_a_missing_folder_names_the_last_one_that_exists(tmp_path: Path):
    outcome = await read(tmp_path, "no/such/file")
    assert outcome.content.endswith(f"the nearest folder above it that exists is {tmp_path}.")


async def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("broken").symlink_to("nowhere")
    tmp_path.joinpath("circle").symlink_to("circle")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        expected = {
            "pipe": "is a named pipe",
            "folder": "is a folder; use list_directory",
            "broken": "is a link to a file that does not exist",
            "circle": "its links form a cycle",
            "socket": "is a socket",
            "/dev/zero": "is a character device",
        }
        for path, told in expected.items():
            async with asyncio.timeout(2):
                outcome = await read(tmp_path, path)
            assert (outcome.outcome, told in outcome.content) == ("error", True), outcome.content


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_is_an_error(tmp_path: Path):
    tmp_path.joinpath("a.txt").touch(0o000)
    assert (await read(tmp_path, "a.txt")).content.endswith("cannot be read: permission denied.")


async def test_a_huge_file_is_paged_without_being_held_in_memory(tmp_path: Path):
    with tmp_path.joinpath("a.txt").open("wb") as file:
        for _ in range(1000):
            file.write(b"0123456789abcdef\n" * 6000)
    content = (await read(tmp_path, "a.txt", offset=5_999_999)).content
    assert content == "5999999\t0123456789abcdef\n6000000\t0123456789abcdef"


async def test_a_path_may_start_at_home():
    assert (await read(Path("/"), "~")).content.startswith(f"{Path.home()} is a folder")


async def test_a_name_that_is_no_utf8_is_still_shown(tmp_path: Path):
    tmp_path.joinpath(os.fsdecode(b"bad\xff.txt")).touch()
    assert "Similar names there: bad\ufffd.txt" in (await read(tmp_path, "bad.txt")).content
