"""Git runs what a repository's configuration names: no wide rule covers that, and no edit makes a repository."""

import subprocess
from itertools import permutations
from pathlib import Path

import pytest
from support.tools.gate import command, judged

PARTS = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ../made\n",
    "objects/x": "x",
    "refs/x": "x",
}


def is_repository(folder: Path) -> bool:
    """Ask git itself whether it takes the very folder for a repository."""
    found = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=folder, capture_output=True, text=True)
    return found.returncode == 0 and Path(folder, found.stdout.strip()).resolve() == folder


def write_as_allowed(workspace: Path, parts: dict[str, str], order: tuple[str, ...]) -> Path:
    for name in order:
        path = workspace / name
        if judged(workspace, "write_file", "auto-edit", path=name).decision == "allow":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(parts[name])
    return workspace


def test_no_order_of_edits_makes_a_repository_unasked(tmp_path: Path) -> None:
    parts = {f"sub/{name}": text for name, text in PARTS.items()}
    for number, order in enumerate(permutations(parts)):
        workspace = tmp_path / str(number)
        workspace.mkdir()
        assert not is_repository(write_as_allowed(workspace, parts, order) / "sub"), order
    whole = tmp_path / "whole"
    for name, text in parts.items():
        (whole / name).parent.mkdir(parents=True, exist_ok=True)
        (whole / name).write_text(text)
    assert is_repository(whole / "sub")


def test_a_folder_that_borrows_from_another_is_no_way_around(tmp_path: Path) -> None:
    parts = {"sub/HEAD": PARTS["HEAD"], "sub/commondir": "../other", "other/objects/x": "x", "other/refs/x": "x"}
    for number, order in enumerate(permutations(parts)):
        workspace = tmp_path / str(number)
        workspace.mkdir()
        folder = write_as_allowed(workspace, parts, order) / "sub"
        folder.mkdir(exist_ok=True)
        assert not is_repository(folder), order


@pytest.mark.parametrize(
    "path", ["src/objects/player.py", "objects/a.py", "refs/paper.bib", "config", "docs/config", "a/refs/b/c",
             "HEAD.md", "objects", "src/hooks/use.ts", "head.html"]
)  # fmt: skip
def test_folders_that_are_called_so_by_chance_are_edited_unasked(tmp_path: Path, path: str) -> None:
    (tmp_path / "src" / "objects").mkdir(parents=True)
    (tmp_path / "a" / "refs").mkdir(parents=True)
    assert judged(tmp_path, "write_file", "auto-edit", path=path).decision == "allow"
