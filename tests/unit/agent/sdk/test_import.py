"""What an import of the package leaves in the program that imports it."""

import subprocess
import sys

from support.places import ROOT

PROGRAM = """
import gc, sys
sys.path.insert(0, sys.argv[1])
collected, threshold = [], gc.get_threshold()
import sandbur
gc.callbacks.append(lambda phase, details: collected.append(phase))
sandbur.ToolError
print(len(collected) < 9, gc.isenabled(), gc.get_threshold() == threshold, gc.get_freeze_count())
gc.disable()
sandbur.Message
print(gc.isenabled())
"""


def test_a_program_keeps_its_garbage_collector() -> None:
    line = [sys.executable, "-c", PROGRAM, str(ROOT)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True", "0", "False"]
