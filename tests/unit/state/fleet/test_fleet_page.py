"""What `docs/fleet.md` shows is what happens, and its tables have every flag."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import PYTHONPATH, ROOT

from sandbur.ui.cli.grammar import arguments_of

PAGE = (ROOT / "docs" / "fleet.md").read_text("utf-8")
OF_WORKER, OF_FLEET = PAGE.split("## On a Ray cluster")


def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (shown,) = re.findall(r"```\n(heard .*?)```", PAGE, re.S)
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-c", block], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == (shown, "")


@pytest.mark.parametrize(("name", "part"), [("worker", OF_WORKER), ("fleet", OF_FLEET)])
def test_the_table_has_every_flag_of_the_command_and_no_other(name: str, part: str) -> None:
    flags = {flag for names, _ in arguments_of(name) for flag in names if flag.startswith("--")}
    rows = re.findall(r"^\| (`--.*?) \|", part, re.M)
    named = {flag for row in rows for flag in re.findall(r"--[a-z-]+", row)}
    of_every_command = {"--store", "--cd", "--quiet", "--help", "--json"}
    assert named <= flags
    assert flags - named <= of_every_command
