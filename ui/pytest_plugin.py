"""The pytest plugin `sandbur-replay`: its fixture walks a recorded run through this program.

Loaded into every test run of an environment that has Sandbur, so it imports nothing until it is used.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

Replay = Callable[[str], None]


@pytest.fixture
def sandbur_replay(request: pytest.FixtureRequest) -> Replay:
    """Replay a recording, named relative to the test's file, offline; fail with the first difference."""

    def replay(recording: str) -> None:
        __tracebackhide__ = True
        if problem := _problem(request.path.parent / recording):
            pytest.fail(problem, pytrace=False)

    return replay


def _problem(recording: Path) -> str:
    """Return what is wrong, in a thread of its own: the test may run inside of an event loop."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="sandbur-replay") as executor:
        return executor.submit(_replayed, recording).result()


def _replayed(recording: Path) -> str:
    import asyncio

    from agent.replay.replay import replay_recording
    from state.errors import SandburError
    from ui.divergence import told

    try:
        replayed = asyncio.run(replay_recording(recording))
    except SandburError as error:
        return f"{recording.name}: {error}"
    return "" if replayed.divergence is None else told(recording.name, replayed.divergence)
