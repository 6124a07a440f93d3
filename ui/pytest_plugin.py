"""The pytest plugin `sandbur-replay`: a fixture that replays a recording.

pytest loads this module in every environment that has Sandbur, so the module imports the replay only when
the fixture is used.
"""

from typing import Protocol

import pytest


class Replay(Protocol):
    def __call__(self, recording: str, *, ignore_tools: bool = False) -> None:
        """Fail with the first difference. With `ignore_tools`, changed, new and removed tools do not count
        as a difference."""
        ...


@pytest.fixture
def sandbur_replay(request: pytest.FixtureRequest) -> Replay:
    """Replay a recording offline and fail with the first difference; its path is relative to the test."""

    def replay(recording: str, *, ignore_tools: bool = False) -> None:
        __tracebackhide__ = True
        from ..agent.sdk.testing.recorded_runs import problem_of

        path = request.path.parent / recording
        if problem := problem_of(path, ignore_tools=ignore_tools):
            pytest.fail(problem, pytrace=False)

    return replay
