"""Every visible character of an answer is on the screen, whatever the width of the window."""

from collections import Counter
from io import StringIO
from textwrap import indent

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sandbur.ui.terminal.text.markdown_blocks import BlockSplitter, render_block

WIDTHS = (40, 60, 80, 120)
INVISIBLE = "\u200d\ufe0f"
CHINESE = "数据库服务器配置文件说明这是一个非常长的中文"
EMOJI = ("😀", "👨‍👩‍👧", "🇨🇳", "👍🏽", "❤️", "✅")  # fmt: skip

LETTERS, PARTS = "abcdefgxyzABCXYZ0123456789", "abcxyz019._-"

words = st.text(LETTERS, min_size=1, max_size=12)
chinese = st.text(CHINESE, min_size=1, max_size=50)
parts = st.text(PARTS, min_size=1, max_size=20).map("x{}x".format)
paths = st.lists(parts, min_size=1, max_size=9).map(lambda each: f"/{'/'.join(each)}")
pieces = words | chinese | paths | st.sampled_from(EMOJI)
texts = st.lists(pieces, min_size=1, max_size=8).map(" ".join)
marked = st.sampled_from(["{}", "**{}**", "`{}`", "[{}](https://x.example/a)"])
inline = st.builds(str.format, marked, texts)
rows = st.integers(1, 9).flatmap(lambda count: st.lists(inline | st.just(""), min_size=count, max_size=count))


@st.composite
def tables(draw: st.DrawFn) -> str:
    names = draw(rows)
    body = draw(st.lists(st.lists(inline, min_size=len(names), max_size=len(names)), max_size=4))
    lines = [names, [draw(st.sampled_from(["---", "--:", ":-:"])) for _ in names], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quotes = inner.map(lambda text: indent(text, "> ", lambda _: True))
    items = st.tuples(inline, inner).map(lambda parts: f"{parts[0]}\n\n{indent(parts[1], '   ')}")
    lists = st.lists(items, min_size=1, max_size=3)
    bullets = lists.map(lambda each: "\n".join(f"-  {item}" for item in each))
    numbers = lists.map(lambda each: "\n".join(f"1. {item}" for item in each))
    return quotes | bullets | numbers


code = st.lists(texts, min_size=1, max_size=4).map(lambda lines: "\n".join(["```python", *lines, "```"]))
leaves = inline | inline.map(lambda text: f"## {text}") | code | tables()
blocks = leaves | nest(leaves) | nest(nest(leaves)) | nest(nest(nest(leaves)))
answers = st.lists(blocks, min_size=1, max_size=3).map("\n\n".join)


def render(answer: str, width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False, emoji=False)
    splitter = BlockSplitter()
    for block in [*splitter.feed(answer), *splitter.finish()]:
        console.print(render_block(block))
        console.print()
    return out.getvalue()


def count_visible(text: str) -> Counter[str]:
    return Counter(char for char in text if char.isalnum() or (ord(char) > 0x2600 and char not in INVISIBLE))


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(answers)
def test_every_character_of_an_answer_is_on_the_screen(answer: str) -> None:
    expected = count_visible(answer.replace("```python", "```"))
    for width in WIDTHS:
        screen = render(answer, width)
        lost = expected - count_visible(screen)
        lost -= Counter("1" * answer.count("1. "))
        assert not lost, f"{width}: {lost}\n{answer}\n{screen}"
        assert max(map(cell_len, screen.split("\n"))) <= width, f"{width}\n{answer}\n{screen}"


TABLE = """\
| 名称 | 说明 | 路径 |
|---|---|---|
| 数据库 | 这是一个非常长的中文说明，用来测试窄窗口 | /usr/local/share/sandbur/databases/servers.toml |
| b | | `/a` |
"""


def test_a_table_below_50_columns_is_rows_of_names_and_values() -> None:
    rows = [row.rstrip() for row in render(TABLE, 49).rstrip().split("\n")]
    assert rows == [
        "名称: 数据库",
        "说明: 这是一个非常长的中文说明，用来测试窄窗口",
        "路径:",
        "  /usr/local/share/sandbur/databases/servers.toml",
        "",
        "名称: b",
        "说明:",
        "路径: /a",
    ]


def test_a_table_of_more_columns_than_fit_is_rows_of_names_and_values() -> None:
    names = [f"name{number}" for number in range(12)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * 12, ["a word or two"] * 12))
    assert "name11: a word or two" in render(table, 80)
    assert "name11: " not in render(table.replace("a word or two", "x"), 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "answer",
    [
        "\n".join(f"{'  ' * depth}- level{depth} 文字文字 /a/long/path/{depth}" for depth in range(18)),
        "\n".join(f"{'   ' * depth}1. level{depth} 文字文字" for depth in range(18)),
        "\n".join(f"{'>' * depth} quote{depth} 文字文字" for depth in range(1, 19)),
        "see ![a picture](https://x.example/a.png) and ![](https://x.example/b.png)",
        "| a | b |\n|---|---|\n| ![a picture](https://x.example/a.png) | [c](https://x.example/c) |",
        "| command | what |\n|---|---|\n| `ls | wc -l` | counts 文字 |\n| x |",
        "> a | b\n> --|--\n> c | d | e",
        "- | a | b |\n  |---|---|\n  | c | d | e | f |",
    ],
    ids=[
        "lists",
        "numbers",
        "quotes",
        "pictures",
        "pictures in a table",
        "pipes in cells",
        "in a quote",
        "in a list",
    ],
)
def test_what_parsers_leave_out_is_on_the_screen(answer: str, width: int) -> None:
    screen = render(answer, width)
    assert not count_visible(answer) - count_visible(screen) - Counter("1" * 18)
    assert max(map(cell_len, screen.split("\n"))) <= width


def test_an_emoji_of_several_code_points_is_whole_in_code() -> None:
    code = "👨‍👩‍👧" * 8 + " ❤️ 🇨🇳"
    assert render(f"```python\n{code}\n```", 40).strip() == code
