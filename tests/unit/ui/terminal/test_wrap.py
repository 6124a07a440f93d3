"""Lines that are wider than their place: no character is lost, and no word is torn that fits a row."""

import random

import pytest
from rich.cells import cell_len

from sandbur.ui.terminal.terminal import Glyphs
from sandbur.ui.terminal.text.diffs import Emphasized, emphasize
from sandbur.ui.terminal.text.wrap import flow, frame_lines, hanging, wrap

COMMAND = 'cat /proc/loadavg || uptime; echo "cores: $(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"'


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_make_the_text_again_and_tear_no_word_that_fits(seed: int) -> None:
    chosen = random.Random(seed)
    words = ["a", "of", "word", "longer-word", "x" * 50, "表示", " ", "   "]
    text = " ".join(chosen.choices(words, k=chosen.randrange(40)))
    cells, indent = chosen.randrange(12, 60), chosen.choice([0, 2, 4])
    rows = wrap(text, cells, indent)
    assert "".join(rows) == text
    for number, row in enumerate(rows):
        room = cells - indent if number else cells
        assert cell_len(row) <= room + row.endswith(" ")
    whole = {word for row in rows for word in row.split()}
    assert all(word in whole for word in text.split() if cell_len(word) <= cells - indent)


def test_a_line_of_a_million_characters_is_wrapped_at_once() -> None:
    text = "x" * 1_000_000
    rows = wrap(text, 80, 4)
    assert "".join(rows) == text
    assert {len(row) for row in rows[1:-1]} == {76}


@pytest.mark.parametrize("cells", [24, 40, 80, 160])
def test_a_command_stays_in_its_frame_and_a_row_that_goes_on_shows_it(cells: int) -> None:
    rows = [text for _, text in frame_lines([("", f"$ {COMMAND}"), ("", "  second line")], cells, Glyphs())]
    assert all(cell_len(row) <= cells for row in rows)
    assert [row[0] for row in rows].count("│") == 2
    assert set(row[0] for row in rows) <= {"│", "┆"}
    assert any("_NPROCESSORS_ONLN" in row for row in rows)


def test_a_frame_of_any_width_leaves_lines_whole_and_marks_what_stands_out() -> None:
    line = emphasize("one two three four five", "added.word", [(4, 18)])
    [(_, row)] = frame_lines([("added", line)], None, Glyphs())
    assert row == "│ one two three four five"
    rows = [row for _, row in frame_lines([("added", line)], 14, Glyphs())]
    marked = [row[a:b] for row in rows if isinstance(row, Emphasized) for a, b in row.parts]
    assert "".join(marked) == "two three four"


def test_entries_stand_side_by_side_where_they_fit() -> None:
    entries = ["[y] yes, once", "[n] no", "[r] no, with a reason", "[e] edit"]
    assert list(flow(entries, 80)) == ["[y] yes, once   [n] no   [r] no, with a reason   [e] edit"]
    assert list(flow(entries, 30)) == ["[y] yes, once   [n] no", "[r] no, with a reason", "[e] edit"]
    assert all(len(row) <= 12 for row in flow(entries, 12))


def test_what_goes_on_hangs_below_its_beginning() -> None:
    assert list(hanging("packages  ", "one two three four five", 24)) == [
        "packages  one two three", "          four five",
    ]  # fmt: skip
    assert list(hanging("a very wide head  ", "one two", 20)) == ["a very wide head", "  one two"]
