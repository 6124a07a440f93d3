"""An agent works on a program until its tests pass.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sandbur import Agent, ChildResult, Loop, Sequential, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall

TESTS = """
import unittest
from price import price

class PriceTest(unittest.TestCase):
    def test_cents(self):
        self.assertEqual(price(1250), "12.50")

    def test_less_than_a_euro(self):
        self.assertEqual(price(5), "0.05")
"""
folder = Path(tempfile.mkdtemp())
(folder / "test_price.py").write_text(TESTS)


def write(body: str) -> ToolCall:
    return ToolCall("write_file", path="price.py", content=f"def price(cents):\n    return {body}\n")


def run_tests(message: object) -> str:
    """Return what the tests say; the agent reads it."""
    words = [sys.executable, "-m", "unittest", "-b"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr


def is_green(result: ChildResult) -> bool:
    passed = run_tests(result.output).rstrip().endswith("OK")
    print(f"{result.iteration}. {result.text} Tests: {'green' if passed else 'red'}")
    return passed


fixer = Agent(
    os.environ.get("SANDBUR_MODEL")
    or ScriptedModel(
        [
            write('f"{cents // 100}.{cents % 100}"'),
            "I wrote price.py.",
            write('f"{cents // 100}.{cents % 100:02}"'),
            "I padded the cents.",
        ]
    ),
    name="fixer",
    instructions="You get the output of tests. Change price.py so that they pass.",
    tools=workspace_tools(),
    mode="auto-edit",
    cwd=folder,
    planning="off",
)
loop = Loop(Sequential(run_tests, fixer, name="attempt"), until=is_green, max_iterations=5)

if __name__ == "__main__":
    result = loop.run_sync("Make the tests pass.")
    print(result.status, len(result.children), "attempts")
