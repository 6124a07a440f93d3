"""Requirements of tests on the machine: without them a test is skipped, in CI the test fails."""

import importlib.util
import os
import shutil
from typing import NoReturn

import pytest

IS_COMPLETE = bool(os.environ.get("CI"))
"""True in CI, where a missing requirement is a failure."""


def lacks(what: str) -> NoReturn:
    """Skip the test with a reason; in CI fail the test."""
    if IS_COMPLETE:
        pytest.fail(what)
    pytest.skip(what)


def require(*programs: str) -> None:
    """Skip the test where a program is not installed; in CI fail it."""
    for program in programs:
        if shutil.which(program) is None:
            lacks(f"{program} is not installed")


def require_module(name: str) -> None:
    """Skip the test where a module is not installed; in CI fail it."""
    if importlib.util.find_spec(name) is None:
        lacks(f"{name} is not installed")


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark of tests that need programs."""
    return unless(all(map(shutil.which, programs)), f"needs {' and '.join(programs)}")


def unless(is_there: bool, reason: str) -> pytest.MarkDecorator:
    """Return the mark that skips tests unless a requirement is met."""
    return pytest.mark.skipif(not (is_there or IS_COMPLETE), reason=reason)
