"""Regular expressions of triggers: they match as Python's do, and no expression makes a message wait."""

import random
import re
import time

import pytest

from sandbur.actions.turn.flows.linear_regex import MOST_STEPS, LinearRegex, StepBudget
from sandbur.actions.turn.flows.regex_parser import BadRegex

ENDLESS = ["(a+)+b", "(a*)*b", "(a|aa)+$", "(.*a){20}", "(a|a?)+c", "(x+x+)+y"]
REFUSED = [
    ("a(", "not closed"),
    ("a)", "no opening one"),
    ("[a", "not closed"),
    ("*a", "nothing that"),
    ("a**", "repeats a repeat"),
    ("(?=a)b", "is not possible"),
    (r"(a)\1", "back-references"),
    ("a{9999}", "at most"),
    ("(a{200}){200}", "too large"),
    ("(?P<a>x)(?P<a>y)", "two groups"),
    ("a\\", "backslash"),
    ("(" * 60 + ")" * 60, "deep"),
]


def search(pattern: str, text: str) -> tuple[int, int] | None:
    found = LinearRegex(pattern).search(text, StepBudget())
    return None if found is None else (found.start, found.end)


def test_groups_are_known_by_number_and_by_name() -> None:
    found = LinearRegex(r"order (?P<id>\d+)( please)?").search("my order 4711", StepBudget())
    assert found is not None
    assert found.values == {"1": "4711", "id": "4711"}


@pytest.mark.parametrize("pattern", [r"(?i)ORDER \d", r"^hi$", r"\bcat\b", "[^a-c]+?x", "a{2,3}?b", "日|本"])
@pytest.mark.parametrize("text", ["order 7", "hi", "hi\n", "a cat", "concat", "zzx", "aaab", "日本", ""])
def test_what_matches_is_what_python_matches(pattern: str, text: str) -> None:
    found = re.search(pattern, text)
    assert search(pattern, text) == (None if found is None else found.span())


def test_random_expressions_match_where_python_matches() -> None:
    dice = random.Random(7)

    def part(depth: int) -> str:
        atoms = ["a", "b", "1", " ", r"\d", r"\w", ".", "[ab]", "[^a]"]
        atom = dice.choice(atoms) if depth == 0 or dice.random() < 0.7 else f"({way(depth - 1)})"
        return atom + dice.choice(["", "", "", "+", "{2}", "+?", "{1,3}"])

    def way(depth: int) -> str:
        return "|".join(
            "".join(part(depth) for _ in range(dice.randint(1, 3))) for _ in range(dice.randint(1, 2))
        )

    for _ in range(400):
        pattern = way(2)
        text = "".join(dice.choice("abA1 \n") for _ in range(dice.randint(0, 9)))
        found = re.search(pattern, text)
        assert search(pattern, text) == (None if found is None else found.span()), (pattern, text)


@pytest.mark.parametrize("pattern", ENDLESS)
def test_an_expression_that_would_never_end_ends(pattern: str) -> None:
    budget = StepBudget()
    began = time.process_time()
    LinearRegex(pattern).search("a" * 1999 + "!", budget)
    assert time.process_time() - began < 2
    assert budget.left <= MOST_STEPS


def test_the_work_for_one_message_is_limited_over_all_expressions() -> None:
    budget = StepBudget(left=500)
    regex = LinearRegex("(a|b)+(a|b)+c")
    assert regex.search("ab" * 200 + "c", budget) is None
    assert budget.left < 0
    assert LinearRegex("abc").search("abc", budget) is None


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_what_cannot_be_matched_in_linear_time_is_refused_with_a_reason(pattern: str, why: str) -> None:
    with pytest.raises(BadRegex, match=re.escape(why)):
        LinearRegex(pattern)


def test_a_long_text_has_no_match() -> None:
    assert search("a", "b" * 2001 + "a") is None
