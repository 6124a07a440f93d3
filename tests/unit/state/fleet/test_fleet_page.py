"""What `docs/fleet.md` shows is what happens, and its table has every flag."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.places import PYTHONPATH, ROOT

from sandbur.ui.cli.grammar import arguments_of

PAGE = (ROOT / "docs" / "fleet.md").read_text("utf-8")


def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (shown,) = re.findall(r"```\n(heard .*?)```", PAGE, re.S)
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-c", block], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == (shown, "")


def test_the_table_has_every_flag_of_the_command_and_no_other() -> None:
    flags = {name for names, _ in arguments_of("worker") for name in names if name.startswith("--")}
    named = set(re.findall(r"^\| `(--[a-z]+)", PAGE, re.M))
    of_every_command = {"--store", "--cd", "--quiet", "--help"}
    assert named <= flags
    assert flags - named <= of_every_command
