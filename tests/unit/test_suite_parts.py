"""`tests/run` runs the part of the tests that its words name, each test once, and says what it left out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT, TESTS

CONFTEST = """
import pytest
from support.by_file import ByFile

pytest_plugins = ["support.flaky", "support.sampling", "support.skips"]

def pytest_configure(config):
    config.addinivalue_line("markers", "sampled: has many cases")
    config.pluginmanager.register(ByFile())

@pytest.fixture(scope="session")
def whole():
    yield
    print("the session ends")
"""
FIRST = """
import pytest

made = []

@pytest.fixture(scope="module")
def part(whole):
    made.append(1)

@pytest.mark.parametrize("number", range(3))
def test_shares(part, number):
    assert made == [1]

def test_fails():
    assert False, "this is broken"

@pytest.mark.skip(reason="the moon is not full")
def test_left_out(): pass
"""
MANY = """
import pytest

@pytest.mark.sampled
@pytest.mark.parametrize("number", range(30))
def test_many(number): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *words]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout


def test_each_file_is_imported_by_the_process_that_runs_it(folder: Path) -> None:
    (folder / "tests/test_first.py").write_text(FIRST)
    for name in ("second", "third"):
        mark = (
            f"from pathlib import Path\nPath('{name}').open('a').write('x')\ndef test_passes(whole): pass\n"
        )
        (folder / f"tests/test_{name}.py").write_text(mark)
    (folder / "tests/test_broken.py").write_text("import no_such_module\n")
    shown = run(folder, "--numprocesses=2", "--dist=load", "--maxschedchunk=1", "--keep-failures=kept.json")
    assert "1 failed, 5 passed, 1 skipped, 1 error" in shown
    assert "ModuleNotFoundError: No module named 'no_such_module'" in shown
    assert (folder / "second").read_text() == (folder / "third").read_text() == "x"
    assert "1 in tests/test_first.py: the moon is not full" in shown
    assert "tests/test_broken.py" in (folder / "kept.json").read_text()


def test_three_parts_are_all_cases_and_each_says_what_it_left_out(folder: Path) -> None:
    (folder / "tests/test_many.py").write_text(MANY)
    ran: list[str] = []
    for part in ("1/3", "2/3", "3/3"):
        shown = run(folder, f"--sample={part}", "--numprocesses=1")
        chosen = set(re.findall(r"test_many\[\d+\]", shown))
        assert f"Left out: many {30 - len(chosen)} of 30." in shown
        ran += chosen
    assert len(ran) == len(set(ran)) == 30


def ask(program: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(TESTS), "CI": ""}
    line = [sys.executable, "-c", program]
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def test_every_extension_has_tests_and_the_core_has_none_of_them() -> None:
    program = (
        "from selection import list_core, list_wing, list_wings\n"
        "wings = {name: list_wing(name) for name in list_wings()}\n"
        "print([name for name, files in wings.items() if not files])\n"
        "of_wings = {file for files in wings.values() for file in files}\n"
        "print(of_wings.intersection(list_core()))\n"
        "print(all(file.exists() for files in (list_core(), *wings.values()) for file in files))"
    )
    assert ask(program) == "[]\nset()\nTrue\n"


@pytest.mark.parametrize(
    ("words", "problem"), [("qick", "There is no qick:"), ("wing none", "no extension none")]
)
def test_an_unknown_word_is_answered_with_a_sentence(words: str, problem: str) -> None:
    line = [sys.executable, str(TESTS / "checks.py"), *words.split()]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
