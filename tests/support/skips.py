"""A pytest plugin that ends a run with the reasons of its skipped tests."""

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = Counter(
        (_reason(report), report.nodeid.partition("::")[0])
        for report in terminalreporter.stats.get("skipped", ())
    )
    if skipped:
        terminalreporter.section("skipped")
    for (reason, file), number in sorted(skipped.items()):
        terminalreporter.line(f"{number} in {file}: {reason}")


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
