"""Abandoned calls are looked for while other sessions remove the folders of theirs."""

import subprocess
import sys
from pathlib import Path

from sandbur.actions.tools.shell.execution.abandoned import end_abandoned

OTHERS = """
import pathlib, shutil, sys
root = pathlib.Path(sys.argv[1])
while True:
    for number in range(20):
        (root / f"s{number}" / "call").mkdir(parents=True)
    for number in range(20):
        shutil.rmtree(root / f"s{number}")
"""
LOOKS = 4000


def test_folders_that_vanish_meanwhile_are_no_error(tmp_path: Path) -> None:
    others = subprocess.Popen([sys.executable, "-c", OTHERS, str(tmp_path)])
    try:
        assert {end_abandoned(tmp_path) for _ in range(LOOKS)} == {0}
    finally:
        others.kill()
        others.wait()
