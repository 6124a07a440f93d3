"""The page about headless runs: its examples run, and its tables are those of the program."""

import re
import subprocess
import sys

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur.ui.commands.setup.help import EXIT_CODES
from sandbur.ui.headless.stream_json.output_lines import GarbageLine, parse_line

PAGE = (ROOT / "docs/headless.md").read_text("utf-8")


def test_the_exit_codes_are_those_of_the_program() -> None:
    table = PAGE.split("## Exit codes")[1]
    assert re.findall(r"^\| (\d+) \| (.*) \|$", table, re.M) == [(str(code), why) for code, why in EXIT_CODES]


def test_every_line_of_the_table_is_taken() -> None:
    lines = re.findall(r"^\| `(\{.*?\})` \|", PAGE, re.M)
    assert len(lines) == 8
    assert not [line for line in lines if isinstance(parse_line(line.encode()), GarbageLine)]


@pytest.mark.parametrize("block", re.findall(r"```sh\n(.*?)```", PAGE, re.S))
def test_the_examples_run(command: Command, block: str) -> None:
    run = f'sandbur() {{ "{sys.executable}" -m sandbur.ui.cli.main "$@"; }}\nset -e\n{block}'
    git = block.replace("git log -1", "echo a commit")
    done = subprocess.run(
        ["sh", "-c", run.replace(block, git)], cwd=command.folder, env=command.env, capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout.lower() or "hi" in done.stdout
