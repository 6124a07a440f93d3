"""Which files of a command line an approval covers."""

from pathlib import Path

import pytest

from sandbur.actions.tools.shell.scripts import scripts_of

PROGRAMS = (
    "make", "gmake", "just", "npm", "pnpm", "yarn", "tox", "nox", "rake", "invoke", "python", "bash",
    "sh", "node", "ruby", "env", "sudo", "nice", "cd", ".", "source",
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_without_any_word_is_looked_at_like_every_other(program: str, tmp_path: Path) -> None:
    assert list(scripts_of(program, tmp_path)) == list(scripts_of(f"{program} ", tmp_path))


def test_a_bare_program_reads_the_files_that_it_finds_in_its_folder(tmp_path: Path) -> None:
    assert str(tmp_path / "Makefile") in scripts_of("make", tmp_path)
    assert str(tmp_path / "package.json") in scripts_of("npm", tmp_path)
