"""Renders a report as one HTML page without a script; all text is escaped, and nothing is loaded."""

import base64
import hashlib
from collections.abc import Iterator, Sequence

from ...actions.workspace.paths import format_count
from ...agent.history.reports.read_report import read_account
from ...agent.history.reports.run_report import Account, CutText, FileDiff
from ...state.store.store import Store
from . import blocks, words
from .compose import compose_report, title_of
from .markdown import markdown
from .markup import FilesByCitation, Html, block, join, opening, prose, tag
from .style import CSS

_DIFF_CLASSES = {"+": "a", "-": "d", "@": "h"}
_OPEN_DIFF_LINES = 60
_OPEN_CALLS = 20
_STYLES = {"code": ("code", None), "soft": ("span", "soft"), "value": ("bdi", None)}
"""Style of a span -> its tag and class."""


def div(classes: str, *content: str) -> Html:
    return tag("div", *content, class_=classes.strip())


def span(classes: str, *content: str) -> Html:
    return tag("span", *content, class_=classes)


def fold(summary: str, *content: str, classes: str | None = None, is_open: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, class_=classes, open=is_open)


def html_page(account: Account) -> Iterator[Html]:
    """Yield the page piece by piece."""
    yield begin_page(title_of(account))
    yield join(Html("<body><main>\n"), div("brand", "Sandbur run"))
    for one in compose_report(account):
        is_prose = isinstance(one, blocks.Prose)
        rendered = _render_prose(one, account.cited_files) if is_prose else _render(one)
        yield join(rendered, Html("\n"))
    yield Html("</main></body></html>\n")


def begin_page(title: str) -> Html:
    """Return the beginning of a page: everything before its body."""
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title} · Sandbur"),
        tag("style", Html(CSS)),
    )
    return join(Html('<!doctype html><html lang="en">'), head, Html("\n"))


def _line(pieces: blocks.Line) -> Html:
    return join(*map(_inline, pieces))


def _inline(piece: blocks.Inline) -> str:
    match piece:
        case str():
            return piece
        case blocks.Span():
            name, classes = _STYLES[piece.style]
            return tag(name, piece.text, class_=classes)
        case blocks.Pill():
            return span(f"pill {piece.sign}", piece.text)
        case blocks.Stamp():
            written = words.date_and_time(piece.at)
            return tag("time", written if piece.has_date else words.clock(piece.at), title=f"{written} UTC")
        case blocks.CallLink():
            subject = (" ", tag("bdi", piece.call.subject)) if piece.has_subject else ()
            return tag("a", piece.call.tool, *subject, href=f"#call-{piece.call.number}")
        case blocks.Bar():
            return tag("meter", value=round(piece.share, 3), max=1)


def _render(one: blocks.Block | FileDiff) -> Html:
    match one:
        case blocks.Figures():
            return div("tiles", *(_tile(*row) for row in one.rows))
        case blocks.Table():
            return _render_table(one)
        case blocks.Plan():
            return _render_plan(one)
        case blocks.StepBegin():
            title = tag("h3", f"Step {one.step_id}: {one.description}")
            head = div("stephead", title, span("soft", _inline(blocks.Stamp(one.at))))
            return join(opening("section", class_="step", id=f"plan-{one.step_id}"), head)
        case blocks.StepEnd():
            return Html("</section>")
        case blocks.Card():
            return _render_card(one)
        case FileDiff():
            return _render_diff(one)
        case _:
            return _render_text(one)


def _render_text(one: blocks.Heading | blocks.Note | blocks.Turn | blocks.Prose | blocks.Verbatim) -> Html:
    match one:
        case blocks.Heading():
            return tag(f"h{one.level}", one.text, dir="auto")
        case blocks.Note():
            line = _line(one.line)
            if one.is_mark:
                return div(f"line mark {one.sign}", tag("span", line))
            return div(f"line {one.sign}", line)
        case blocks.Turn():
            who = div(
                "who",
                tag("b", one.name or "You"),
                tag("span", f"step {one.seq} · ", _inline(blocks.Stamp(one.at))),
            )
            return tag("div", who, _cut_prose(one.text, {}), class_="turn you", id=f"step-{one.seq}")
        case blocks.Prose():
            return _render_prose(one, {})
        case blocks.Verbatim():
            text = _cut_pre(one.text)
            return fold(one.title, text, is_open=one.is_open) if one.title else div("utterance", text)


def _render_prose(one: blocks.Prose, files: FilesByCitation) -> Html:
    """Return a text with links to the files that it cites."""
    text = _cut_prose(one.text, files)
    return fold(one.title, text, classes="line") if one.title else div("utterance", text)


def _tile(name: str, value: str, remark: str) -> Html:
    return div("tile", tag("span", name), tag("b", value), tag("span", remark))


def _render_table(table: blocks.Table) -> Html:
    head = tag("tr", *(tag("th", cell) for cell in table.head))
    rows = (tag("tr", *(tag("td", _line(cell)) for cell in row)) for row in table.rows)
    return div("scroll", tag("table", head, *rows))


def _render_plan(plan: blocks.Plan) -> Html:
    items: list[Html] = []
    for item in plan.items:
        title = f"{item.step_id}. {item.description}"
        if item.status is None:
            items.append(tag("li", tag("b", f"{item.step_id}."), prose(item.description)))
            continue
        summary = div("sum", prose(item.summary)) if item.summary else ""
        link = tag("a", title, href=f"#plan-{item.step_id}")
        items.append(tag("li", _inline(item.status), tag("div", link, summary)))
    found = tag("ul", *items, class_="plan")
    return div("card", tag("h3", plan.title), found) if plan.title else found


def _render_card(card: blocks.Card) -> Html:
    call = card.call
    what = span("what", span("tool", call.tool), " ", tag("code", call.subject, dir="auto"))
    head = div("head", what, span("right", card.remarks, " ", _inline(card.state)))
    parts = map(_render, card.parts)
    below = _render_calls(card.calls) if card.calls else ""
    return tag("article", head, *parts, below, class_=f"card {card.state.sign}", id=f"call-{call.number}")


def _render_calls(cards: Sequence[blocks.Card]) -> Html:
    """Return the calls below a call. If there are many, they are folded."""
    summary = f"{format_count(len(cards), 'call')} that it made"
    return fold(summary, *map(_render_card, cards), classes="calls", is_open=len(cards) <= _OPEN_CALLS)


def _render_diff(diff: FileDiff) -> Html:
    """Return the change of one file by a call."""
    note = join(" ", span("soft", f"({diff.note})")) if diff.note else ""
    title = join(f"{diff.change.capitalize()} ", tag("code", diff.path), note)
    if not diff.lines:
        return div("line", title)
    added = sum(text.startswith("+") for text in diff.lines)
    removed = sum(text.startswith("-") for text in diff.lines)
    rows = [span(_DIFF_CLASSES.get(text[:1], "c"), block(text) or " ") for text in diff.lines]
    if diff.left_out:
        rows.append(span("cut", f"... {format_count(diff.left_out, 'line')} left out ..."))
    summary = join(title, f" +{added} -{removed}")
    return fold(summary, tag("pre", *rows, class_="diff"), is_open=len(diff.lines) <= _OPEN_DIFF_LINES)


def _cut_prose(cut: CutText, files: FilesByCitation) -> Html:
    text = prose(cut.text, files)
    return join(text, _describe_cut(cut), prose(cut.tail, files)) if cut.left_out else text


def _cut_pre(cut: CutText) -> Html:
    tail = (_describe_cut(cut), block(cut.tail)) if cut.left_out else ()
    return tag("pre", block(cut.text), *tail, dir="auto")


def _describe_cut(cut: CutText) -> Html:
    return span("cut", words.describe_cut(cut))


def report(store: Store, session_id: str, form: str) -> Iterator[str]:
    """Yield the report as `html` or `md`, piece by piece."""
    account = read_account(store, session_id)
    yield from html_page(account) if form == "html" else markdown(account)
