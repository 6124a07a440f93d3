"""Recorded runs as tests: compare today's program with a recording, or reuse the recorded replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....actions.workspace.paths import format_count
from ....state.conversation.messages import Message
from ....state.errors import SandburError
from ....state.store.store import Store
from ...history.replay.replay import recording_store, replay
from ...history.replay.replay_steps import read_recording
from ...history.replay.walk import Today
from ..agent import Agent

if TYPE_CHECKING:
    from ...history.replay.recorded_ports import Divergence
    from ...history.replay.replay import Replayed
    from ...history.replay.walk import Today

_MAX_LINES = 80


def assert_replays(
    recording: str | Path,
    *,
    agent: Agent[Any] | None = None,
    store: str | None = None,
    ignore_tools: bool = False,
) -> None:
    """Fail with the first difference between a recorded run and today's program.

    No model is asked and no tool runs: replies and results come from the recording. `recording` is a file
    that `sandbur sessions export` or `sandbur test add` wrote or, with the URL of a `store`, the id of a
    session in it. `agent` is the agent that made the run, if there was one; without it the recorded tools are
    used. If `ignore_tools` is true, changed, new and removed tools are not a difference.
    """
    problem = problem_of(recording, agent, store, ignore_tools)
    if problem:
        raise AssertionError(problem)


def recorded_replies(recording: str | Path, *, store: str | None = None) -> list[Message]:
    """Return the model's replies in a recorded run, for a `ScriptedModel` to repeat."""

    with _open_recording(recording, store) as (opened, session_id):
        called = [(each.called, each.reply) for each in read_recording(opened, session_id).moments()]
    replies = ((call.reply or reply) for call, reply in called if call is not None and call.error is None)
    return [reply for reply in replies if reply is not None]


def problem_of(
    recording: str | Path,
    agent: Agent[Any] | None = None,
    store: str | None = None,
    ignore_tools: bool = False,
) -> str:
    """Return why a recorded run cannot be replayed, or its first difference; empty if it has none."""
    # This runs in another thread, because the test may run inside an event loop.
    with ThreadPoolExecutor(1, thread_name_prefix="sandbur-replay") as executor:
        try:
            replayed = executor.submit(_replay, recording, agent, store, ignore_tools).result()
        except SandburError as error:
            return f"{Path(recording).name}: {error}"
    found = replayed.divergence
    return "" if found is None else describe_divergence(Path(recording).name, found, _printable)


def describe_divergence(name: str, found: Divergence, label: Callable[[str], str]) -> str:
    """Describe in a few lines which step of the recording `name` differs, and how."""
    lines = [f"  {label(line)}" for line in found.lines[:_MAX_LINES]]
    left_out = len(found.lines) - len(lines)
    more = [f"  ({format_count(left_out, 'line')} more)"] if left_out > 0 else []
    but_tools = "pass ignore_tools=True for tools, or " if found.kind == "request" else ""
    return "\n".join(
        [
            f"{name}: step {found.seq} ({label(found.action)}), {found.kind}: {label(found.summary)}",
            *lines,
            *more,
            f"- is recorded, + is this program. If you want the change, {but_tools}record the run again.",
        ]
    )


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _replay(
    recording: str | Path, agent: Agent[Any] | None, store: str | None, ignore_tools: bool
) -> Replayed:
    with _open_recording(recording, store) as (opened, session_id):
        return asyncio.run(replay(opened, session_id, today=_today(agent), ignores_tools=ignore_tools))


def _today(agent: Agent[Any] | None) -> Today | None:
    if agent is None:
        return None

    return Today(own={tool.spec.name: tool for tool in agent.definition.tools})


@contextmanager
def _open_recording(recording: str | Path, store: str | None) -> Generator[tuple[Store, str]]:
    """Open a store that contains the recording; yield the store and the id of the session."""

    if store is None:
        with recording_store(Path(recording)) as found:
            yield found
        return
    opened = Store.open(store)
    try:
        yield opened, str(recording)
    finally:
        opened.close()
