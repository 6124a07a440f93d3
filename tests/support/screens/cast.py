"""A recording of a terminal: coloured rows, as asciicast v2 and as an animated SVG without a script."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

CHAR_WIDTH, LINE_HEIGHT, MARGIN, BAR = 8.4, 18, 14, 30
LAST_FRAME_S = 5.0
"""How long the last frame stays before the recording begins again."""
DARK = {"page": "#1b1f24", "edge": "#3b4048", "ink": "#d5d8dd", "bar": "#262b31"}
LIGHT = {"page": "#ffffff", "edge": "#d0d7de", "ink": "#24292f", "bar": "#f6f8fa"}
DARK_INKS = (
    "#3b4048", "#f0716b", "#8cc265", "#e0a458", "#61a8e8", "#c98be0", "#4fb9c4", "#d5d8dd",
    "#808791", "#ff8a84", "#a5dd7c", "#f5c27a", "#82c0fa", "#dfa8f2", "#6fd6e0", "#ffffff",
)  # fmt: skip
LIGHT_INKS = (
    "#24292f", "#b3261e", "#2b7a0b", "#8a5a00", "#0b5cad", "#8133a6", "#0b7480", "#57606a",
    "#57606a", "#c4302b", "#1f7a1f", "#7a5200", "#1668c1", "#9544bd", "#136f7a", "#24292f",
)  # fmt: skip
_CHANGE = re.compile(r"\x1b\[(\d+);1H\x1b\[0m\x1b\[2K(.*?)(?=\x1b\[\d+;1H|\Z)", re.S)
_CONSOLE = Console(width=400, color_system="truecolor", force_terminal=True)


@dataclass(frozen=True)
class Frame:
    """The rows of the screen, each with its escape sequences, from one moment on."""

    seconds: float
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Cast:
    title: str
    columns: int
    lines: int
    frames: tuple[Frame, ...]

    @property
    def duration_s(self) -> float:
        return self.frames[-1].seconds + LAST_FRAME_S


def split_rows(screen: str) -> tuple[str, ...]:
    """Return the rows of a screen, each with its own escape sequences and none of the row above."""
    rows = [_write_row(line) for line in Text.from_ansi(screen.rstrip("\n")).split("\n", allow_blank=True)]
    while rows and not rows[-1]:
        rows.pop()
    return tuple(rows)


def _write_row(line: Text) -> str:
    line.rstrip()
    parts = [(part.text, part.style or Style.null()) for part in line.render(_CONSOLE)]
    return "".join(_plain_style(style).render(text) for text, style in parts)


def _plain_style(style: Style) -> Style:
    """Return a style without the colours that are the terminal's own."""
    ink, paper = (
        None if color is None or color.is_default else color for color in (style.color, style.bgcolor)
    )
    return Style(
        color=ink, bgcolor=paper, bold=style.bold or None, dim=style.dim or None, italic=style.italic or None,
        underline=style.underline or None, reverse=style.reverse or None, strike=style.strike or None,
    )  # fmt: skip


def write_asciicast(cast: Cast) -> str:
    """Return the recording as asciicast v2; an event has the rows that changed."""
    header = {"version": 2, "width": cast.columns, "height": cast.lines, "title": cast.title}
    lines = [json.dumps(header, ensure_ascii=False)]
    before: tuple[str, ...] = ()
    for frame in cast.frames:
        rows = [f"\x1b[{at + 1};1H\x1b[0m\x1b[2K{row}" for at, row in _changes(before, frame.rows)]
        lines.append(json.dumps([round(frame.seconds, 2), "o", "".join(rows)], ensure_ascii=False))
        before = frame.rows
    return "\n".join(lines) + "\n"


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, str]]:
    for at in range(max(len(before), len(after))):
        old, new = (rows[at] if at < len(rows) else "" for rows in (before, after))
        if old != new:
            yield at, new


def read_asciicast(text: str) -> Cast:
    """Read what `write_asciicast` wrote."""
    header, *events = (json.loads(line) for line in text.splitlines())
    rows: dict[int, str] = {}
    frames: list[Frame] = []
    for seconds, _, output in events:
        rows |= {int(number) - 1: row for number, row in _CHANGE.findall(output)}
        last = max((at for at, row in rows.items() if row), default=-1)
        frames.append(Frame(seconds, tuple(rows.get(at, "") for at in range(last + 1))))
    return Cast(header["title"], header["width"], header["height"], tuple(frames))


def draw_svg(cast: Cast) -> str:
    """Return the recording as an SVG that CSS animates: a strip of frames, of which one is visible.

    Where a person asked for reduced motion, it is a picture of the last frame.
    """
    rows = {row: number for number, row in enumerate(dict.fromkeys(r for f in cast.frames for r in f.rows))}
    inner = (round(cast.columns * CHAR_WIDTH, 1), cast.lines * LINE_HEIGHT)
    width, height = inner[0] + 2 * MARGIN, inner[1] + BAR + MARGIN
    title = escape(cast.title)
    drawn = [f'<g id="r{number}">{_draw_row(row)}</g>' for row, number in rows.items() if row]
    strip = [
        f'<use href="#r{rows[row]}" y="{at * inner[1] + line * LINE_HEIGHT}"/>'
        for at, frame in enumerate(cast.frames)
        for line, row in enumerate(frame.rows)
        if row
    ]
    box, view = f"0 0 {width:g} {height:g}", f"0 0 {inner[0]:g} {inner[1]}"
    size = f'width="{inner[0]:g}" height="{inner[1]}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{_write_css(cast, inner[1], ''.join(drawn))}</style>",
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>',
        f'<text class="title" x="{width / 2:g}" y="19">{title}</text>',
        f"<defs>{''.join(drawn)}</defs>",
        f'<svg x="{MARGIN}" y="{BAR}" {size} viewBox="{view}">',
        f'<g class="strip">{"".join(strip)}</g>',
        "</svg>",
        "</svg>",
    ]) + "\n"  # fmt: skip


def _write_css(cast: Cast, height: int, drawn: str) -> str:
    used = sorted({int(number) for number in re.findall(r"\bc(\d+)", drawn)})
    stops = "".join(
        f"{100 * frame.seconds / cast.duration_s:.2f}%{{transform:translateY({-at * height}px)}}"
        for at, frame in enumerate(cast.frames)
    )
    last = f"transform:translateY({-(len(cast.frames) - 1) * height}px)"
    return "".join([
        _write_colors(DARK, DARK_INKS, used),
        f"@media (prefers-color-scheme:light){{{_write_colors(LIGHT, LIGHT_INKS, used)}}}",
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
        "text{white-space:pre}",
        ".title{font-family:sans-serif;font-size:13px;text-anchor:middle;opacity:.8}",
        ".b{font-weight:bold}.d{opacity:.65}.i{font-style:italic}.u{text-decoration:underline}",
        ".s{text-decoration:line-through}",
        f".strip{{{last};animation:play {cast.duration_s:g}s step-end infinite}}@keyframes play{{{stops}}}",
        "@media (prefers-reduced-motion:reduce){.strip{animation:none}}",
    ])  # fmt: skip


def _write_colors(places: dict[str, str], inks: Sequence[str], used: Sequence[int]) -> str:
    numbered = "".join(f".c{number}{{fill:{inks[number]}}}" for number in used)
    return f".page{{fill:{places['page']};stroke:{places['edge']}}}text{{fill:{places['ink']}}}" + (
        f".r{{fill:{places['ink']}}}text.q{{fill:{places['page']}}}.p{{fill:{places['bar']}}}{numbered}"
    )


def _draw_row(row: str) -> str:
    column, parts = 0, list[str]()
    for segment in Text.from_ansi(row).render(_CONSOLE):
        size = cell_len(segment.text)
        style = segment.style or Style.null()
        x, width = round(column * CHAR_WIDTH, 1), round(size * CHAR_WIDTH, 1)
        if style.reverse or (style.bgcolor is not None and not style.bgcolor.is_default):
            kind = "r" if style.reverse else "p"
            parts.append(f'<rect class="{kind}" x="{x:g}" width="{width:g}" height="{LINE_HEIGHT}"/>')
        if segment.text.strip():
            names = " ".join(_name_classes(style))
            kind = f' class="{names}"' if names else ""
            text = escape(segment.text, quote=False)
            parts.append(f'<text{kind} x="{x:g}" y="13.5" textLength="{width:g}">{text}</text>')
        column += size
    return "".join(parts)


def _name_classes(style: Style) -> Iterator[str]:
    marks = {"b": style.bold, "d": style.dim, "i": style.italic, "u": style.underline, "s": style.strike}
    yield from (name for name, is_set in marks.items() if is_set)
    if style.reverse:
        yield "q"
    elif style.color is not None and not style.color.is_default:
        yield f"c{_find_number(style.color)}"


def _find_number(color: Color) -> int:
    """Return the number of the nearest of the sixteen colours of a terminal."""
    if color.number is not None and color.number < 16:
        return color.number
    red, green, blue = color.get_truecolor()

    def distance(number: int) -> int:
        code = DARK_INKS[number].removeprefix("#")
        parts = (int(code[at : at + 2], 16) for at in (0, 2, 4))
        return sum((mine - other) ** 2 for mine, other in zip((red, green, blue), parts, strict=True))

    return min(range(16), key=distance)
