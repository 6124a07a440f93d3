"""Links that change while a tool works: what it opens is what was judged, or nothing."""

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.required import needs
from support.victims.link_races import SECRET, race

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.tools.files.glob import Glob
from sandbur.actions.tools.files.grep import Grep
from sandbur.actions.tools.files.list_directory import ListDirectory
from sandbur.actions.tools.files.read_file import ReadFile
from sandbur.actions.tools.files.write_file import WriteFile
from sandbur.actions.workspace.safe_open import (
    LinkInTheWay,
    PathScope,
    open_by_walking,
    open_or_make_folder,
    open_real_path,
)

pytestmark = pytest.mark.slow

needs_exchange = pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two names at once")
needs_ripgrep = needs("rg")


@needs_exchange
@pytest.mark.parametrize(
    ("tool", "arguments", "times"),
    [
        (ReadFile(), {"path": "folder/file"}, 500),
        (ReadFile(), {"path": "file"}, 500),
        (WriteFile(), {"path": "folder/file", "content": "new\n"}, 300),
        (WriteFile(), {"path": "folder/new/deep", "content": "new\n"}, 300),
        (WriteFile(), {"path": "file", "content": "new\n"}, 300),
        (ListDirectory(), {"path": "folder"}, 500),
        (Glob(use_ripgrep=False), {"pattern": "**/*only*"}, 300),
        (Glob(use_ripgrep=False), {"pattern": "*", "path": "folder"}, 300),
        (Grep(use_ripgrep=False), {"pattern": "stays|only"}, 15),
        pytest.param(Glob(), {"pattern": "**/*only*"}, 40, marks=needs_ripgrep),
        pytest.param(Grep(), {"pattern": "stays|only"}, 20, marks=needs_ripgrep),
        pytest.param(Grep(), {"pattern": "stays|only", "path": "folder/file"}, 20, marks=needs_ripgrep),
    ],
)  # fmt: skip
async def test_no_swapped_link_leads_a_tool_outside(
    tmp_path: Path, tool: Any, arguments: dict[str, str], times: int
):
    with race(tmp_path) as running:
        found = await running.repeat(tool, times, **arguments)
    assert found.escaped == 0
    assert found.done + found.refused == times
    assert found.done


async def run(tool: Any, folder: Path, reach: PathScope, **arguments: str) -> ToolOutcome:
    context = ToolContext("c1", folder, lambda text: None, reach=reach)
    return await tool.run(tool.parse(json.dumps(arguments)), context)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Return a workspace with a link `out`, and the folder outside to which it leads."""
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    outside.joinpath("file").write_text(SECRET)
    root.joinpath("out").symlink_to(outside)
    return root, outside


CALLS = [
    (ReadFile(), {"path": "out/file"}),
    (WriteFile(), {"path": "out/file", "content": "new"}),
    (WriteFile(), {"path": "out/new/file", "content": "new"}),
    (EditFile(), {"path": "out/file", "old": SECRET, "new": ""}),
    (ListDirectory(), {"path": "out"}),
    (Glob(), {"pattern": "*", "path": "out"}),
    (Glob(), {"pattern": "../outside/*"}),
    (Grep(), {"pattern": "only", "path": "out"}),
    (Grep(), {"pattern": "only", "path": "out/file"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_path_that_leads_outside_is_refused_with_where_it_leads(
    places: tuple[Path, Path], tool: Any, arguments: dict[str, str]
):
    root, outside = places
    outcome = await run(tool, root, PathScope.of([root]), **arguments)
    assert outcome.outcome == "error"
    assert f"leads to {outside}" in outcome.content
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"file": SECRET}


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_an_outside_path_that_was_judged_is_opened(
    places: tuple[Path, Path], tool: Any, arguments: dict[str, str]
):
    root, outside = places
    judged = [str(outside), str(outside / "file"), str(outside / "new/file")]
    outcome = await run(tool, root, PathScope.of([root], judged), **arguments)
    assert outcome.outcome == "ok", outcome.content


async def test_a_link_within_the_workspace_that_leads_elsewhere_since_it_was_judged_is_refused(
    tmp_path: Path,
):
    for name in ("public", "private"):
        tmp_path.joinpath(name).write_text(name)
    link = tmp_path / "link"
    link.symlink_to("public")
    reach = PathScope.of([tmp_path], [str(tmp_path / "public")])
    assert "public" in (await run(ReadFile(), tmp_path, reach, path="link")).content
    link.unlink()
    link.symlink_to("private")
    refused = await run(ReadFile(), tmp_path, reach, path="link")
    assert (refused.outcome, f"leads to {tmp_path}/private" in refused.content) == ("error", True)


async def test_a_link_with_an_absolute_target_within_the_workspace_is_followed(tmp_path: Path):
    tmp_path.joinpath("file").write_text("here")
    tmp_path.joinpath("link").symlink_to(tmp_path / "file")
    reach = PathScope.of([tmp_path])
    assert "here" in (await run(ReadFile(), tmp_path, reach, path="link")).content
    assert (await run(WriteFile(), tmp_path, reach, path="link", content="new")).outcome == "ok"
    assert tmp_path.joinpath("link").is_symlink()


def by_kernel(path: str, flags: int) -> int:
    with open_real_path(path, flags) as descriptor:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 0)


@pytest.mark.parametrize("opened", [open_by_walking, by_kernel])
def test_both_ways_of_opening_refuse_a_link_on_the_way_and_at_the_end(tmp_path: Path, opened: Any):
    tmp_path.joinpath("real/deep").mkdir(parents=True)
    tmp_path.joinpath("real/deep/file").write_text("x")
    tmp_path.joinpath("link").symlink_to("real")
    tmp_path.joinpath("real/name").symlink_to("deep/file")
    descriptor = opened(str(tmp_path / "real/deep/file"), os.O_RDONLY)
    assert os.read(descriptor, 9) == b"x"
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    for path in ("link/deep/file", "real/name", "link"):
        with pytest.raises(LinkInTheWay):
            opened(str(tmp_path / path), os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        opened(str(tmp_path / "real/none/file"), os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        opened(str(tmp_path / "real/deep/file/more"), os.O_RDONLY)


@needs_exchange
def test_folders_are_never_made_through_a_swapped_link(tmp_path: Path):
    made = 0
    with race(tmp_path) as running:
        for number in range(300):
            try:
                with open_or_make_folder(running.root / f"folder/{number}/deep"):
                    made += 1
            except OSError:
                pass
        assert sorted(path.name for path in running.outside.iterdir()) == ["file", f"{SECRET}.txt"]
    assert made > 0
