"""The paths of folders in the checkout."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
SUPPORT = TESTS / "support"
FIXTURES = TESTS / "fixtures"
RECORDINGS = TESTS / "recordings"
PYTHONPATH = f"{TESTS}:{ROOT}"
"""The value of PYTHONPATH for programs that a test starts."""
