"""The event parser on bytes cut at every place."""

import pytest

from sandbur.agent.models.transport.events import EventParser, ServerEvent

STREAM = (
    "\ufeff: hello\nevent: one\ndata: grün 🎉\n\ndata: a\ndata: b\n\n"
    "id: 1\nretry: 5\n\nevent: x\n\ndata:last\n\n"
)
EVENTS = [ServerEvent("one", "grün 🎉"), ServerEvent("", "a\nb"), ServerEvent("", "last")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_the_size_of_the_pieces_does_not_matter(line_end: str, size: int):
    raw = STREAM.replace("\n", line_end).encode()
    parser = EventParser()
    events = [event for at in range(0, len(raw), size) for event in parser.feed(raw[at : at + size])]
    assert events + parser.end() == EVENTS


def test_an_event_without_its_closing_line_is_taken_at_the_end():
    parser = EventParser()
    assert parser.feed(b"data: {}") == []
    assert parser.end() == [ServerEvent("", "{}")]


def test_a_huge_line_in_small_pieces_takes_linear_time():
    parser = EventParser()
    parser.feed(b"data: ")
    for _ in range(20_000):
        parser.feed(b"x" * 500)
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 10_000_000


def test_an_event_name_belongs_to_one_event_only():
    parser = EventParser()
    assert parser.feed(b"event: a\ndata: 1\n\ndata: 2\n\n") == [ServerEvent("a", "1"), ServerEvent("", "2")]
