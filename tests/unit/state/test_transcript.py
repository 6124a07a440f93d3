"""Histories share what they have in common and never change."""

import copy

import pytest

from sandbur.state.application import ApplicationState
from sandbur.state.conversation.messages import Message, person_message, runtime_message
from sandbur.state.conversation.transcript import Transcript


def said(*texts: str) -> list[Message]:
    return [person_message(text) for text in texts]


def texts(history: Transcript) -> list[str]:
    return [message.text for message in history]


def test_an_older_view_does_not_see_what_is_appended_later() -> None:
    short = Transcript.of(*said("a"))
    longer = short.append(*said("b"))
    assert (texts(short), texts(longer)) == (["a"], ["a", "b"])


def test_two_continuations_of_one_view_go_their_own_ways() -> None:
    stem = Transcript.of(*said("a", "b"))
    left, right = stem.append(*said("left")), stem.append(*said("right"))
    again = right.append(*said("more"))
    assert texts(left) == ["a", "b", "left"]
    assert texts(again) == ["a", "b", "right", "more"]


def test_copies_are_the_same_object() -> None:
    history = Transcript.of(*said("a"))
    assert copy.deepcopy(history) is history
    assert copy.copy(history) is history


def test_length_size_and_last_do_not_need_a_walk() -> None:
    history = Transcript.of(*said("a", "bcd"))
    assert (len(history), history.size_bytes) == (2, 4)
    assert history.last is not None
    assert history.last.text == "bcd"
    assert Transcript().last is None


def test_a_compacted_view_starts_with_the_summary_and_keeps_growing() -> None:
    whole = Transcript.of(*said("a", "b", "c", "d"))
    short = whole.compact(runtime_message("sum"), keep_last=2).append(*said("e"))
    assert texts(short) == ["sum", "c", "d", "e"]
    assert texts(short.compact(runtime_message("sum 2"), keep_last=2)) == ["sum 2", "d", "e"]
    assert texts(whole.compact(runtime_message("all"), keep_last=0)) == ["all"]
    assert texts(whole) == ["a", "b", "c", "d"]


def test_appending_nothing_returns_the_same_view() -> None:
    history = Transcript.of(*said("a"))
    assert history.append() is history


def test_state_goes_through_plain_json_and_back() -> None:
    state = ApplicationState(chat_history=Transcript.of(*said("a", "é\x00")), current_goal="g")
    again = ApplicationState.model_validate_json(state.model_dump_json())
    assert texts(again.chat_history) == ["a", "é\x00"]
    assert again == state


def test_a_view_that_is_only_in_the_store_says_so() -> None:
    history = Transcript.of(*said("a"))
    log = history.spans[0].log
    log.session_id, log.number = "s", 0
    with pytest.raises(LookupError, match="store"):
        list(history.unload())
