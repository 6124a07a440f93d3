"""Evicts old results of `ephemeral` tools: a line with a handle replaces the result, which stays in the
store.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ....state.application import ApplicationState
from ....state.conversation.messages import ToolResult, tool_message
from ....state.conversation.transcript import Transcript, TranscriptRange
from ...ports import Ports, Toolbox
from ...ports.events import Notice
from .tool_results import format_read_call

LEAST = 4
"""The least number of results for one eviction. An eviction invalidates the provider's cache from its first
result on.
"""


def evict_old_results(
    state: ApplicationState, changes: dict[str, Any], results: Iterable[ToolResult], ports: Ports
) -> dict[str, Any]:
    """Return the state changes of these results. Older results are evicted if there are enough of them."""
    if not any(_find_limit(ports.toolbox, result.tool) for result in results):
        return changes
    after = state.model_copy(update=changes)
    shorter, count = evict_results(after.active_history, ports.toolbox, LEAST)
    if not count:
        return changes
    ports.emit(Notice(f"{count} older results became one line each; the model can read them again."))
    return {**changes, **after.replace_history(shorter)}


def evict_results(history: Transcript, tools: Toolbox, least: int) -> tuple[Transcript, int]:
    """Return the history without its evictable results, and their number. If there are fewer than `least`,
    the history is unchanged.
    """
    going = list(_find_evictable(history, tools))[::-1]
    if len(going) < max(least, 1):
        return history, 0
    lines = Transcript.of(*(tool_message(_make_note(result, tools)) for _, result in going))
    spans: list[TranscriptRange] = []
    end = 0
    for number, (place, _) in enumerate(going):
        spans += (*history.part(end, place).spans, *lines.part(number, number + 1).spans)
        end = place + 1
    return Transcript([*spans, *history.part(end).spans]), len(going)


def _find_evictable(history: Transcript, tools: Toolbox) -> Iterator[tuple[int, ToolResult]]:
    """Yield the message index and the result of each evictable result, newest first."""
    seen: Counter[str] = Counter()
    for back, message in enumerate(reversed(history), 1):
        for result in message.tool_results if message.role == "tool" else ():
            most = _find_limit(tools, result.tool)
            seen[result.tool] += 1
            if most and seen[result.tool] > most and not result.put_away:
                yield len(history) - back, result


def _find_limit(tools: Toolbox, name: str) -> int:
    tool = tools.get(name)
    return 0 if tool is None else tool.traits.ephemeral


def _make_note(result: ToolResult, tools: Toolbox) -> ToolResult:
    how = format_read_call(tools, result.call_id)
    note = f"[This result was put away to save room: {len(result.display_text):,} characters."
    note += f" Read it: {how}]" if how else " Call the tool again if you need it.]"
    return ToolResult(
        call_id=result.call_id,
        tool=result.tool,
        outcome=result.outcome,
        content=note,
        duration_ms=result.duration_ms,
        put_away=True,
    )
