"""A pytest plugin that keeps the output of failed tests, and lists the tests that pass at a second run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

KEEP, MORE, RETRY = "--keep-failures", "--keep-more", "--retry-of"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(KEEP, metavar="FILE", help="write into FILE what each failed test showed")
    parser.addoption(MORE, action="store_true", help="add to what is in the FILE of an earlier run")
    parser.addoption(RETRY, metavar="FILE", help="report tests of FILE that pass now as flaky")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # only the main process of pytest-xdist counts failures
        config.pluginmanager.register(FirstFailures(config), "first failures")


class FirstFailures:
    """Records the tests that failed in this run, and the failed tests of an earlier run that pass now."""

    def __init__(self, config: pytest.Config) -> None:
        self._keep: str | None = config.getoption(KEEP)
        self._retry: str | None = config.getoption(RETRY)
        self._more: bool = config.getoption(MORE)
        self._failed: dict[str, str] = {}
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            parts = [report.longreprtext, *(f"--- {title} ---\n{text}" for title, text in report.sections)]
            before = self._failed.get(report.nodeid)
            self._failed[report.nodeid] = "\n".join([*([before] if before else []), *parts])
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = report.longreprtext

    def pytest_sessionfinish(self) -> None:
        if self._keep is not None:
            file = Path(self._keep)
            earlier = json.loads(file.read_text("utf-8")) if self._more and file.exists() else {}
            file.write_text(json.dumps(earlier | self._failed), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for nodeid, text in self._flaky():
            terminalreporter.section(f"FLAKY {nodeid}", sep="=", yellow=True)
            terminalreporter.line("It passed when it was tried again. At its first try:")
            terminalreporter.line(text)

    def _flaky(self) -> Iterator[tuple[str, str]]:
        if self._retry is None or not Path(self._retry).exists():
            return
        for nodeid, text in json.loads(Path(self._retry).read_text("utf-8")).items():
            if nodeid in self._passed and nodeid not in self._failed:
                yield nodeid, text
