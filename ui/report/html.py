"""The report as one HTML page: no script, nothing loaded from elsewhere, everything untrusted escaped."""

import base64
import hashlib
from collections.abc import Iterator

from ...actions.workspace.paths import format_count, format_size
from ...agent.history.reports import run_report
from ...agent.history.reports.read_report import read_account
from ...agent.version import VERSION
from ...state.application import Usage
from ...state.store.store import Store
from . import words
from .markdown import markdown
from .markup import Html, block, join, opening, prose, tag
from .plot import plot
from .style import CSS

_SIGNS = {"ok": "ok", "error": "bad", "timeout": "bad", "denied": "warn", "interrupted": "warn",
          "unknown": "warn", "waiting": "warn"}  # fmt: skip
_PLAN_SIGNS = {"completed": "ok", "failed": "bad", "in_progress": "warn"}
_STATUS_SIGNS = {"done": "ok", "error": "bad", "goal_not_reached": "bad", "repeated": "bad", "new": ""}
_DIFF_CLASSES = {"+": "a", "-": "d", "@": "h"}
_OPEN_DIFF_LINES = 60
_MOST_TROUBLES = 50
_MOST_BREACHES = 20
_MOST_LINKS = 20


def div(classes: str, *content: str) -> Html:
    return tag("div", *content, class_=classes)


def span(classes: str, *content: str) -> Html:
    return tag("span", *content, class_=classes)


def fold(summary: str, *content: str, classes: str | None = None, is_open: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, class_=classes, open=is_open)


def row(*cells: str, head: str = "td") -> Html:
    return tag("tr", *(tag(head, cell) for cell in cells))


def time(stamp: str) -> Html:
    return tag("time", words.clock(stamp), title=f"{words.date_and_time(stamp)} UTC")


def pill(text: str, sign: str = "") -> Html:
    return span(f"pill {sign}", text)


def outcome(state: str) -> Html:
    return pill(state, _SIGNS.get(state, ""))


def cut_prose(cut: run_report.CutText) -> Html:
    return join(prose(cut.text), _describe_cut(cut), prose(cut.tail)) if cut.left_out else prose(cut.text)


def cut_pre(cut: run_report.CutText) -> Html:
    tail = (_describe_cut(cut), block(cut.tail)) if cut.left_out else ()
    return tag("pre", block(cut.text), *tail, dir="auto")


def _describe_cut(cut: run_report.CutText) -> Html:
    return span("cut", words.describe_cut(cut))


def render_utterance(what: run_report.Utterance, at: str, seq: int) -> Html:
    """Return a message of the person, of the model, or of Sandbur to the model."""
    text = cut_prose(what.text)
    match what.by:
        case "person" | "command":
            who = div("who", tag("b", "You"), tag("span", f"step {seq} · ", time(at)))
            return tag("div", who, text, class_="turn you", id=f"step-{seq}")
        case "model":
            return div("utterance", text)
        case "answer":
            return div("utterance", cut_pre(what.text) if words.is_data(what.text) else text)
        case "thinking":
            return fold("Thinking", text, classes="line")
        case "runtime":
            return fold("Sandbur informed the model", text, classes="line")


def call_card(call: run_report.CallAccount, waiting: frozenset[str]) -> Html:
    """Return a call with its decision, output and changes."""
    state = words.call_state(call, waiting)
    right = [words.duration(call.duration_ms)] if call.duration_ms is not None else []
    if len(call.started) > 1:
        right.append(f"started {len(call.started)} times")
    what = span("what", span("tool", call.tool), " ", tag("code", call.subject, dir="auto"))
    head = div("head", what, span("right", " · ".join(right), " ", outcome(state)))
    parts = (*_arguments(call), *_verdicts(call), *map(diff, call.diffs), *_output(call, state))
    classes = f"card {_SIGNS.get(state, '')}"
    return tag("article", head, *parts, class_=classes, id=f"call-{call.number}")


def _arguments(call: run_report.CallAccount) -> Iterator[Html]:
    for name, value in words.list_arguments(call):
        yield fold(name or "Arguments", cut_pre(value))


def _verdicts(call: run_report.CallAccount) -> Iterator[Html]:
    for one in words.telling_verdicts(call):
        yield div("line bad" if one.decision == "denied" else "line", _verdict(one))


def _verdict(one: run_report.ShownVerdict) -> Html:
    return join(time(one.at), " ", words.verdict(one), words.reason(one))


def _output(call: run_report.CallAccount, state: str) -> Iterator[Html]:
    if call.content.text.strip():
        lines = format_count(call.content.text.count("\n") + 1 + call.content.tail.count("\n"), "line")
        whole = f", of {format_size(call.output_bytes)}" if call.output_bytes else ""
        yield fold(f"Output: {lines}{whole}", cut_pre(call.content), is_open=state not in ("ok", "denied"))


def diff(one: run_report.FileDiff) -> Html:
    """Return the change of one file by a call."""
    note = join(" ", span("soft", f"({one.note})")) if one.note else ""
    title = join(f"{one.change.capitalize()} ", tag("code", one.path), note)
    if not one.lines:
        return div("line", title)
    added = sum(text.startswith("+") for text in one.lines)
    removed = sum(text.startswith("-") for text in one.lines)
    rows = [span(_DIFF_CLASSES.get(text[:1], "c"), block(text) or " ") for text in one.lines]
    if one.left_out:
        rows.append(span("cut", f"... {format_count(one.left_out, 'line')} left out ..."))
    rows_block = tag("pre", *rows, class_="diff")
    summary = join(title, f" +{added} -{removed}")
    return fold(summary, rows_block, is_open=len(one.lines) <= _OPEN_DIFF_LINES)


def model_line(used: run_report.ModelUsed) -> Html:
    """Return the usage of a model call, and its errors."""
    classes = "line" if used.call.error is None else "line bad"
    notices = (div("line warn", notice) for notice in used.call.notices)
    return join(*notices, div(classes, words.model_call(used)))


def render_decision(what: run_report.Decided) -> Html:
    """Return who decided about which calls."""
    lines = (
        div("line", _verdict(one), ": ", _link(call, f"{call.tool} {call.subject}"))
        for call, one in what.verdicts
    )
    return join(*lines)


def _link(call: run_report.CallAccount, *content: str) -> Html:
    return tag("a", *content, href=f"#call-{call.number}")


def tiles(facts: run_report.Facts, usage: Usage) -> Html:
    """Return the main figures."""
    items = (
        div("tile", tag("span", name), tag("b", value), tag("span", remark))
        for name, value, remark in words.headline(facts, usage)
    )
    return div("tiles", *items)


def troubles(facts: run_report.Facts) -> Html:
    """Return the errors, with links to their place in the report."""
    if not facts.troubles:
        return Html()
    rows = [
        tag("tr", tag("td", time(at), class_="tight"), tag("td", _trouble(what)))
        for at, what in facts.troubles[:_MOST_TROUBLES]
    ]
    if (more := len(facts.troubles) - _MOST_TROUBLES) > 0:
        rows.append(row("", span("soft", f"and {more} more, below")))
    return join(tag("h2", "What went wrong"), tag("table", *rows))


def _trouble(
    what: run_report.CallAccount | run_report.RunBoundary | run_report.ModelUsed | run_report.Lost,
) -> str:
    match what:
        case run_report.CallAccount():
            again = f", started {len(what.started)} times" if len(what.started) > 1 else ""
            link = _link(what, f"{what.tool} ", tag("bdi", what.subject))
            return join(link, " ", outcome(words.call_state(what, frozenset())), again)
        case run_report.RunBoundary():
            return words.boundary(what)
        case run_report.ModelUsed():
            return " ".join([*what.call.notices, words.model_call(what)])
        case run_report.Lost():
            return what.what


def approvals(facts: run_report.Facts, waiting: frozenset[str]) -> Html:
    """Return every call with a question or denial: the exact call, the decision, its author and time."""
    if not facts.calls:
        return Html()
    unasked = format_count(facts.calls - len(facts.decided), "call")
    rest = tag("p", f"{unasked} passed unasked, by the mode or a rule.", class_="soft")
    if not facts.decided:
        return join(tag("h2", "Approvals"), rest)
    head = row("Call", "What exactly", "Decisions", "Outcome", head="th")
    table = tag("table", head, *(_approval(call, waiting) for call in facts.decided))
    return join(tag("h2", "Approvals"), div("scroll", table), rest)


def _approval(call: run_report.CallAccount, waiting: frozenset[str]) -> Html:
    exactly = fold(
        call.subject, cut_pre(call.arguments), span("soft mono", f"sha256 {call.arguments_sha256}")
    )
    verdicts = (
        tag("div", time(one.at), f" {words.verdict(one)}", f": {one.reason}" if one.reason else "")
        for one in call.verdicts
    )
    return row(_link(call, call.tool), exactly, join(*verdicts), outcome(words.call_state(call, waiting)))


def files(facts: run_report.Facts) -> Html:
    """Return the files that were changed, with links to the calls that did it."""
    if not facts.files:
        return Html()
    rows = (
        tag("tr", tag("td", tag("code", path), class_="files"), tag("td", _links(calls)))
        for path, calls in sorted(facts.files.items())
    )
    return join(tag("h2", "Files"), tag("table", *rows))


def _links(calls: list[run_report.CallAccount]) -> Html:
    parts = [part for call in calls[:_MOST_LINKS] for part in (", ", _link(call, call.tool))][1:]
    more = len(calls) - _MOST_LINKS
    return join(*parts, f" and {more} more" if more > 0 else "")


def record(account: run_report.Account) -> Html:
    """Return whether the record behind this page holds."""
    audit = account.audit
    if audit.breaches:
        rows = [
            tag("li", f"record {breach.record} {breach.table} {breach.place}: {breach.problem}")
            for breach in audit.breaches[:_MOST_BREACHES]
        ]
        if (more := len(audit.breaches) - _MOST_BREACHES) > 0:
            rows.append(tag("li", f"and {more} more"))
        findings = f" {format_count(len(audit.breaches), 'finding')}"
        found = join(pill("does not hold", "bad"), findings, tag("ul", *rows))
    else:
        records = format_count(sum(session.records for session in audit.sessions), "record")
        approved = "hash-chained; every call that started was approved as it ran"
        chain = tag("code", audit.sessions[-1].chain)
        found = join(pill("verified", "ok"), f" {records}, {approved}. The chain ends in ", chain, ".")
    export = tag("code", f"sandbur sessions export {account.summary.id}")
    made_by = f"Made by Sandbur {VERSION}. All times are UTC. Whole outputs: "
    return join(tag("h2", "Record"), tag("div", found), tag("footer", made_by, export))


def html_page(account: run_report.Account) -> Iterator[Html]:
    """Yield the page piece by piece."""
    facts = run_report.facts_of(account)
    title = account.summary.title or "A session without a message"
    yield _head(title)
    yield Html("<body><main>\n")
    yield from _top(account, title)
    yield tiles(facts, account.standing.usage)
    yield _plan(account)
    yield troubles(facts)
    if svg := plot(account.steps):
        yield join(tag("h2", "Timeline"), div("scroll", svg))
    yield tag("h2", "What happened")
    yield from _events(account)
    yield approvals(facts, account.standing.waiting)
    yield files(facts)
    yield record(account)
    yield Html("</main></body></html>\n")


def _head(title: str) -> Html:
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


def _top(account: run_report.Account, title: str) -> Iterator[Html]:
    summary, standing = account.summary, account.standing
    facts = {
        "session": summary.id,
        "folder": summary.cwd,
        "model": summary.model,
        "mode": standing.mode or account.settings.mode,
        "from": f"{words.date_and_time(summary.created_at)} UTC",
        "to": f"{words.date_and_time(summary.updated_at)} UTC",
    }
    if account.settings.sandbox != "off":
        facts["sandbox"] = account.settings.sandbox
    if summary.parent_id:
        facts["fork of"] = f"{summary.parent_id} at {summary.parent_seq}"
    yield join(div("brand", "Sandbur run"), tag("h1", title, dir="auto"))
    status = pill(words.status_word(summary.status), _STATUS_SIGNS.get(summary.status, "warn"))
    rows = (tag("span", f"{name} ", tag("b", tag("bdi", value))) for name, value in facts.items())
    yield div("meta", status, *rows)
    if standing.goal and " ".join(standing.goal.split()) != summary.title:
        yield div("goal", prose(standing.goal))


def _plan(account: run_report.Account) -> Html:
    steps = account.standing.plan
    items = (
        tag(
            "li",
            pill(step.status.replace("_", " "), _PLAN_SIGNS.get(step.status, "")),
            tag(
                "div",
                tag("a", f"{step.step_id}. {step.description}", href=f"#plan-{step.step_id}"),
                div("sum", prose(step.summary)) if step.summary else "",
            ),
        )
        for step in steps
    )
    return join(tag("h2", "Plan"), tag("ul", *items, class_="plan")) if steps else Html()


def _events(account: run_report.Account) -> Iterator[Html]:
    """Yield everything that happened, the work on a plan step inside of it."""
    open_step: str | None = None
    for happened in account.happened:
        what = happened.what
        is_person = isinstance(what, run_report.Utterance) and what.by == "person"
        if open_step is not None and (is_person or isinstance(what, run_report.PlanStepBegan)):
            yield Html("</section>")
            open_step = None
        if isinstance(what, run_report.PlanStepBegan):
            yield opening("section", class_="step", id=f"plan-{what.step_id}")
            open_step = what.step_id
        yield join(_event(happened, account.standing.waiting), Html("\n"))
        if isinstance(what, run_report.PlanStepEnded) and what.step_id == open_step:
            yield Html("</section>")
            open_step = None
    if open_step is not None:
        yield Html("</section>")


def _event(happened: run_report.Happened, waiting: frozenset[str]) -> Html:
    what = happened.what
    match what:
        case run_report.Utterance():
            return render_utterance(what, happened.at, happened.seq)
        case run_report.CallAccount():
            return call_card(what, waiting)
        case run_report.ModelUsed():
            return model_line(what)
        case run_report.Compressed():
            title = "Older messages were replaced by a summary"
            return fold(title, cut_prose(what.summary), classes="card")
        case run_report.Decided():
            return render_decision(what)
        case run_report.PlanMade() | run_report.PlanStepBegan() | run_report.PlanStepEnded():
            return _render_plan_event(what, time(happened.at))
        case run_report.RunBoundary():
            at = time(happened.at) if what.is_end else words.date_and_time(happened.at)
            return _mark(words.boundary(what), " · ", at, is_bad=what.status in ("died", "error"))
        case run_report.Forked():
            return _mark(f"From here on: session {what.session_id}, forked from {what.parent_id}")
        case run_report.Lost():
            return _mark(what.what, is_bad=True)


def _render_plan_event(
    what: run_report.PlanMade | run_report.PlanStepBegan | run_report.PlanStepEnded, at: Html
) -> Html:
    match what:
        case run_report.PlanMade():
            title = tag("h3", "The plan was revised" if what.is_revision else "Plan")
            steps = (tag("li", tag("b", f"{step_id}."), prose(text)) for step_id, text in what.steps)
            return div("card", title, tag("ul", *steps, class_="plan"))
        case run_report.PlanStepBegan():
            title = tag("h3", f"Step {what.step_id}: {what.description}")
            return div("stephead", title, span("soft", at))
        case run_report.PlanStepEnded():
            status = pill(what.status, _PLAN_SIGNS.get(what.status, ""))
            return div("utterance", status, " ", at, prose(what.summary))


def _mark(*content: str, is_bad: bool = False) -> Html:
    return div("line mark bad" if is_bad else "line mark", tag("span", *content))


def report(store: Store, session_id: str, form: str) -> Iterator[str]:
    """Yield the report as `html` or `md`, piece by piece."""
    account = read_account(store, session_id)
    if form == "html":
        yield from html_page(account)
    else:
        yield from markdown(account)
