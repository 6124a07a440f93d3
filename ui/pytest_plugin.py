"""The pytest plugin `sandbur-replay`: its fixture walks a recorded run through this program.

Loaded into every test run of an environment that has Sandbur, so it imports nothing until it is used.
"""

from typing import Protocol

import pytest


class Replay(Protocol):
    def __call__(self, recording: str, *, ignore_tools: bool = False) -> None:
        """Fail with the first difference; `ignore_tools`: changed, new and removed tools are no
        difference."""
        ...


@pytest.fixture
def sandbur_replay(request: pytest.FixtureRequest) -> Replay:
    """Replay a recording, named relative to the test's file, offline; fail with the first difference."""

    def replay(recording: str, *, ignore_tools: bool = False) -> None:
        __tracebackhide__ = True
        from ..agent.sdk.testing.recorded_runs import problem_of

        path = request.path.parent / recording
        if problem := problem_of(path, ignore_tools=ignore_tools):
            pytest.fail(problem, pytrace=False)

    return replay
