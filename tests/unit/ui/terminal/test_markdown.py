"""Streaming markdown is cut into finished blocks."""

from io import StringIO

import pytest
from rich.console import Console

from sandbur.ui.terminal.text.markdown_blocks import BlockSplitter, preview, render_block

DOCUMENT = """# Title

A paragraph
over two lines.

- one
- two

  still two

- three

```python
a = 1

b = 2
```
After the code.

1. first
2. second
"""
BLOCKS = [
    "# Title",
    "A paragraph\nover two lines.",
    "- one\n- two\n\n  still two\n\n- three",
    "```python\na = 1\n\nb = 2\n```",
    "After the code.",
    "1. first\n2. second",
]


def split(document: str, size: int) -> list[str]:
    splitter = BlockSplitter()
    blocks = []
    for start in range(0, len(document), size):
        blocks += splitter.feed(document[start : start + size])
    return blocks + splitter.finish()


def test_blocks_are_the_same_whatever_the_pieces():
    for size in (1, 2, 7, 1000):
        assert split(DOCUMENT, size) == BLOCKS


def test_a_finished_block_comes_out_before_the_text_ends():
    splitter = BlockSplitter()
    assert splitter.feed("one\n\ntwo") == []
    assert splitter.feed("\n") == ["one"]
    assert splitter.open_block == "two"


def test_a_longer_fence_holds_a_shorter_one():
    text = "````\n```\ncode\n\n```\n````\nafter\n"
    assert split(text, 3) == ["````\n```\ncode\n\n```\n````", "after"]


def show(block: str, **options) -> str:
    out = StringIO()
    Console(file=out, width=60, **options).print(render_block(block))
    return out.getvalue()


def test_html_in_an_answer_is_shown_as_written():
    assert "List<T> and <b>bold</b>" in show("List<T> and <b>bold</b>")


def test_markup_of_rich_in_an_answer_is_shown_as_written():
    assert "[red]x[/red] [/x]" in show("[red]x[/red] [/x]")


def test_a_link_shows_where_it_leads():
    assert "https://evil.example" in show("[docs](https://evil.example)")
    assert "\x1b]8" not in show("[docs](https://evil.example)", force_terminal=True)


def test_an_escape_sequence_in_an_answer_does_not_reach_the_terminal():
    assert "\x1b" not in show("a \x1b]52;c;eA==\x07 `\x1b[2J` b")


def test_the_preview_of_a_long_open_block_is_its_end():
    out = StringIO()
    Console(file=out, width=80).print(preview("start " + "x" * 10_000 + " end"))
    assert "end" in out.getvalue()
    assert "start" not in out.getvalue()


@pytest.mark.parametrize(
    "block",
    [
        "text",
        "- one\n- two",
        "1. one\n2. two",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\na = 1\n\nb = 2\n```",
        "~~~\nplain\n~~~",
        "> quote",
        "# Title",
        "## Second",
        "---",
    ],
)
def test_no_block_begins_or_ends_with_an_empty_row(block: str) -> None:
    console = Console(width=40, file=StringIO(), force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(render_block(block))
    rows = capture.get().split("\n")
    assert rows.pop() == ""  # what follows stands on a row of its own
    assert rows[0].strip()
    assert rows[-1].strip()


def test_empty_rows_inside_of_code_stay() -> None:
    console = Console(width=40, file=StringIO())
    with console.capture() as capture:
        console.print(render_block("```python\na = 1\n\nb = 2\n```"))
    assert [row.strip() for row in capture.get().splitlines()] == ["a = 1", "", "b = 2"]
