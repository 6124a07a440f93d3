"""Every message that a person can see is listed by a script, and is a sentence."""

import re
import subprocess
import sys

import pytest
from support.places import ROOT

pytestmark = pytest.mark.slow

SCRIPT = ROOT / ".ci" / "messages.py"
ROW = re.compile(r"^ +\d+ (?P<shown_by>\w+): (?P<text>.*)$")
CLAUSES = {"BadLine", "DivergenceError"}
"""Errors whose texts end a sentence that another module begins."""

NAMES = re.compile(r"\w+_\w+|\w+=|stdin |it is ")
"""How a text may begin with a small letter: a name of a program, or what is wrong with a file in a list."""


@pytest.fixture(scope="module")
def listed() -> list[tuple[str, str]]:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    rows = [ROW.match(line) for line in done.stdout.splitlines()]
    return [(row["shown_by"], row["text"]) for row in rows if row]


def test_errors_hints_notices_helps_and_slash_commands_are_listed(listed: list[tuple[str, str]]) -> None:
    kinds = {shown_by for shown_by, _ in listed}
    assert {"UsageError", "StoreError", "Notice", "Finding", "Action", "flag", "say", "SlashEntry"} <= kinds
    assert len(listed) > 1000
    texts = [text for _, text in listed]
    assert {"Setting", "tag", "STATUS_WORDS"} <= kinds
    assert any("There is no session {…}. | See them with: sandbur sessions list" in text for text in texts)


def test_words_filter_the_list() -> None:
    line = [sys.executable, str(SCRIPT), "no such session"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n  ") == 1


def test_errors_are_sentences(listed: list[tuple[str, str]]) -> None:
    errors = [row for row in listed if row[0].endswith("Error") and row[0] not in CLAUSES]
    assert len(errors) > 500
    for _, text in errors:
        first = text.split(" | ")[0]
        assert not first[0].islower() or NAMES.match(first), text
        assert "  " not in first, text


CLUMSY = re.compile(r"\b(?:is|are) no (?!longer)\w+ of\b|\bsays of\b|\bwhosoever\b|--help` helps")


def test_no_message_has_a_phrase_that_nobody_says(listed: list[tuple[str, str]]) -> None:
    assert [text for _, text in listed if CLUMSY.search(text)] == []
