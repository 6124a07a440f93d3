"""The tutorial works: its commands run one after the other in one shell, and print what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import PYTHONPATH, ROOT

PAGE = (ROOT / "docs/first-hour.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.M | re.S)

VARYING = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"demo_[0-9a-f]{16}", "CALL"),
    (r"\b\d+(\.\d+)?k? tokens", "N tokens"),
    (r"\b\d+\.\d+ ?s\b", "N s"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d \((.* ago|just now)\)", "TIME"),
    (r"(?<=[ ^])/[\w/.-]+/shop\b", "FOLDER"),
)
"""What differs from one run of the tutorial to the next, and what stands for it."""


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "sandbur"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sandbur.ui.cli.main "$@"\n')
    program.chmod(0o755)
    commands = [text for kind, text in BLOCKS if kind == "sh"]
    script = "exec 2>&1\n" + "".join(f"{text}\necho '=== end of a block'\n" for text in commands)
    env = {
        "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "SANDBUR_LEASE_S": "4",
        "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": PYTHONPATH, "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=400,
    )  # fmt: skip
    printed = iter(done.stdout.split("=== end of a block\n"))
    output = ""
    for kind, text in BLOCKS:
        if kind == "sh":
            output = next(printed)
        else:
            assert_in_order(text.splitlines(), output)
    assert (tmp_path / "shop/notes.txt").read_text() == "hello\n"
    assert (tmp_path / "shop/plan.txt").read_text() == "one\n"


def assert_in_order(lines: list[str], output: str) -> None:
    """Hold each line of the page to be a line of the output, in this order, except for what varies."""
    printed = iter(mask_varying(output).splitlines())
    for line in lines:
        assert mask_varying(line) in printed, f"{line!r} is missing or comes too early in:\n{output}"


def mask_varying(text: str) -> str:
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return text
