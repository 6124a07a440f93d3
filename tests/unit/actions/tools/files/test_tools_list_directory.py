"""Listing real folders."""

import json
import os
from pathlib import Path

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.list_directory import ListDirectory


async def listed(folder: Path, path: str = ".") -> ToolOutcome:
    tool = ListDirectory()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"path": path})), context)


async def test_folders_come_first_then_files_with_sizes_and_links_with_targets(tmp_path: Path):
    tmp_path.joinpath("z_folder").mkdir()
    tmp_path.joinpath(".hidden").mkdir()
    tmp_path.joinpath("b.txt").write_bytes(b"x" * 12_345)
    tmp_path.joinpath("a.txt").write_bytes(b"x")
    tmp_path.joinpath("file_link").symlink_to("a.txt")
    tmp_path.joinpath("folder_link").symlink_to("z_folder")
    tmp_path.joinpath("broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    outcome = await listed(tmp_path)
    assert outcome.outcome == "ok"
    assert outcome.content.split("\n") == [
        f"{tmp_path}: 2 folders, 6 files",
        ".hidden/",
        "z_folder/",
        "a.txt (1 byte)",
        "b.txt (12.3 KB)",
        "broken -> nowhere (broken link)",
        "file_link -> a.txt",
        "folder_link -> z_folder/",
        "pipe (a named pipe)",
    ]


async def test_a_large_folder_is_capped_with_the_count(tmp_path: Path):
    for number in range(1203):
        tmp_path.joinpath(f"{number:04d}").touch()
    lines = (await listed(tmp_path)).content.split("\n")
    assert lines[0].endswith(": 0 folders, 1,203 files")
    assert (lines[1], lines[1000]) == ("0000 (0 bytes)", "0999 (0 bytes)")
    assert lines[1001:] == ["[203 more entries not shown; glob finds them by name]"]


async def test_an_empty_folder_is_told_by_its_heading(tmp_path: Path):
    assert (await listed(tmp_path)).content == f"{tmp_path}: 0 folders, 0 files"


async def test_strange_names_stay_on_their_line_and_are_valid_text(tmp_path: Path):
    tmp_path.joinpath("new\nline\x1b[31m").touch()
    tmp_path.joinpath(os.fsdecode(b"bad\xff")).touch()
    lines = (await listed(tmp_path)).content.split("\n")
    assert sorted(lines[1:]) == ["bad\ufffd (0 bytes)", "new\\nline\\x1b[31m (0 bytes)"]


async def test_what_is_no_folder_is_an_error(tmp_path: Path):
    tmp_path.joinpath("a.txt").touch()
    assert await listed(tmp_path, "a.txt") == ToolOutcome(
        "error", f"{tmp_path}/a.txt is not a folder; use read_file to read it."
    )
    assert "does not exist. Similar names there: a.txt." in (await listed(tmp_path, "a.tx")).content
