"""The report as Markdown, for issues, pull requests and text search."""

import math
import re
from collections.abc import Iterator, Sequence

from ...actions.workspace.paths import format_count
from ...agent.history.reports.run_report import Account, CallAccount, CutText, FileDiff
from ..terminal.text.sanitize import fence_text, one_line, plain
from . import blocks, words
from .compose import compose_report

_TICKS = re.compile(r"`+")
_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<language>\w*+)[^\n]*\n"
    r"(?P<text>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"`{3,}|~{3,}")
_HEADING = re.compile(r"^ {0,3}#{1,6} +([^\n]+)$", re.MULTILINE)
_RULE = re.compile(r"^ {0,3}(?=(?:-[ \t]*){3,}$|=+[ \t]*$)", re.MULTILINE)


def code(text: str) -> str:
    """Return text as inline code."""
    text_line = one_line(text)
    if not text_line.strip():
        return "``"
    longest = max((len(run[0]) for run in _TICKS.finditer(text_line)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if text_line.startswith("`") or text_line.endswith("`") or longest else ""
    return f"{fence}{edge}{text_line}{edge}{fence}"


def line(text: str) -> str:
    """Return text on one line, with the characters escaped that Markdown would interpret."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", one_line(text))


def prose(text: str) -> str:
    """Return the Markdown of a person or a model without HTML, pictures and headings.

    Code blocks get new fences, because Markdown programs differ in where a code block ends.
    """
    text = plain(text).strip("\n")
    parts: list[str] = []
    end = 0
    for found in _FENCED.finditer(text):
        parts += [
            _escape_markup(text[end : found.start()]),
            "\n\n",
            fence_text(found["text"].rstrip(), found["language"]),
            "\n\n",
        ]
        end = found.end()
    parts.append(_escape_markup(text[end:]))
    return "".join(parts).strip("\n")


def _escape_markup(text: str) -> str:
    """Escape HTML, images, fences, rules and headings.

    Entities are used instead of backslashes, because a backslash in the text could cancel another one.
    """
    text = text.replace("<", "&lt;").replace("![", "!&#91;")
    text = _FENCE.sub(lambda run: f"&#{ord(run[0][0])};" * len(run[0]), text)
    text = _RULE.sub("\\\\", text)
    return _HEADING.sub(lambda heading: f"**{heading[1].strip(' #*')}**", text)


_PLAN_SIGNS = {"ok": "x", "bad": "!"}
_BARS = " ▏▎▍▌▋▊▉█"
_BAR_CHARS = 10
_MARK = "---\n"


def markdown(account: Account) -> Iterator[str]:
    """Yield the report piece by piece."""
    for block in compose_report(account):
        yield from _render(block)


def _join(pieces: blocks.Line) -> str:
    return "".join(map(_inline, pieces))


def _inline(piece: blocks.Inline) -> str:
    match piece:
        case str():
            return line(piece)
        case blocks.Span():
            return code(piece.text) if piece.style in ("code", "value") else line(piece.text)
        case blocks.Pill():
            return line(piece.text)
        case blocks.Stamp():
            return line(words.date_and_time(piece.at) if piece.has_date else words.clock(piece.at))
        case blocks.CallLink():
            what = call_title(piece.call) if piece.has_subject else line(piece.call.tool)
            return f"call {piece.call.number}, {what}"
        case blocks.Bar():
            eighths = math.ceil(piece.share * _BAR_CHARS * 8)
            return "█" * (eighths // 8) + _BARS[eighths % 8].strip()


def _render(block: blocks.Block | FileDiff) -> Iterator[str]:
    match block:
        case blocks.Figures():
            yield from _render_table(("", "", ""), [[[cell] for cell in row] for row in block.rows])
        case blocks.Table():
            yield from _render_table(block.head, block.rows)
        case blocks.Plan():
            title = f"**{line(block.title)}**\n\n" if block.title else ""
            yield f"{title}{''.join(map(_plan_item, block.items))}\n"
        case blocks.StepBegin():
            yield f"### Step {line(block.step_id)}: {line(block.description)}\n\n"
        case blocks.StepEnd():
            pass
        case blocks.Card():
            remarks = ", ".join(filter(None, (line(block.state.text), line(block.remarks))))
            yield f"**{block.call.number}. {call_title(block.call)}** ({remarks})\n\n"
            for part in block.parts:
                yield from _render(part)
            if block.calls:
                below = "".join(piece for card in block.calls for piece in _render(card))
                yield f"{_quote(below.rstrip())}\n\n"
        case FileDiff():
            yield from _diff(block)
        case _:
            yield _render_text(block)


def _render_text(block: blocks.Heading | blocks.Note | blocks.Turn | blocks.Prose | blocks.Verbatim) -> str:
    match block:
        case blocks.Heading():
            return f"{'#' * block.level} {line(block.text)}\n\n"
        case blocks.Note():
            return f"{_MARK if block.is_mark else ''}*{_join(block.line)}*\n\n"
        case blocks.Turn():
            who, at = line(block.name or "You"), line(words.clock(block.at))
            return f"### {who} ({at}, step {block.seq})\n\n{_cut_prose(block.text)}\n\n"
        case blocks.Prose():
            text = _cut_prose(block.text)
            return f"*{line(block.title)}:*\n\n{_quote(text)}\n\n" if block.title else f"{text}\n\n"
        case blocks.Verbatim():
            title = f"{line(block.title)}:\n\n" if block.title else ""
            return f"{title}{_cut_fence(block.text)}\n"


def _render_table(head: Sequence[str], rows: Sequence[Sequence[blocks.Line]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    for row in rows:
        yield f"| {' | '.join(_cell(_join(cell)) for cell in row)} |\n"
    yield "\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _plan_item(item: blocks.PlanItem) -> str:
    text = f"{line(item.step_id)}. {line(item.description)}"
    if item.status is None:
        return f"{text}\n"
    summary = f": {line(item.summary)}" if item.summary else ""
    return f"- [{_PLAN_SIGNS.get(item.status.sign, ' ')}] {text} ({line(item.status.text)}){summary}\n"


def call_title(call: CallAccount) -> str:
    """Return the title of a call: its tool and subject."""
    return f"{line(call.tool)} {code(call.subject)}" if call.subject else line(call.tool)


def _diff(diff: FileDiff) -> Iterator[str]:
    note = f" ({line(diff.note)})" if diff.note else ""
    yield f"{diff.change.capitalize()} {code(diff.path)}{note}\n\n"
    if diff.lines:
        rest = [f"... {format_count(diff.left_out, 'line')} left out ..."] if diff.left_out else []
        yield fence_text(plain("\n".join([*diff.lines, *rest])).rstrip(), "diff") + "\n\n"


def _quote(text: str) -> str:
    return "\n".join(f"> {part}".rstrip() for part in text.split("\n"))


def _cut_prose(cut: CutText) -> str:
    return prose(cut.text) + (f"\n\n*{words.describe_cut(cut)}*\n\n{prose(cut.tail)}" if cut.left_out else "")


def _cut_fence(cut: CutText) -> str:
    text = f"{cut.text}\n{words.describe_cut(cut)}\n{cut.tail}" if cut.left_out else cut.text
    return fence_text(plain(text).rstrip()) + "\n"
