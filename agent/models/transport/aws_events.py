"""Parses the frames that Amazon Bedrock puts around events: `application/vnd.amazon.eventstream`."""

import base64
import json
from importlib import import_module
from typing import Any, cast

from .events import ServerEvent


class AwsEventParser:
    """Parses frames from pieces that may be cut anywhere. The payload of a frame is an event's `data`."""

    def __init__(self) -> None:
        self._library: Any = import_module("botocore.eventstream")
        self._buffer: Any = self._library.EventStreamBuffer()

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that this piece completes; raises `ValueError` for a damaged frame."""
        try:
            self._buffer.add_data(piece)
            return [event for frame in self._buffer if (event := _event(frame.headers, frame.payload))]
        except self._library.ParserError as error:
            raise ValueError(f"not a frame of an event stream: {error}") from None

    def end(self) -> list[ServerEvent]:
        """Return no events: an incomplete frame at the end is dropped."""
        return []


def _event(headers: dict[str, Any], payload: bytes) -> ServerEvent | None:
    if headers.get(":message-type", "event") != "event":
        return _failure(headers, payload)
    encoded = _object(payload).get("bytes")
    if not isinstance(encoded, str):
        return None
    return ServerEvent("", base64.b64decode(encoded).decode("utf-8", "replace"))


def _failure(headers: dict[str, Any], payload: bytes) -> ServerEvent:
    """Convert an exception or error frame to the error event of Anthropic's own API."""
    kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
    text = _object(payload).get("message") or headers.get(":error-message") or kind
    return ServerEvent("error", json.dumps({"type": "error", "error": {"type": kind, "message": text}}))


def _object(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
