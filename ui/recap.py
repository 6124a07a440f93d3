"""What a person needs to find back into a session: title, last words, plan, what waits."""

from collections.abc import Iterator
from itertools import islice

from state.application import ApplicationState
from state.messages import Message
from ui.calls import Line, title
from ui.results import plan_lines
from ui.sanitize import one_line, plain
from ui.terminal import Glyphs

_LAST_MESSAGES = 4
_MAX_CHARS = 600


def recap_lines(name: str, state: ApplicationState, next_action: str, glyphs: Glyphs) -> Iterator[Line]:
    """Yield the recap of a resumed session."""
    yield "bold", f"Resumed: {one_line(name)}"
    for message in _last_spoken(state):
        who = glyphs.prompt if message.role == "user" else glyphs.point
        yield "dim", f"{who} {_shortened(message.text)}"
    if state.vibe_plan:
        yield from plan_lines(state.vibe_plan, glyphs)
    yield from _standing(state, next_action)


def _last_spoken(state: ApplicationState) -> list[Message]:
    """Return the last messages that a person saw, oldest first."""
    history = state.chat_history
    spoken = (
        message
        for message in list(history)[::-1]
        if message.text.strip() and message.origin in ("person", "model")
    )
    return list(islice(spoken, _LAST_MESSAGES))[::-1]


def _standing(state: ApplicationState, next_action: str) -> Iterator[Line]:
    waiting = [call for call in state.pending_tool_calls if call.decision == "undecided"]
    if next_action == "human_confirm" and waiting:
        for call in waiting:
            what = "Waits for your decision" if call.kind == "approval" else "Nobody knows what came of"
            yield "yellow", f"{what}: {title(call.tool, call.arguments)}"
    elif next_action != "prompt":
        yield "yellow", "It stopped in the middle of a turn and goes on from there."


def _shortened(text: str) -> str:
    words = plain(text).strip()
    return words if len(words) <= _MAX_CHARS else words[:_MAX_CHARS] + " ..."
