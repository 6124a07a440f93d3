"""The pytest plugin `sandbur-replay`: its fixture walks a recorded run through this program.

Loaded into every test run of an environment that has Sandbur, so it imports nothing until it is used.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from ..agent.history.replay.recorded_ports import Divergence


class Replay(Protocol):
    def __call__(self, recording: str, *, ignore_tools: bool = False) -> None:
        """Fail with the first difference; `ignore_tools`: tools in other words, new or gone are none."""
        ...


@pytest.fixture
def sandbur_replay(request: pytest.FixtureRequest) -> Replay:
    """Replay a recording, named relative to the test's file, offline; fail with the first difference."""

    def replay(recording: str, *, ignore_tools: bool = False) -> None:
        __tracebackhide__ = True
        if problem := _problem(request.path.parent / recording, ignore_tools):
            pytest.fail(problem, pytrace=False)

    return replay


def _problem(recording: Path, ignore_tools: bool) -> str:
    """Return what is wrong, in a thread of its own: the test may run inside of an event loop."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="sandbur-replay") as executor:
        return executor.submit(_replayed, recording, ignore_tools).result()


def _replayed(recording: Path, ignore_tools: bool) -> str:
    import asyncio

    from ..agent.history.replay.replay import replay_recording
    from ..state.errors import SandburError

    try:
        replayed = asyncio.run(replay_recording(recording, ignores_tools=ignore_tools))
    except SandburError as error:
        return f"{recording.name}: {error}"
    return "" if replayed.divergence is None else told(recording.name, replayed.divergence)


_MAX_LINES = 80


def told(name: str, found: "Divergence") -> str:
    """Return a few lines that say which step of the recording `name` differs, and how."""
    from .terminal.sanitize import one_line

    shown = [f"  {one_line(line)}" for line in found.lines[:_MAX_LINES]]
    left_out = len(found.lines) - len(shown)
    more = [f"  ({left_out} lines more)"] if left_out > 0 else []
    but_tools = "pass ignore_tools=True for tools, or " if found.kind == "request" else ""
    return "\n".join(
        [
            f"{name}: step {found.seq} ({one_line(found.action)}), {found.kind}: {one_line(found.summary)}",
            *shown,
            *more,
            f"- is recorded, + is this program. If the change is wanted, {but_tools}record the run anew.",
        ]
    )
