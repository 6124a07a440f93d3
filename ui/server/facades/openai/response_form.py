"""Writes an answer as a response of the Responses API, or as the events of its stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from .....state.lazy_dataclass import dataclass
from ...answers import RequestRefused
from .conversations import AnswerPlace
from .outcomes import TurnOutcome
from .turn_response import JsonChunk


@dataclass(slots=True)
class ResponseForm:
    """The form of one response."""

    place: AnswerPlace
    model: str
    created_at: float
    previous: str | None = None
    instructions: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    last: str = ""
    _number: int = 0
    _text: str = ""

    @property
    def id(self) -> str:
        return make_response_id(self.place)

    @property
    def _item_id(self) -> str:
        return f"msg_{self.place.session_id}_{self.place.after_row + 1}"

    def encode(self, chunk: JsonChunk) -> str:
        self._number += 1
        numbered = {**chunk, "sequence_number": self._number - 1}
        return f"event: {chunk['type']}\ndata: {json.dumps(numbered)}\n\n"

    def make_whole(self, outcome: TurnOutcome) -> JsonChunk:
        status = "incomplete" if outcome.is_cut else "cancelled" if outcome.is_cancelled else "completed"
        cut = {"reason": "max_output_tokens"} if outcome.is_cut else None
        item = self._make_item(status if status == "completed" else "incomplete", outcome.whole_text)
        made = self.make(status, [item])
        return {**made, "incomplete_details": cut, "usage": _count_tokens(outcome)}

    def make_failed(self, refused: RequestRefused) -> JsonChunk:
        error = {"code": "server_error", "message": refused.message}
        return {**self.make("failed"), "error": error}

    def make(self, status: str, output: list[JsonChunk] | None = None) -> JsonChunk:
        """Return a response without what only its end brings."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": int(self.created_at),
            "status": status,
            "model": self.model,
            "output": output or [],
            "error": None,
            "incomplete_details": None,
            "instructions": self.instructions,
            "metadata": dict(self.metadata),
            "previous_response_id": self.previous,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": list[Any](),
            "store": True,
            "usage": None,
            "sandbur": {"session_id": self.place.session_id},
        }

    def begin(self) -> Iterator[JsonChunk]:
        yield {"type": "response.created", "response": self.make("in_progress")}
        yield {"type": "response.in_progress", "response": self.make("in_progress")}
        item = self._make_item("in_progress")
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield self._make_part_event("response.content_part.added", part=_make_part(""))

    def add(self, piece: str) -> Iterator[JsonChunk]:
        self._text += piece
        yield self._make_part_event("response.output_text.delta", delta=piece, logprobs=[])

    def end(self, outcome: TurnOutcome) -> Iterator[JsonChunk]:
        whole = self.make_whole(outcome)
        text = self._text
        yield self._make_part_event("response.output_text.done", text=text, logprobs=[])
        yield self._make_part_event("response.content_part.done", part=_make_part(text))
        item = {**whole["output"][0], "content": [_make_part(text)]}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        kind = "response.completed" if whole["status"] == "completed" else "response.incomplete"
        yield {"type": kind, "response": {**whole, "output": [item]}}

    def fail(self, refused: RequestRefused) -> Iterator[JsonChunk]:
        yield {"type": "response.failed", "response": self.make_failed(refused)}

    def _make_item(self, status: str, text: str | None = None) -> JsonChunk:
        content = [] if text is None else [_make_part(text)]
        fixed = {"id": self._item_id, "type": "message", "role": "assistant"}
        return {**fixed, "status": status, "content": content}

    def _make_part_event(self, kind: str, **more: Any) -> JsonChunk:
        return {"type": kind, "item_id": self._item_id, "output_index": 0, "content_index": 0, **more}


def make_response_id(place: AnswerPlace) -> str:
    """Return the id of the response whose turn is the first one after a row of a session."""
    return f"resp_{place.session_id}_{place.after_row + 1}"


def parse_response_id(text: str) -> AnswerPlace | None:
    """Return the place that an id names; None for another text."""
    kind, _, rest = text.partition("_")
    session_id, _, row = rest.rpartition("_")
    if kind != "resp" or not session_id or not (row.isascii() and row.isdigit() and len(row) <= 15):
        return None
    return AnswerPlace(session_id, int(row) - 1)


def _make_part(text: str) -> JsonChunk:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _count_tokens(outcome: TurnOutcome) -> JsonChunk:
    given, made = outcome.count("input_tokens"), outcome.count("output_tokens")
    cached, written = outcome.count("cache_read_tokens"), outcome.count("cache_write_tokens")
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
