"""The wheel, installed and run by harbor's own machinery, where a Python has harbor.

Set it up once: python3.12 -m venv .venv/harbor && .venv/harbor/bin/pip install harbor
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur import Suite

PYTHON = Path(os.environ.get("SANDBUR_HARBOR_PYTHON", Path(sys.prefix, "harbor", "bin", "python")))
PROGRAM = ROOT / "tests/support/commands/harbor_trial.py"
SMOKE = ROOT / "agent/review/evaluation/suites/smoke"


@pytest.mark.slow
@pytest.mark.skipif(
    not PYTHON.exists(),
    reason="needs harbor: python3.12 -m venv .venv/harbor && .venv/harbor/bin/pip install harbor",
)
def test_harbor_installs_and_runs_the_agent_and_loads_every_task(wheel: Path, tmp_path: Path) -> None:
    inside = {
        "PATH": f"{Path(sys.base_prefix, 'bin')}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": os.pathsep.join(one for one in sys.path if one.endswith("site-packages")),
    }
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env |= {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **{f"TRIAL_{key}": value for key, value in inside.items()},
    }
    line = [str(PYTHON), str(PROGRAM), str(tmp_path / "trial"), str(SMOKE), str(wheel)]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trial = json.loads(done.stdout.splitlines()[-1])
    assert trial["answer"] == "42\n"
    assert trial["version"] in (tmp_path / "trial/logs/sandbur.jsonl").read_text()
    assert trial["context"]["metadata"]["status"] == "done"
    assert trial["context"]["n_input_tokens"] > 0
    assert [[source, calls] for source, _, calls in trial["steps"]] == [
        ["user", 0],
        ["agent", 1],
        ["agent", 0],
    ]
    assert trial["results"] == ["(no output)\nexit code: 0"]
    assert len(trial["tasks"]) == len(Suite.shipped("smoke"))
