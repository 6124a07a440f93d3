"""The page about testing: its programs are tests, and they pass as a person would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

import sandbur.testing

PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_programs_of_the_page_pass(tmp_path: Path) -> None:
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"test_block_{number}.py").write_text(program)
    line = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    tests = sum(program.count("def test_") for program in PROGRAMS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout


@pytest.mark.parametrize("name", sandbur.testing.__all__)
def test_the_page_names_whatever_is_public(name: str) -> None:
    if name not in ("ScriptEnded", "TemporaryStore"):
        assert re.search(rf"\b{name}\b", PAGE)
    assert getattr(sandbur.testing, name).__doc__
