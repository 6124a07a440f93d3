"""Known key formats are found, harmless lines are left alone, and no input takes more than linear time."""

import time

import pytest
from support.row_by_row import for_each
from support.samples.harmless import LINES
from support.samples.secret import FORMATS, PLACES, Sample

from sandbur.actions.masking.masker import PLACEHOLDER, TextMasker

MASKER = TextMasker()
_HOSTILE = (
    "a", "-", "_", "=", '"', "\\", "\r", "A", "eyJ", "eyJ.", "eyJabcdefgh.", "sk-", "sk-a", "sk-proj-",
    "ghp_", "AKIA", "AIza", "SKa0", "12345678:", "dapi", "8Q~", ".atlasv1.", "M" * 24 + ".", "key=",
    "token=", "token: ", '"token": "', "password='", "--password a1b2c3d4 ", "pass:", "://", "://a:",
    "://a:b@", "//a:@", "bearer ",
    "authorization:", "Authorization: Bearer ", "cookie: a=b;", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAA\n",
    "-----BEGIN PRIVATE KEY-----\\n", "[masked ", "[masked a]", "token[masked a]",
)  # fmt: skip


@for_each("sample", FORMATS)
def test_a_key_of_this_format_is_masked_and_nothing_else(sample: Sample):
    masked = MASKER.text(sample.line)
    assert PLACEHOLDER.sub("\0", masked) == sample.line.replace(sample.secret, "\0")


@for_each("sample", PLACES)
def test_a_secret_in_this_place_is_masked_and_nothing_else(sample: Sample):
    masked = MASKER.text(sample.line)
    assert PLACEHOLDER.sub("\0", masked) == sample.line.replace(sample.secret, "\0")


@for_each("sample", [*FORMATS, *PLACES])
def test_masking_masked_text_changes_nothing(sample: Sample):
    masked = MASKER.text(sample.line)
    assert MASKER.text(masked) == masked


@for_each("line", list(LINES))
def test_a_harmless_line_stays_as_it_is(line: str):
    assert MASKER.text(line) == line


def test_the_corpora_are_large_enough_to_mean_something():
    assert len(FORMATS) >= 60
    assert len(PLACES) >= 40
    assert len(LINES) >= 100


def test_a_placeholder_names_what_it_stands_for():
    by_name = {sample.name: sample for sample in (*FORMATS, *PLACES)}
    assert "[masked OpenAI key]" in MASKER.text(by_name["OpenAI project"].line)
    assert "[masked GitHub token]" in MASKER.text(by_name["GitHub personal"].line)
    assert "[masked value of DB_PASSWORD]" in MASKER.text(by_name["export"].line)


@pytest.mark.parametrize("piece", _HOSTILE)
def test_text_made_to_be_slow_takes_time_in_proportion_to_its_size(piece: str):
    def seconds(size: int) -> float:
        text = f":{(piece * (size // len(piece) + 1))[:size]}("
        start = time.process_time()
        MASKER.text(text)
        return time.process_time() - start

    small, large = seconds(25_000), seconds(400_000)
    assert large < max(64 * small, 0.5), "16 times the text took more than 64 times as long"


def test_five_megabytes_of_one_letter_or_of_token_beginnings_pass_quickly():
    for text in ("a" * 5_000_000, "eyJ" * 1_000_000):
        start = time.process_time()
        assert MASKER.text(text) == text
        assert time.process_time() - start < 5
