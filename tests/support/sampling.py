"""Runs a third of the longest lists of cases, another third at each commit: `--sample=K/N` of pytest.

Tests with many cases are marked as `sampled`; lists that one test goes through pass `sample`. Which third a
case belongs to depends on its text alone, so N consecutive commits run them all. A run ends with what it left
out. Without the option, all cases run.
"""

import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_part = (0, 1)
_left: dict[str, tuple[int, int]] = {}
"""What the cases are, such as a file of tests -> how many of them are left out, and of how many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", metavar="K/N", default="1/1", help="run part K of N of the many cases")


def pytest_configure(config: pytest.Config) -> None:
    global _part
    text = config.getoption("--sample")
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise pytest.UsageError(f"--sample takes a part such as 2/3, not {text!r}.")
    _part = (int(number) - 1, int(parts))


def sample(what: str, cases: Iterable[T], text: Callable[[T], str] = str) -> list[T]:
    """Return the cases of this run; `what` says what they are, and belongs to one list alone."""
    every = list(cases)
    chosen = [case for case in every if _is_chosen(text(case))]
    _left[what] = (len(every) - len(chosen), len(every))
    return chosen


def _is_chosen(text: str) -> bool:
    number, parts = _part
    return zlib.crc32(text.encode()) % parts == number


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampled = [item for item in items if item.get_closest_marker("sampled") is not None]
    left = {item for item in sampled if not _is_chosen(item.name)}
    for file in {item.path for item in sampled}:
        every = [item for item in sampled if item.path == file]
        _left[file.stem.removeprefix("test_")] = (len(left.intersection(every)), len(every))
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Any:
    output = getattr(session.config, "workeroutput", None)  # this is a process of pytest-xdist
    if output is not None:
        output["left out"] = _left
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    found = getattr(node, "workeroutput", None) or {}  # a process that was killed has none
    _left.update({what: (left, every) for what, (left, every) in found.get("left out", {}).items()})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    left = [f"{what} {number} of {every}" for what, (number, every) in sorted(_left.items()) if number]
    if left:
        terminalreporter.section("left out")
        number, parts = _part
        terminalreporter.line(f"Of these cases part {number + 1} of {parts} ran; `tests/run all` runs all.")
        terminalreporter.line(f"Left out: {', '.join(left)}.")
