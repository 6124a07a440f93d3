"""The ids of stored events, `SESSION_SEQ`, and the frames in which a stream sends events."""

import json
from dataclasses import dataclass
from typing import Literal

from ....state.store.sessions.record_feed import FeedItem
from ...headless.json_output import Object, encode
from .stored_events import list_stored_events

EVENTS_PER_ROW = 1000
"""SEQ is the number of an event's row times this, plus the place of the event in the row."""

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
