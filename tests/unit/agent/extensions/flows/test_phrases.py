"""Phrases of flows: what they match, and that no message makes them slow."""

import time

import pytest

from sandbur.actions.turn.flows.flow_templates import fill_text
from sandbur.actions.turn.flows.phrase import parse_phrase

MATCHES = [
    ("opening hours", "Opening  HOURS?", {}),
    ("opening hours*", "opening hours on Sunday", {}),
    ("*opening hours*", "What are your opening hours, please?", {}),
    ("I want {n} days", "i want 5 days.", {"n": "5"}),
    ("move {a} to {b}", "Move the cat to the top to bed", {"a": "the cat", "b": "the top to bed"}),
    ("{who} is late", "Ada is late", {"who": "Ada"}),
    ("我要请{n}天假", "我要请三天假。", {"n": "三"}),
]
OTHERS = [
    ("opening hours", "opening hours on Sunday"),
    ("I want {n} days", "I want days"),
    ("I want {n} days", "I want  days"),
    ("a*a", "a"),
    ("go", "Straße go"),
    ("go *", "go " + "x" * 3000),
]


@pytest.mark.parametrize(("phrase", "message", "values"), MATCHES)
def test_a_phrase_matches_whatever_the_case_and_the_blanks(
    phrase: str, message: str, values: dict[str, str]
) -> None:
    assert parse_phrase(phrase).match(message) == values


@pytest.mark.parametrize(("phrase", "message"), OTHERS)
def test_another_message_starts_no_flow(phrase: str, message: str) -> None:
    assert parse_phrase(phrase).match(message) is None


def test_no_message_makes_a_phrase_slow() -> None:
    phrase = parse_phrase("*".join(["a"] * 30) + "b")
    began = time.process_time()
    assert phrase.match("a" * 1999) is None
    assert time.process_time() - began < 1


def test_a_value_that_looks_like_a_gap_stays_as_it_is() -> None:
    assert fill_text("{a} and {b} and {c} *", {"a": "{b}", "b": "2"}) == "{b} and 2 and {c} *"
