"""What a reader shows below a folder: by links that it follows, and of folders that git compares."""

import os
import subprocess
from pathlib import Path

import pytest
from support.row_by_row import for_each
from support.tools.gate import command

PLANTED = "7391846205"
FOLLOWS = (
    "grep -R 7 {}", "grep -R 7 {}/", "grep -nR 7 {}", "grep --dereference-recursive 7 {}", "egrep -R 7 {}",
    "fgrep -hR 7 {}", "rg -L 7 {}", "rg --follow 7 {}", "rg -uuL 7 {}", "rg -L --files-with-matches 7 {}",
    "diff -r {} empty", "diff empty {} -r", "diff -rN {} empty", "diff {} empty", "cd {} && grep -R 7",
    "cd {} && rg -L 7", "grep -R --include='*' 7 {}",
)  # fmt: skip
COMPARES = (
    "git diff {} empty", "git diff empty {}", "git diff -- {} empty", "git diff --stat -p {} empty",
    "git diff --no-index {} empty", "git diff --no-index -- empty {}", "git --no-pager diff {} empty",
    "git diff --word-diff {} empty", "git diff {}/a.txt {}", "git -C {} diff . ../empty",
    "git diff --no-index --stat -p empty {}",
)  # fmt: skip
"""Commands that show what differs between two folders, outside of a repository."""


@pytest.fixture(scope="module", params=["secret", "outside", "folder", "chain"])
def linked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose folder `src` has a link to a secret file, out of it, or to a folder with a secret."""
    work = tmp_path_factory.mktemp(request.param) / "work"
    for folder in ("src/deep", "empty", "keys", ".hidden"):
        (work / folder).mkdir(parents=True)
    (work / "src" / "a.txt").write_text("plain\n")
    for secret in (".env", "keys/server.pem", ".hidden/id_rsa", "../outside.txt"):
        (work / secret).write_text(f"{PLANTED}\n")
    target = {"secret": "../../.env", "outside": "../../../outside.txt", "folder": "../../keys"}
    (work / "src" / "deep" / "notes.txt").symlink_to(target.get(request.param, "../../empty"))
    if request.param == "chain":
        (work / "empty" / "more").symlink_to("../.hidden")
    return work


@for_each("form", FOLLOWS)
def test_a_reader_that_follows_links_asks_where_one_leads_to_a_secret_or_outside(
    linked: Path, form: str
) -> None:
    assert command(linked, form.format("src")).decision == "ask"


@for_each("form", ("grep -r 7 {}", "rg 7 {}", "find {} -ls", "ls -R {}", "tree {}", "du {}"))
def test_a_reader_that_follows_no_link_passes(linked: Path, form: str) -> None:
    text = form.format("src")
    assert command(linked, text).decision == "allow"
    assert PLANTED not in run(linked, text)


@for_each("form", COMPARES)
def test_git_asks_before_it_compares_folders_that_hold_a_secret(tmp_path: Path, form: str) -> None:
    key = tmp_path / "src" / "deep" / "server.pem"
    for folder in (key.parent, tmp_path / "empty"):
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "src" / "a.txt").write_text("plain\n")
    key.unlink(missing_ok=True)
    text = form.replace("{}", "src")
    assert command(tmp_path, text).decision == "allow"
    key.write_text(PLANTED)
    assert command(tmp_path, text).decision == "ask"


def test_git_asks_before_it_compares_files_of_two_folders_of_which_one_is_no_repository(
    tmp_path: Path,
) -> None:
    repository, added = tmp_path / "work", tmp_path / "added"
    subprocess.run(["git", "init", "-q", repository], check=True)
    for folder in (repository / "src", added):
        folder.mkdir()
    (added / ".env").write_text(PLANTED)
    (repository / "src" / ".env").write_text(PLANTED)
    assert command(repository, "git diff src ../added", add_dirs=[added]).decision == "ask"
    assert command(repository, "git diff HEAD src").decision == "allow"


def test_links_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "other").symlink_to("../" + {"a": "b", "b": "a"}[name])
        (tmp_path / name / "all").symlink_to("..")
    assert command(tmp_path, "grep -R x a").decision == "allow"
    (tmp_path / "b" / ".env").write_text(PLANTED)
    assert command(tmp_path, "grep -R x a").decision == "ask"


def run(folder: Path, text: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=20
    )
    return done.stdout
