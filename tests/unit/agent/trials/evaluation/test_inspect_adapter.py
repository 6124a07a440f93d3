"""Agents and suites run in real evaluations of inspect-ai, where a Python has it.

`tests/run` installs it without what it depends on, which is enough to check types. The whole takes 75 s of
CPU time, more than a run of the checks should spend on one adapter. Set it up once:
python -m venv .venv/inspect && .venv/inspect/bin/pip install -e '.[inspect]'
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.required import lacks
from support.tool_servers import foreign_schemas

PYTHON = Path(os.environ.get("SANDBUR_INSPECT_PYTHON", Path(sys.prefix, "inspect", "bin", "python")))
PROGRAM = ROOT / "tests/support/commands/inspect_evaluation.py"
PAGE = (ROOT / "docs/evaluation.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```python\n(from inspect_ai .*?)```", PAGE, re.S)
needs_inspect = pytest.mark.skipif(
    not PYTHON.exists(),
    reason="needs inspect-ai: python -m venv .venv/inspect && .venv/inspect/bin/pip install -e '.[inspect]'",
)


def evaluate(folder: Path, what: str, **more: str) -> subprocess.CompletedProcess[str]:
    names = ("PATH", "LANG", "TMPDIR")
    env = {name: os.environ[name] for name in names if name in os.environ}
    env |= {"HOME": str(folder), "SANDBUR_HOME": f"{folder}/data", "EVALUATION_FOLDER": str(folder), **more}
    line = [str(PYTHON), str(PROGRAM), what]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)


def read_sample(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_adapters_and_the_example_of_the_page_fit_the_types_of_their_harnesses(tmp_path: Path) -> None:
    harnesses = Path(sys.prefix, "harnesses")
    if not harnesses.is_dir():
        lacks("the packages of the harnesses are not here: tests/run installs them.")
    adapters = ROOT / "agent/review/evaluation/adapters"
    (tmp_path / "capitals.py").write_text(EXAMPLE)
    config = {
        # Only relative paths are taken.
        "include": ["capitals.py", *(os.path.relpath(one, tmp_path) for one in adapters.glob("*.py"))],
        "extraPaths": [str(harnesses)],
        "pythonVersion": "3.12",
        "typeCheckingMode": "strict",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    line = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "0 errors, 0 warnings, 0 informations\n"


@needs_inspect
@pytest.mark.slow
def test_a_killed_evaluation_goes_on_by_its_log_and_repeats_no_effect(tmp_path: Path) -> None:
    assert evaluate(tmp_path, "pay").returncode == -signal.SIGKILL
    sample = read_sample(evaluate(tmp_path, "retry"))
    assert (tmp_path / "payments").read_text() == "paid\n"
    assert [role for role, _ in sample["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert "It may or may not have taken effect." in sample["messages"][2][1]
    assert sample["status"] == "success"
    assert sample["calls"] == 1, "the first request was not sent again"


@needs_inspect
@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "capitals.py").write_text(EXAMPLE)
    sample = read_sample(evaluate(tmp_path, "page"))
    assert (sample["status"], sample["scores"]) == ("success", {"includes": "C"})


@needs_inspect
@pytest.mark.slow
def test_the_scorer_finds_what_the_agent_wrote_in_the_local_sandbox(tmp_path: Path) -> None:
    sample = read_sample(evaluate(tmp_path, "write"))
    assert sample["scores"] == {"answer_in_sandbox": True}
    assert (sample["calls"], sample["tokens"]) == (2, 210)


@needs_inspect
@pytest.mark.slow
def test_a_limit_of_inspect_ends_the_sample_as_a_limit(tmp_path: Path) -> None:
    sample = read_sample(evaluate(tmp_path, "limit"))
    assert (sample["limit"], sample["error"], sample["calls"]) == ("token", None, 1)


@needs_inspect
@pytest.mark.slow
def test_a_suite_is_a_task_of_inspect(tmp_path: Path) -> None:
    assert read_sample(evaluate(tmp_path, "suite"))["scores"] == {"sandbur_suite_check": 1.0}


@needs_inspect
@pytest.mark.slow
def test_the_turns_of_a_task_run_before_its_instruction(tmp_path: Path) -> None:
    sample = read_sample(evaluate(tmp_path, "session"))
    assert sample["scores"] == {"sandbur_suite_check": 1.0}
    assert "Summary of what came before" in sample["messages"][0][1], "`/compact` ran twice"
    assert sample["messages"][-1] == ["assistant", "Noted: 6543"]


@needs_inspect
@pytest.mark.slow
def test_earlier_sessions_of_a_task_run_first_and_its_check_measures_them(tmp_path: Path) -> None:
    sample = read_sample(evaluate(tmp_path, "project"))
    assert sample["scores"] == {"sandbur_suite_check": 1.0}
    assert sample["metrics"] == [{"saved": 1.0, "found": 1.0}]


@needs_inspect
@pytest.mark.slow
def test_a_task_that_brings_tools_offers_none_of_the_agent(tmp_path: Path) -> None:
    sample = read_sample(evaluate(tmp_path, "tools", PYTHONPATH=str(foreign_schemas.folder().parents[1])))
    assert sample["scores"] == {"sandbur_suite_check": 1.0}
    assert [role for role, _ in sample["messages"]] == ["user", "assistant"], "the agent has `write_file`"


@pytest.mark.parametrize(("module", "package"), [("inspect", "inspect-ai"), ("harbor", "harbor")])
def test_without_its_package_an_adapter_says_what_to_install(module: str, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sandbur.{module}"], capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: sandbur.{module} needs the package {package}")
    assert "pip install" in last
