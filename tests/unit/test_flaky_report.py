"""A test that passes only when it is tried again is named, with what it showed when it failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

TESTS = """
from pathlib import Path

def test_passes(): pass

def test_passes_at_the_second_try():
    tried = Path("tried")
    print("the screen of then")
    was_tried = tried.exists()
    tried.touch()
    assert was_tried, "the prompt is not shown"

def test_fails_always():
    assert False, "this is broken"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text('pytest_plugins = ["support.flaky"]\n')
    (tests / "test_some.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("first", [(), ("--numprocesses", "2")])
def test_a_test_that_passes_at_its_second_try_is_reported_with_its_first_failure(
    folder: Path, first: tuple[str, ...]
) -> None:
    (folder / "kept.json").write_text("{}")  # of a run before
    assert "FLAKY" not in run(folder, "--keep-failures=kept.json", *first)
    (shown,) = run(folder, "--retry-of=kept.json").split("FLAKY ")[1:]
    assert shown.startswith("tests/test_some.py::test_passes_at_the_second_try")
    assert "the prompt is not shown" in shown
    assert "the screen of then" in shown


def test_the_second_try_of_all_tests_is_made_with_what_the_first_kept() -> None:
    text = (ROOT / "tests/checks.py").read_text("utf-8")
    assert 'f"--keep-failures={FAILURES}"' in text
    assert 'f"--retry-of={FAILURES}"' in text
