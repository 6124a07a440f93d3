"""The page that compares names what is here, and its row about Sandbur is what its command prints."""

import os
import re
import subprocess
import sys

import pytest
from support.places import PYTHONPATH, ROOT

from sandbur.agent.runtime.version import VERSION

PAGE = (ROOT / "docs/comparison.md").read_text("utf-8")


@pytest.mark.slow
def test_a_killed_payment_happens_once_and_the_model_reads_that_its_outcome_is_unknown() -> None:
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    env.pop("SANDBUR_BENCH_PEERS", None)
    command = [sys.executable, str(ROOT / "tests/bench/peer_kills.py"), "--frameworks"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert f"sandbur {VERSION}: the effect happened 1 times" in done.stdout
    assert "This was running when the process died" in done.stdout
    assert f"| Sandbur {VERSION}, mode `yolo` | SQLite | `session.run()` | **1**" in PAGE


def test_every_command_of_the_page_is_a_program_that_exists() -> None:
    programs = re.findall(r"python (tests/\S+\.py)", PAGE)
    assert set(programs) == {f"tests/bench/{name}.py" for name in ("peers", "peer_kills", "all")}
    assert all((ROOT / name).exists() for name in programs)


def test_each_measured_table_has_a_date_and_versions() -> None:
    first, _, step = PAGE.split("\n## ")[1:4]
    sections = (first, step)
    assert all(re.search(r"\b2026-\d\d-\d\d, CPython 3\.11\.7\b", section) for section in sections)
    assert re.search(r"LangGraph \d+\.\d+\.\d+", first)
    assert re.search(r"pydantic-ai \d+\.\d+\.\d+ on DBOS \d+\.\d+\.\d+", first)
