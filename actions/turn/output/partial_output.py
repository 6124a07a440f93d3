"""Parses the beginning of a structured answer while the model still writes it."""

from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from ...ports.events import Event, MessageAdded, OutputPartial, TextDelta, ToolRequested
from .format import OutputFormat

_LEAST_SHARE = 64
"""A text is parsed again when it has grown by 1/64 of its length, so that the total work stays linear."""


class PartialOutput:
    """Collects the text of an answer and returns its value so far."""

    def __init__(self, output: OutputFormat | None) -> None:
        """If `output` is None, there are no values."""
        self._output = output
        self._text = ""
        self._parsed_chars = 0
        self._last: Any = None

    def values_after(self, event: Event) -> Iterator[OutputPartial]:
        """Yield the value after an event, if it changed."""
        if self._output is None:
            return
        if isinstance(event, MessageAdded | ToolRequested):
            self._text, self._parsed_chars, self._last = "", 0, None
        if not isinstance(event, TextDelta):
            return
        self._text += event.delta
        if len(self._text) - self._parsed_chars <= len(self._text) // _LEAST_SHARE:
            return
        self._parsed_chars = len(self._text)
        value = self._parse()
        if value is not None and value != self._last:
            self._last = value
            yield OutputPartial(value)

    def _parse(self) -> Any:
        """Return the value so far, or None if the text is not the beginning of a JSON object or list."""
        assert self._output is not None, "only an answer with a format is parsed"
        start = next((place for place, letter in enumerate(self._text) if letter in "{["), None)
        if start is None:
            return None
        try:
            return self._output.unwrap(from_json(self._text[start:], allow_partial="trailing-strings"))
        except ValueError:
            return None
