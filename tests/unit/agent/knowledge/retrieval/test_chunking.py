"""Files are split where their structure says, and the line numbers of each chunk are exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbur.agent.knowledge.retrieval.chunking.line_chunks import MOST_CHARS, Chunk, chunk_lines
from sandbur.agent.knowledge.retrieval.chunking.structured_chunks import chunk_markdown, chunk_python

MARKDOWN = """\
Before every heading.

# Install
## Linux
Run it.

```sh
# no heading
```
## macOS

Install `brew`
--------------
Then wait.
> # quoted
"""
PYTHON = '''\
"""A module."""
import os


# What it is for.
@cache
def load(path):
    return open(path)


class Reader:
    """Reads."""

    def read(self):
        return 1


print(load)
'''


def name(chunks: list[Chunk]) -> list[tuple[int, int, str]]:
    return [(one.first, one.last, one.title) for one in chunks]


def test_markdown_is_split_at_its_headings_with_the_headings_above() -> None:
    assert name(chunk_markdown(MARKDOWN)) == [
        (1, 1, ""),
        (4, 9, "Install > Linux"),
        (12, 15, "Install > Install `brew`"),
    ]
    assert name(chunk_markdown("# Only a heading")) == [(1, 1, "")]


def test_python_is_split_at_its_definitions_with_their_qualified_names() -> None:
    assert name(chunk_python(PYTHON)) == [
        (1, 2, ""),
        (5, 8, "load"),
        (11, 15, "Reader"),
        (18, 18, ""),
    ]


def test_a_large_class_is_split_into_its_methods() -> None:
    methods = "\n".join(f"    def m{n}(self):\n        return {'x' * 900!r}\n" for n in range(3))
    found = name(chunk_python(f"class Large:\n    size = 1\n\n{methods}"))
    assert found == [(1, 2, "Large"), (4, 5, "Large.m0"), (7, 8, "Large.m1"), (10, 11, "Large.m2")]


@pytest.mark.parametrize("text", ["def broken(:\n  pass", "(" * 10_000, "x = '\\d'\n", "\0", ""])
def test_a_text_that_is_no_python_is_split_by_its_lines(text: str) -> None:
    found = chunk_python(text)
    assert "\n".join(chunk.text for chunk in found)[:100] == text.strip()[:100]


def test_other_texts_are_cut_at_blank_lines_before_unindented_ones() -> None:
    block = "function f() {\n" + "  work();\n" * 60 + "\n  rest();\n}\n"
    lines = f"{block}\n{block}\n{block}\n{block}".split("\n")
    found = chunk_lines(lines)
    assert len(found) > 1
    assert {chunk.text.split("\n")[0] for chunk in found} == {"function f() {"}


def test_a_line_without_end_becomes_several_chunks_with_its_number() -> None:
    found = chunk_lines(["a", "b" * (2 * MOST_CHARS + 1), "c"])
    assert [(one.first, one.last, len(one.text)) for one in found] == [
        (1, 1, 1),
        (2, 2, MOST_CHARS),
        (2, 2, MOST_CHARS),
        (2, 2, 1),
        (3, 3, 1),
    ]


@given(st.text(alphabet="ab #>-`\n\t{}:.=*_", max_size=6000))
@settings(max_examples=150, deadline=None)
def test_chunks_are_the_lines_of_the_text_and_no_other_line_is_left_out(text: str) -> None:
    lines = text.split("\n")
    for split in (chunk_markdown, chunk_python, lambda given: chunk_lines(given.split("\n"))):
        covered: set[int] = set()
        for chunk in split(text):
            assert len(chunk.text) <= MOST_CHARS
            covered |= {*range(chunk.first, chunk.last + 1)}
            if chunk.first < chunk.last:
                assert chunk.text == "\n".join(lines[chunk.first - 1 : chunk.last])
        if split is not chunk_markdown:
            assert covered >= {at for at, line in enumerate(lines, 1) if line.strip()}
