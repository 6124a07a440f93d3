"""A pytest plugin for tests with Hypothesis: none fails because the machine is busy.

Its profile is loaded before a module of such tests is imported, and Hypothesis itself only for those.
"""

import pytest


def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module) and "from hypothesis import" in collector.path.read_text("utf-8"):
        _load_profile()


def _load_profile() -> None:
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")
