"""Two changed versions of a text are joined line by line, or not at all."""

import itertools
import random

import pytest

from sandbur.actions.workspace.copies.three_way_merge import MAX_BYTES, merge

BASE = b"a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n", b"A\nb\nc\nd\nE\n"),
        (b"x\na\nb\nc\nd\ne\n", b"a\nb\nc\nd\ne\ny", b"x\na\nb\nc\nd\ne\ny"),
        (b"b\nc\nd\ne\n", b"a\nb\nc\n", b"b\nc\n"),
        (b"a\nB\nc\nd\ne\n", b"a\nB\nc\nd\nE\n", b"a\nB\nc\nd\nE\n"),
        (BASE, b"other\n", b"other\n"),
        (b"other\n", BASE, b"other\n"),
        (b"same\n", b"same\n", b"same\n"),
    ],
)
def test_changes_of_different_lines_are_joined(ours: bytes, theirs: bytes, merged: bytes) -> None:
    assert merge(BASE, ours, theirs) == merged
    assert merge(BASE, theirs, ours) == merged


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (b"A\nb\nc\nd\ne\n", b"X\nb\nc\nd\ne\n"),
        (b"a\nB\nc\nd\ne\n", b"a\nb\nC\nd\ne\n"),
        (b"a\nx\nb\nc\nd\ne\n", b"a\ny\nb\nc\nd\ne\n"),
        (b"a\nb\nd\ne\n", b"a\nb\nC\nd\ne\n"),
    ],
)
def test_changes_without_an_unchanged_line_between_them_conflict(ours: bytes, theirs: bytes) -> None:
    assert merge(BASE, ours, theirs) is None
    assert merge(BASE, theirs, ours) is None


def test_binary_files_and_large_files_are_not_merged() -> None:
    assert merge(b"a\n\0\nb\n", b"A\n\0\nb\n", b"a\n\0\nB\n") is None
    large = b"line of text\n" * (MAX_BYTES // 13 + 1)
    assert merge(large, b"x\n" + large, large + b"y\n") is None


def test_a_long_file_of_equal_lines_is_refused_and_not_compared_for_minutes() -> None:
    base = b"\n" * 50_000
    assert merge(base, b"x\n" + base, base + b"y\n") is None


def test_line_ends_are_kept() -> None:
    assert merge(b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\r\n", b"a\r\nb\r\nC\r\n") == b"A\r\nb\r\nC\r\n"


def test_far_apart_edits_of_both_versions_are_all_in_the_result() -> None:
    chosen = random.Random(7)
    for _ in range(200):
        base = [f"line {number} {chosen.random()}\n".encode() for number in range(40)]
        places = sorted(chosen.sample(range(0, 40, 2), 6))
        ours, theirs, wanted = list(base), list(base), list(base)
        for at, version in zip(places, itertools.cycle((ours, theirs)), strict=False):
            version[at] = wanted[at] = b"changed " + base[at]
        assert merge(*(b"".join(one) for one in (base, ours, theirs))) == b"".join(wanted)
