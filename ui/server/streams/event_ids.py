"""The ids of stored events, `SESSION_SEQ`, and the frames in which a stream sends events."""

import json
from typing import Literal

from ....actions.ports.events import Event, ToolOutput
from ....state.lazy_dataclass import dataclass
from ....state.store.sessions.record_feed import FeedItem
from ...headless.json_output import Object, encode, stream_object
from .stored_events import list_stored_events

EVENTS_PER_ROW = 1000
"""SEQ is the number of an event's row times this, plus the place of the event in the row."""

MOST_OUTPUT_CHARS = 8192
"""The most characters of a piece of a running call's output. Of a longer one only the end is sent."""
ResetReason = Literal["other_session", "unknown_event", "not_an_id"]


class WrongEventId(ValueError):
    """The id after which a stream should continue names no event of the session."""

    def __init__(self, reason: ResetReason) -> None:
        super().__init__(reason)
        self.reason: ResetReason = reason


@dataclass(frozen=True, slots=True)
class Frame:
    """An event as the bytes of a stream."""

    data: bytes
    seq: int = 0
    """The SEQ of a stored event; 0 for events that are not stored."""
    follows: int = 0
    """For events that are not stored: the SEQ of the newest stored event before it."""
    is_output: bool = False
    """Whether it is output of a running call, which the result of the call repeats."""


def parse_event_id(text: str, session_id: str) -> int:
    """Return the SEQ in an id. Raises `WrongEventId` for an id of another session, and for other texts."""
    owner, _, seq = text.rpartition("_")
    if not (seq.isascii() and seq.isdigit() and len(seq) <= 18 and owner):
        raise WrongEventId("not_an_id")
    if owner != session_id:
        raise WrongEventId("other_session")
    return int(seq)


def make_stored_frames(session_id: str, item: FeedItem) -> list[Frame]:
    """Return the frames of the events of one item.

    A row with more events than ids gives its last id to the last event only, so that none can be lost.
    """
    events = list_stored_events(item)
    frames: list[Frame] = []
    for place, event in enumerate(events):
        is_named = place < EVENTS_PER_ROW - 1 or place == len(events) - 1
        seq = item.row * EVENTS_PER_ROW + min(place, EVENTS_PER_ROW - 1)
        data = encode_event(session_id, event, seq if is_named else None)
        frames.append(Frame(data, seq if is_named else 0, seq))
    return frames


def make_live_frame(session_id: str, event: Event, follows: int) -> Frame | None:
    """Return the frame of an event that is not stored, or None if streams do not have it."""
    is_output = isinstance(event, ToolOutput)
    line = _make_output(event) if is_output else stream_object(event)
    return None if line is None else Frame(encode_event(session_id, line), 0, follows, is_output)


def _make_output(event: ToolOutput) -> Object:
    """Return live output as an event. Only streams of a server have it, the format stream-json does not."""
    chunk = event.chunk
    if (left_out := len(chunk) - MOST_OUTPUT_CHARS) > 0:
        chunk = f"\n[... {left_out:,} characters ...]\n{chunk[left_out:]}"
    return {"type": "tool_output", "call_id": event.call_id, "chunk": chunk}


def encode_event(session_id: str, event: Object, seq: int | None = None) -> bytes:
    """Return an event of a session as a frame; with a `seq` it has an id."""
    kind = event["type"]
    rest = {name: value for name, value in event.items() if name != "type"}
    numbered = {} if seq is None else {"seq": seq}
    line = encode({"type": kind, "session_id": session_id, **numbered, **rest})
    named = "" if seq is None else f"id: {session_id}_{seq}\n"
    return f"{named}data: {line}\n\n".encode("ascii")


def encode_control(kind: str, **fields: str) -> bytes:
    """Return a named event about the stream itself: `reset`, `drain`, `deleted` or `refused`."""
    return f"event: {kind}\ndata: {encode({'type': kind, **fields})}\n\n".encode("ascii")


def decode_frame(data: bytes) -> Object | None:
    """Return the event in a frame, or None for a frame without one, such as a ping."""
    lines = data.decode("ascii").splitlines()
    found = next((line for line in lines if line.startswith("data: ")), None)
    return None if found is None else json.loads(found.removeprefix("data: "))
