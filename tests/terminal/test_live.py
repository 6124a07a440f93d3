"""An answer that streams into a terminal: few bytes, and in the end exactly what is printed in one piece."""

import random
from collections.abc import Callable
from functools import cache
from io import StringIO

import pytest
from rich.console import Console
from support.commands.command import Command
from support.models.server import ModelServer, say
from support.screens.screen import Screen
from support.screens.terminal_pair import Terminal as Pair

from sandbur.ui.terminal.live import LiveRegion
from sandbur.ui.terminal.terminal import Glyphs
from sandbur.ui.terminal.text.markdown_blocks import BlockSplitter, render_block
from sandbur.ui.terminal.view.answer import AnswerView
from sandbur.ui.terminal.view.work import activity_row

MOST = 3
"""Bytes for each byte of the text."""
CHARS_A_SECOND = 150
SENTENCE = "the session keeps every step of the agent on disk so that a crash loses nothing and it goes on"
WORDS = SENTENCE.split()


def words(count: int, seed: object = 0) -> str:
    return " ".join(random.Random(str(seed)).choices(WORDS, k=count))


def marked(count: int, seed: object = 0) -> str:
    """Return words with emphasis, code and a link among them."""
    forms: list[Callable[[str], str]] = [*([str] * 9), "**{}**".format, "*{}*".format, "`{}`".format]
    chosen = random.Random(str(seed))
    parts = [chosen.choice(forms)(chosen.choice(WORDS)) for _ in range(count)]
    return " ".join([*parts[: count // 2], "[a link](https://example.org/page)", *parts[count // 2 :]])


CODE = '''def total(values: list[int]) -> int:
    """Add them up,
    one by one."""
    result = 0
    for number, value in enumerate(values):
        result += value * 2  # twice
    return result

'''
ANSWERS = {
    "one paragraph": words(620) + ".",
    "one paragraph with marks": marked(560),
    "paragraphs": "\n\n".join(words(60, n) + "." for n in range(8)),
    "a paragraph of many lines": "\n".join(words(9, n) for n in range(60)),
    "bullets": "\n".join(f"- **{words(2, n)}**: {words(12)} `{words(1, n)}` *{words(2)}*" for n in range(30)),
    "bullets in bullets": "\n".join(f"- {words(7, n)}\n  - {words(9, n)}\n\n  {words(8)}" for n in range(20)),
    "numbers": "\n".join(f"{n}. **{words(2, n)}** {words(16, n)}" for n in range(1, 31)),
    "code": f"Here it is:\n\n```python\n{CODE * 12}```\n\nThat is all.",
    "code without a gap": f"Here it is:\n```python\n{CODE * 12}```\nThat is all.",
    "a comment over lines": "```c\n" + "/* a\n   b */\nint main(void) {\n    return 0;\n}\n" * 30 + "```",
    "a table": "| name | count | what it is |\n|---|---:|---|\n"
    + "\n".join(f"| {words(1, n)}{n} | {n * 37} | {words(n % 9 + 4, n)} |" for n in range(40)),
    "headings": "\n\n".join(f"{'#' * (n % 3 + 1)} {words(4, n)}\n\n{words(25, n)}." for n in range(15)),
    "headings by the next line": "\n\n".join(
        f"{words(4, n)}\n{'=-'[n % 2] * 9}\n\n{words(9, n)}\n{words(30, n)}." for n in range(12)
    ),
    "quotes and rules": "\n\n".join(f"> {words(40, n)}\n\n---\n\n{words(30, n)}" for n in range(6)),
    "marks that stay": "\n\n".join(f"{words(30, n)} 2 * 3 [x *y _z `a {words(90, n)}" for n in range(4)),
    "wide characters": "\n\n".join("表示する文字 " * 12 + "✅ café " + words(30, n) for n in range(6)),
}
SIZES = [(80, 24), (200, 50), (80, 60), (31, 9)]


def terminal_console(out: StringIO, columns: int, rows: int) -> Console:
    return Console(
        file=out, width=columns, height=rows, force_terminal=True, color_system="standard", markup=False,
        highlight=False, emoji=False, _environ={"TERM": "xterm"},
    )  # fmt: skip


def printed(answer: str, columns: int) -> Screen:
    """Return the screen after an answer that was printed in one piece."""
    out = StringIO()
    console = terminal_console(out, columns, 24)
    splitter = BlockSplitter()
    for block in [*splitter.feed(answer), *splitter.finish()]:
        console.print(render_block(block))
        console.print()
    screen = Screen(columns, 24)
    screen.feed(out.getvalue())
    return screen


class Streamed:
    """An answer view on a terminal of its own, whose clock is counted in ticks."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.out = StringIO()
        self.console = terminal_console(self.out, columns, rows)
        self.live = LiveRegion(self.console)
        self.view = AnswerView(self.console, self.live)
        self._ticks = 0

    def tick(self) -> None:
        self._ticks += 1
        # Far apart: rendering must not have to rest. The status moves once a second.
        now = self._ticks / 10
        self.view.draw(now, self.live.rows(activity_row(Glyphs(), "working", 0, now // 1)))

    def stream(self, answer: str, piece: int = 5) -> None:
        for start in range(0, len(answer), piece):
            self.view.feed(answer[start : start + piece])
            while self._ticks / 10 * CHARS_A_SECOND < start:
                self.tick()

    def end(self) -> None:
        self.view.finish()
        self.live.clear()


def arriving(data: str) -> int:
    """Return how many bytes arrive at the terminal: the driver adds a return to each line end."""
    return len(data.encode()) + data.count("\n")


@cache
def written(name: str, columns: int, rows: int) -> str:
    """Return what is written of an answer that streams in."""
    view = Streamed(columns, rows)
    view.stream(ANSWERS[name])
    view.end()
    return view.out.getvalue()


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_left_is_the_answer_as_it_is_printed_in_one_piece(name: str, columns: int, rows: int) -> None:
    screen, whole = Screen(columns, rows), printed(ANSWERS[name], columns)
    screen.feed(written(name, columns, rows))
    assert screen.text == whole.text
    assert screen.styled == whole.styled


@pytest.mark.parametrize(("columns", "rows"), SIZES[:3])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_takes_at_most_three_times_its_bytes(name: str, columns: int, rows: int) -> None:
    assert arriving(written(name, columns, rows)) <= MOST * len(ANSWERS[name].encode())


def test_a_row_whose_width_terminals_see_differently_is_written_from_there_on() -> None:
    streamed, screen = Streamed(), Screen()
    answer = "so 👩🏽‍💻 and 🇩🇪 é " + words(8)
    streamed.stream(answer, piece=1)
    streamed.end()
    screen.feed(streamed.out.getvalue())
    assert screen.text == [answer]


def test_nothing_is_written_while_nothing_changes() -> None:
    streamed = Streamed()
    streamed.stream(words(200))
    foot = streamed.live.rows("working")
    now = 1e6
    streamed.view.draw(now, foot)
    before = arriving(streamed.out.getvalue())
    for later in range(100):
        streamed.view.draw(now + later, foot)
    assert arriving(streamed.out.getvalue()) == before


def test_text_that_comes_in_is_on_the_screen_before_its_block_ends() -> None:
    streamed, screen = Streamed(), Screen()
    streamed.stream(words(40))
    for _ in range(5):
        streamed.tick()
    screen.feed(streamed.out.getvalue())
    assert words(40) in " ".join(screen.text)
    assert "working" in screen.text[-1]


def test_a_long_heading_by_the_next_line_loses_no_word() -> None:
    """Its first rows have scrolled away as a paragraph by then."""
    streamed, screen = Streamed(), Screen()
    answer = f"{words(600)}\n-----\n\nAfter."
    streamed.stream(answer)
    streamed.end()
    screen.feed(streamed.out.getvalue())
    assert " ".join(" ".join(screen.text).split()) == f"{words(600)} After."


def test_lines_that_are_printed_in_between_go_above_the_open_block() -> None:
    streamed, screen = Streamed(), Screen()
    streamed.stream(words(300))
    streamed.tick()
    streamed.live.clear()
    streamed.console.print("in between")
    streamed.tick()
    streamed.end()
    screen.feed(streamed.out.getvalue())
    text = " ".join(screen.text)
    assert text.index("in between") < text.index(words(300)[-60:])
    assert " ".join(text.replace("in between", "").split()) == words(300)


@pytest.mark.parametrize(
    ("name", "columns"), [("one paragraph", 80), ("one paragraph", 200), ("bullets", 80)]
)
def test_few_bytes_arrive_at_a_real_terminal(command: Command, name: str, columns: int) -> None:
    answer = ANSWERS[name]
    turn = say(answer, pieces=len(answer) // 6, delay_s=0.01)
    command.env |= {"TERM": "xterm-256color", "ANTHROPIC_API_KEY": "k"}
    for gone in ("NO_COLOR", "COLUMNS", "LINES"):
        command.env.pop(gone, None)
    with ModelServer([turn]) as server, Pair(rows=50, columns=columns) as pair:
        command.env["ANTHROPIC_BASE_URL"] = server.url
        process = command.start("-m", "anthropic/claude-test", "go", start_new_session=True, **pair.streams)
        try:
            pair.see("model call")
        finally:
            process.kill()
            process.wait()
        shown = pair.output.partition(b"working")[2].partition(b"model call")[0]
    assert len(shown) <= MOST * len(answer.encode())
