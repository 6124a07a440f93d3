"""The entries of Burr's log as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class SpanDraft:
    """A span before it knows its place."""

    name: str
    began_at: str
    ended_at: str | None
    attributes: Json = field(default_factory=dict[str, Any])


def begin_entry(seq: int, at: str, action: str, inputs: Json) -> Json:
    return {"type": "begin_entry", "start_time": at, "action": action, "inputs": inputs, "sequence_id": seq}


def end_entry(
    seq: int, at: str, action: str, state: Json, result: Json | None = None, exception: str | None = None
) -> Json:
    return {
        "type": "end_entry",
        "end_time": at,
        "action": action,
        "result": result,
        "exception": exception,
        "state": state,
        "sequence_id": seq,
    }


def attributes(seq: int, span_id: str | None, values: Mapping[str, Any], at: str) -> list[Json]:
    """Return an attribute for each value; without a span they belong to the step."""
    return [
        {
            "type": "attribute",
            "key": key,
            "action_sequence_id": seq,
            "span_id": span_id,
            "value": value,
            "tags": {},
            "time_logged": at,
        }
        for key, value in values.items()
    ]


def spans(seq: int, drafts: Sequence[SpanDraft]) -> tuple[list[Json], list[Json]]:
    """Return the spans of a step in the order in which they began, and their attributes."""
    found: list[Json] = []
    told: list[Json] = []
    # The UI sorts ids as texts.
    width = len(str(len(drafts)))
    for number, draft in enumerate(sorted(drafts, key=lambda draft: draft.began_at)):
        span_id = f"{seq}:{number:0{width}d}"
        found.append(_span(seq, span_id, draft))
        told += attributes(seq, span_id, draft.attributes, draft.began_at)
    return found, told


def _span(seq: int, span_id: str, draft: SpanDraft) -> Json:
    begin: Json = {
        "type": "begin_span",
        "start_time": draft.began_at,
        "action_sequence_id": seq,
        "span_id": span_id,
        "span_name": draft.name,
        "parent_span_id": None,
        "span_dependencies": [],
    }
    end = {"type": "end_span", "end_time": draft.ended_at, "action_sequence_id": seq, "span_id": span_id}
    return {"begin_entry": begin, "end_entry": end if draft.ended_at is not None else None}


def stream(seq: int, began_at: str, first_at: str, ended_at: str, pieces: int) -> list[Json]:
    """Return the events of a reply that came in pieces."""
    place = {"action_sequence_id": seq, "span_id": None}
    return [
        {"type": "begin_stream", "stream_init_time": began_at, **place},
        {"type": "first_item_stream", "first_item_time": first_at, **place},
        {"type": "end_stream", "end_time": ended_at, "items_streamed": pieces, **place},
    ]
