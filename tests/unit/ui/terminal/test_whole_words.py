"""Long lines above the prompt, such as unfolded output: rows end between words, and nothing is lost."""

import random
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console
from support.screens.screen import Screen

from sandbur.actions.ports.events import TextDelta, ThinkingDelta, ToolFinished
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.text.diffs import number_diff

WORDS = ["a", "of", "word", "longer-word", "/a/path/of/a/file.py", "表示", "--flag=value", "x" * 17, "(one)"]


def open_view(width: int) -> tuple[Renderer, StringIO]:
    out = StringIO()
    console = Console(
        file=out, width=width, height=500, force_terminal=True, markup=False, highlight=False, emoji=False,
        _environ={"TERM": "xterm"},
    )  # fmt: skip
    return Renderer(console, answers=True), out


def make_lines(chosen: random.Random) -> list[str]:
    """Return lines of words, some with an indent or tabs, most of them wider than a window."""
    gaps = [" ", " ", "  ", "\t"]
    return [
        "".join(chosen.choice(gaps) + word for word in chosen.choices(WORDS, k=chosen.randrange(1, 60)))
        for _ in range(12)
    ]


def finish(view: Renderer, content: str) -> None:
    view.show(ToolFinished("c1", "run_shell_command", "ok", content, 5))


def unfold_output(view: Renderer, lines: list[str]) -> None:
    finish(view, "\n".join(lines))
    view.toggle_output()


def print_whole_output(view: Renderer, lines: list[str]) -> None:
    view.toggle_output()
    finish(view, "\n".join(lines))


def unfold_difference(view: Renderer, lines: list[str]) -> None:
    finish(view, write_difference(lines))
    view.expand_last()


def print_whole_difference(view: Renderer, lines: list[str]) -> None:
    view.toggle_output()
    finish(view, write_difference(lines))


def print_difference(view: Renderer, lines: list[str]) -> None:
    view.lines(number_diff(write_difference(lines)))


def unfold_thinking(view: Renderer, lines: list[str]) -> None:
    view.show(ThinkingDelta("\n".join(lines)))
    view.show(TextDelta("Done."))
    view.expand_last()


def write_difference(lines: list[str]) -> str:
    body = "\n".join(f"+{line}".replace("\t", " ") for line in lines)
    return f"--- a.txt\n+++ a.txt\n@@ -0,0 +1,{len(lines)} @@\n{body}"


WAYS = [
    unfold_output, print_whole_output, unfold_difference, print_whole_difference, print_difference,
    unfold_thinking,
]  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 121])
@pytest.mark.parametrize("way", WAYS)
def test_a_long_line_is_broken_between_words_and_nothing_of_it_is_lost(way: object, width: int) -> None:
    assert callable(way)
    for seed in range(6):
        view, out = open_view(width)
        lines = make_lines(random.Random(seed))
        way(view, lines)
        screen = Screen(width, 500)
        screen.feed(out.getvalue())
        rows = screen.text
        assert all(cell_len(row) <= width for row in rows)
        words = iter([word for row in rows for word in row.split()])
        for word in " ".join(lines).split():
            assert any(one == word or one.removeprefix("+") == word for one in words), (word, rows)


def test_a_word_that_is_wider_than_the_window_stays_whole_so_that_it_can_be_copied() -> None:
    view, out = open_view(80)
    address = "https://example.org/" + "x" * 200
    unfold_output(view, [f"See {address} for more."])
    assert address in out.getvalue()


def test_a_line_of_a_million_characters_is_printed_at_once() -> None:
    view, out = open_view(80)
    unfold_output(view, ["word " * 200_000])
    assert out.getvalue().count("word") >= 200_000
