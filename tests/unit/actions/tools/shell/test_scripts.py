"""Which files of a command line an approval covers."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples.commands import CATASTROPHES, DENIED, HARMLESS, MENTIONS, READS, UNSAFE

from sandbur.actions.tools.shell.language.scripts import files_named

PROGRAMS = (
    "make", "gmake", "just", "npm", "pnpm", "yarn", "tox", "nox", "rake", "invoke", "python", "bash",
    "sh", "node", "ruby", "env", "sudo", "nice", "cd", ".", "source",
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_without_any_word_is_looked_at_like_every_other(program: str, tmp_path: Path) -> None:
    assert files_named(program, tmp_path, tmp_path) == files_named(f"{program} ", tmp_path, tmp_path)


def test_a_bare_program_reads_the_files_that_it_finds_in_its_folder(tmp_path: Path) -> None:
    assert str(tmp_path / "Makefile") in files_named("make", tmp_path, tmp_path).paths
    assert str(tmp_path / "package.json") in files_named("npm", tmp_path, tmp_path).paths


PIECES = st.sampled_from((
    "bash", "python3", "-m", "pytest", "make", "-C", "..", "/", "~", "*", "[z-a]", "[[", "**/*", "{a,b}",
    "$X", "$(", ")", "`", "'", '"', "<<E\n", "|", "<", ">", "&&", "@", "-f", "-", "--=", "\0", "\ud800",
    "//x.py", "a.sh", "=", " ", "\n", "x" * 5000,
))  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_no_command_line_whatsoever_fails_to_be_looked_at(pieces: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = files_named(" ".join(pieces), Path(folder), Path(folder))
        joined = files_named("".join(pieces), Path(folder), Path(folder))
    assert all(path.startswith("/") for path in (*found.paths, *joined.paths))


def test_every_command_of_the_corpora_is_looked_at_within_the_limits(tmp_path: Path) -> None:
    for command in (*READS, *UNSAFE, *CATASTROPHES, *HARMLESS, *DENIED, *MENTIONS):
        found = files_named(command, tmp_path, tmp_path)
        assert len(found.paths) <= 20
        assert not any(path.startswith(("/usr/", "/bin/", "/etc/")) for path in found.paths)


def test_what_is_beyond_the_limits_is_told_and_never_silent(tmp_path: Path) -> None:
    for number in range(6000):
        (tmp_path / f"{number}.txt").touch()
    for command in (
        "sh x.sh *.txt",
        f"sh {' '.join(f'{number}.txt' for number in range(101))}",
        f"python3 - <<E\n{' '.join(f'word{number}' for number in range(1100))}\nE",
        "bash */*/*/x.sh",
        "pytest",
    ):
        assert not files_named(command, tmp_path, tmp_path).is_complete, command[:40]
        assert len(files_named(command, tmp_path, tmp_path).paths) <= 100
    assert files_named("sh x.sh 1.txt 2.txt", tmp_path, tmp_path).is_complete
    many = tmp_path / "deep"
    for name in "abcdefghij":
        (many / name).mkdir(parents=True)
    assert not files_named("make -C a -C b -C c d e f g h i j", many, many).is_complete


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert files_named("sh x.sh pipe", tmp_path, tmp_path).paths == (str(tmp_path / "x.sh"),)
