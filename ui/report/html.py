"""The report as one HTML page: no script, nothing from outside, everything untrusted escaped."""

import base64
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...agent.history.insight.account import (
    Account,
    CallAccount,
    Compressed,
    Cut,
    Decided,
    Facts,
    FileDiff,
    Forked,
    Happened,
    Lost,
    ModelUsed,
    PlanMade,
    PlanStepBegan,
    PlanStepEnded,
    RunBoundary,
    ShownVerdict,
    Statement,
    facts_of,
)
from ...agent.version import VERSION
from ...state.application import Usage
from ..commands.prune import size_text
from .plot import plot
from .style import CSS
from .words import (
    block,
    boundary,
    call_state,
    clock,
    date_and_time,
    duration,
    headline,
    line,
    model_call,
    number,
    plural,
    prose,
    shown_arguments,
    status_word,
    verdict,
)

if TYPE_CHECKING:
    from ...state.store.store import Store

_SIGNS = {"ok": "ok", "error": "bad", "timeout": "bad", "denied": "warn", "interrupted": "warn",
          "unknown": "warn", "waiting": "warn"}  # fmt: skip
_OPEN_DIFF_LINES = 60


def time(stamp: str) -> str:
    return f'<time title="{line(date_and_time(stamp))} UTC">{line(clock(stamp))}</time>'


def pill(text: str, sign: str = "") -> str:
    return f'<span class="pill {sign}">{line(text)}</span>'


def sign_of(state: str) -> str:
    return _SIGNS.get(state, "")


def said(what: Statement, at: str, seq: int) -> str:
    """Return a message of the person, of the model, or of Sandbur to the model."""
    text = cut_prose(what.text)
    match what.by:
        case "person" | "command":
            who = f'<div class="who"><b>You</b><span>step {seq} · {time(at)}</span></div>'
            return f'<div class="turn you" id="step-{seq}">{who}{text}</div>'
        case "model":
            return f'<div class="said">{text}</div>'
        case "thinking":
            return f'<details class="line"><summary>Thinking</summary>{text}</details>'
        case "runtime":
            return f'<details class="line"><summary>Sandbur told the model</summary>{text}</details>'


def cut_prose(cut: Cut) -> str:
    return prose(cut.text) if not cut.left_out else prose(cut.text) + _left_out(cut) + prose(cut.tail)


def cut_block(cut: Cut) -> str:
    return block(cut.text) if not cut.left_out else block(cut.text) + _left_out(cut) + block(cut.tail)


def _left_out(cut: Cut) -> str:
    return f'<span class="cut">... {number(cut.left_out)} characters are left out here ...</span>'


def call_card(call: CallAccount, waiting: frozenset[str]) -> str:
    """Return a call with its decision, its output and what it changed."""
    state = call_state(call, waiting)
    right = [f"{duration(call.duration_ms)}"] if call.duration_ms is not None else []
    if len(call.started) > 1:
        right.append(f"started {len(call.started)} times")
    head = (
        f'<div class="head"><span class="what"><span class="tool">{line(call.tool)}</span>'
        f' <code dir="auto">{line(call.subject)}</code></span>'
        f'<span class="right">{" · ".join(right)} {pill(state, sign_of(state))}</span></div>'
    )
    parts = "".join((*_arguments(call), *_verdicts(call), *map(diff, call.diffs), *_output(call, state)))
    return f'<article class="card {sign_of(state)}" id="call-{call.number}">{head}{parts}</article>'


def _arguments(call: CallAccount) -> Iterator[str]:
    for name, value in shown_arguments(call):
        label = f'<span class="soft">{line(name)}</span> ' if name else ""
        text = f'<pre dir="auto">{cut_block(value)}</pre>'
        yield f"<details><summary>{label or 'Arguments'}</summary>{text}</details>"


def _verdicts(call: CallAccount) -> Iterator[str]:
    for one in call.verdicts:
        if one.decision == "approved" and not one.who:
            continue
        yield f'<div class="line {"bad" if one.decision == "denied" else ""}">{_verdict(one)}</div>'


def _verdict(one: ShownVerdict) -> str:
    reason = f": {line(one.reason)}" if one.reason and one.decision != "approved" else ""
    return f"{time(one.at)} {line(verdict(one))}{reason}"


def _output(call: CallAccount, state: str) -> Iterator[str]:
    if not call.content.text.strip():
        return
    lines = plural(call.content.text.count("\n") + 1 + call.content.tail.count("\n"), "line")
    whole = f", of {size_text(call.output_bytes)}" if call.output_bytes else ""
    is_open = " open" if state not in ("ok", "denied") else ""
    yield (
        f"<details{is_open}><summary>Output: {lines}{whole}</summary>"
        f'<pre dir="auto">{cut_block(call.content)}</pre></details>'
    )


def diff(one: FileDiff) -> str:
    """Return what a call did to one file."""
    note = f' <span class="soft">({line(one.note)})</span>' if one.note else ""
    title = f"{one.change.capitalize()} <code>{line(one.path)}</code>{note}"
    if not one.lines:
        return f'<div class="line">{title}</div>'
    added = sum(text.startswith("+") for text in one.lines)
    removed = sum(text.startswith("-") for text in one.lines)
    rows = "".join(f'<span class="{_kind(text)}">{block(text) or " "}</span>' for text in one.lines)
    rest = f'<span class="cut">... {plural(one.left_out, "line")} left out ...</span>' if one.left_out else ""
    is_open = " open" if len(one.lines) <= _OPEN_DIFF_LINES else ""
    return (
        f"<details{is_open}><summary>{title} +{added} -{removed}</summary>"
        f'<pre class="diff">{rows}{rest}</pre></details>'
    )


def _kind(text: str) -> str:
    return {"+": "a", "-": "d", "@": "h"}.get(text[:1], "c")


def model_line(used: ModelUsed) -> str:
    """Return what a model call took, and what went wrong on the way."""
    bad = " bad" if used.call.error is not None else ""
    notices = "".join(f'<div class="line warn">{line(notice)}</div>' for notice in used.call.notices)
    return f'{notices}<div class="line{bad}">{line(model_call(used))}</div>'


def plan_made(plan: PlanMade) -> str:
    title = "The plan was revised" if plan.is_revision else "Plan"
    steps = "".join(f"<li><b>{line(step_id)}.</b> {line(text)}</li>" for step_id, text in plan.steps)
    return f'<div class="card"><h3>{title}</h3><ul class="plan">{steps}</ul></div>'


def compressed(what: Compressed) -> str:
    return (
        '<details class="card"><summary>Older messages were replaced by a summary</summary>'
        f"{cut_prose(what.summary)}</details>"
    )


def decided(what: Decided) -> str:
    """Return who decided about which calls."""
    lines = (
        f'<div class="line">{_verdict(one)}: <a href="#call-{call.number}">{line(call.tool)}'
        f" {line(call.subject)}</a></div>"
        for call, one in what.verdicts
    )
    return "".join(lines)


_MOST_TROUBLES = 50
_MOST_BREACHES = 20


def tiles(facts: Facts, usage: Usage) -> str:
    """Return the main figures."""
    shown = "".join(
        f'<div class="tile"><span>{line(name)}</span><b>{line(value)}</b><span>{line(remark)}</span></div>'
        for name, value, remark in headline(facts, usage)
    )
    return f'<div class="tiles">{shown}</div>\n'


def troubles(facts: Facts) -> str:
    """Return what went wrong, with links to where it is told."""
    if not facts.troubles:
        return ""
    rows = "".join(
        f'<tr><td class="tight">{time(at)}</td><td>{_trouble(what)}</td></tr>'
        for at, what in facts.troubles[:_MOST_TROUBLES]
    )
    more = len(facts.troubles) - _MOST_TROUBLES
    rest = f'<tr><td></td><td class="soft">and {more} more, below</td></tr>' if more > 0 else ""
    return f"<h2>What went wrong</h2><table>{rows}{rest}</table>\n"


def _trouble(what: CallAccount | RunBoundary | ModelUsed | Lost) -> str:
    match what:
        case CallAccount():
            state = call_state(what, frozenset())
            again = f", started {len(what.started)} times" if len(what.started) > 1 else ""
            return f"{_link(what)} {pill(state, sign_of(state))}{again}"
        case RunBoundary():
            return line(boundary(what))
        case ModelUsed():
            notices = " ".join(map(line, what.call.notices))
            return f"{notices} {line(model_call(what))}"
        case Lost():
            return line(what.what)


def _link(call: CallAccount) -> str:
    return f'<a href="#call-{call.number}">{line(call.tool)} <bdi>{line(call.subject)}</bdi></a>'


def approvals(facts: Facts, waiting: frozenset[str]) -> str:
    """Return every call that was asked about or denied: what exactly, who said what and when."""
    by_policy = facts.calls - len(facts.decided)
    rest = f'<p class="soft">{plural(by_policy, "call")} passed unasked, by the mode or a rule.</p>'
    if not facts.decided:
        return f"<h2>Approvals</h2>{rest}\n" if facts.calls else ""
    rows = "".join(_approval(call, waiting) for call in facts.decided)
    head = "<tr><th>Call</th><th>What exactly</th><th>Decisions</th><th>Outcome</th></tr>"
    return f'<h2>Approvals</h2><div class="scroll"><table>{head}{rows}</table></div>{rest}\n'


def _approval(call: CallAccount, waiting: frozenset[str]) -> str:
    said = "<br>".join(
        f"{time(one.at)} {line(verdict(one))}{f': {line(one.reason)}' if one.reason else ''}"
        for one in call.verdicts
    )
    state = call_state(call, waiting)
    return (
        f'<tr><td class="tight"><a href="#call-{call.number}">{line(call.tool)}</a></td>'
        f"<td><details><summary>{line(call.subject)}</summary><pre>{cut_block(call.arguments)}</pre>"
        f'<span class="soft mono">sha256 {line(call.arguments_sha256)}</span></details></td>'
        f"<td>{said}</td><td>{pill(state, sign_of(state))}</td></tr>"
    )


def files(facts: Facts) -> str:
    """Return the files that were changed, with links to the calls that did it."""
    if not facts.files:
        return ""
    rows = "".join(
        f'<tr><td class="files"><code>{line(path)}</code></td><td>{_links(calls)}</td></tr>'
        for path, calls in sorted(facts.files.items())
    )
    return f"<h2>Files</h2><table>{rows}</table>\n"


def _links(calls: list[CallAccount]) -> str:
    shown = ", ".join(f'<a href="#call-{call.number}">{line(call.tool)}</a>' for call in calls[:20])
    return f"{shown} and {len(calls) - 20} more" if len(calls) > 20 else shown


def record(account: Account) -> str:
    """Return whether the record behind this page holds."""
    audit = account.audit
    records = sum(session.records for session in audit.sessions)
    if audit.breaches:
        rows = "".join(
            f"<li>record {breach.record} {breach.table} {line(breach.place)}: {line(breach.problem)}</li>"
            for breach in audit.breaches[:_MOST_BREACHES]
        )
        more = len(audit.breaches) - _MOST_BREACHES
        rest = f"<li>and {more} more</li>" if more > 0 else ""
        found = (
            f"{pill('does not hold', 'bad')} {plural(len(audit.breaches), 'finding')}<ul>{rows}{rest}</ul>"
        )
    else:
        found = (
            f"{pill('verified', 'ok')} {plural(records, 'record')}, hash-chained; every call that started was"
            " approved as it ran. The chain ends in"
            f" <code>{line(audit.sessions[-1].chain)}</code>."
        )
    return (
        f"<h2>Record</h2><p>{found}</p>"
        f"<footer>Made by Sandbur {VERSION}. All times are UTC. Whole outputs: <code>sandbur sessions export"
        f" {line(account.summary.id)}</code></footer>\n"
    )


_PLAN_SIGNS = {"completed": "ok", "failed": "bad", "in_progress": "warn"}
_STATUS_SIGNS = {"done": "ok", "error": "bad", "goal_not_reached": "bad", "new": ""}


def html_page(account: Account) -> Iterator[str]:
    """Yield the page piece by piece."""
    facts = facts_of(account)
    title = line(account.summary.title) or "A session without a message"
    yield _head(title)
    yield "<body><main>\n"
    yield from _top(account, title)
    yield tiles(facts, account.standing.usage)
    yield from _plan(account)
    yield troubles(facts)
    if svg := plot(account.steps):
        yield f'<h2>Timeline</h2><div class="scroll">{svg}</div>\n'
    yield "<h2>What happened</h2>\n"
    yield from _Events(account).html()
    yield from _end(account, facts)
    yield "</main></body></html>\n"


def _head(title: str) -> str:
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{title} · Sandbur</title><style>{CSS}</style></head>\n"
    )


def _top(account: Account, title: str) -> Iterator[str]:
    summary, standing = account.summary, account.standing
    yield f'<div class="brand">Sandbur run</div><h1 dir="auto">{title}</h1><div class="meta">'
    yield pill(status_word(summary.status), _STATUS_SIGNS.get(summary.status, "warn"))
    facts = [
        ("session", summary.id),
        ("folder", summary.cwd),
        ("model", summary.model),
        ("mode", standing.mode or account.settings.mode),
        ("from", f"{date_and_time(summary.created_at)} UTC"),
        ("to", f"{date_and_time(summary.updated_at)} UTC"),
    ]
    if summary.parent_id:
        facts.append(("fork of", f"{summary.parent_id} at {summary.parent_seq}"))
    yield "".join(f"<span>{name} <b><bdi>{line(value)}</bdi></b></span>" for name, value in facts)
    yield "</div>\n"
    if standing.goal and " ".join(standing.goal.split()) != summary.title:
        yield f'<div class="goal">{prose(standing.goal)}</div>\n'


def _plan(account: Account) -> Iterator[str]:
    steps = account.standing.plan
    if not steps:
        return
    yield '<h2>Plan</h2><ul class="plan">'
    for step in steps:
        summary = f'<div class="sum">{line(step.summary)}</div>' if step.summary else ""
        name = step.status.replace("_", " ")
        yield (
            f"<li>{pill(name, _PLAN_SIGNS.get(step.status, ''))}<div>"
            f'<a href="#plan-{line(step.step_id)}">{line(step.step_id)}. {line(step.description)}</a>'
            f"{summary}</div></li>"
        )
    yield "</ul>\n"


class _Events:
    """Everything that happened, the work on a plan step inside of it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open_step: str | None = None

    def html(self) -> Iterator[str]:
        for happened in self._account.happened:
            yield self._event(happened)
            yield "\n"
        yield self._closed()

    def _event(self, happened: Happened) -> str:
        what = happened.what
        if isinstance(what, PlanStepBegan):
            return self._closed() + self._opened(what, happened.at)
        if isinstance(what, PlanStepEnded):
            return self._ended(what, happened.at)
        closing = self._closed() if isinstance(what, Statement) and what.by == "person" else ""
        return closing + _simple(happened, self._account.standing.waiting)

    def _opened(self, step: PlanStepBegan, at: str) -> str:
        self._open_step = step.step_id
        return (
            f'<section class="step" id="plan-{line(step.step_id)}"><div class="stephead"><h3>Step'
            f' {line(step.step_id)}: {line(step.description)}</h3><span class="soft">{time(at)}</span></div>'
        )

    def _ended(self, step: PlanStepEnded, at: str) -> str:
        text = (
            f'<div class="said">{pill(step.status, _PLAN_SIGNS.get(step.status, ""))} {time(at)}'
            f"{prose(step.summary)}</div>"
        )
        return text + (self._closed() if self._open_step == step.step_id else "")

    def _closed(self) -> str:
        is_open, self._open_step = self._open_step is not None, None
        return "</section>" if is_open else ""


def _simple(happened: Happened, waiting: frozenset[str]) -> str:
    match happened.what:
        case Statement() as what:
            return said(what, happened.at, happened.seq)
        case CallAccount() as call:
            return call_card(call, waiting)
        case ModelUsed() as used:
            return model_line(used)
        case PlanMade() as plan:
            return plan_made(plan)
        case Compressed() as what:
            return compressed(what)
        case Decided() as what:
            return decided(what)
        case RunBoundary() as run:
            sign = "bad" if run.status in ("died", "error") else ""
            at = time(happened.at) if run.is_end else line(date_and_time(happened.at))
            return _mark(f"{line(boundary(run))} · {at}", sign)
        case Forked() as fork:
            return _mark(f"From here on: session {line(fork.session_id)}, forked from {line(fork.parent_id)}")
        case Lost() as lost:
            return _mark(line(lost.what), "bad")
        case _:
            return ""


def _mark(safe: str, sign: str = "") -> str:
    return f'<div class="line mark {sign}"><span>{safe}</span></div>'


def _end(account: Account, facts: Facts) -> Iterator[str]:
    yield approvals(facts, account.standing.waiting)
    yield files(facts)
    yield record(account)


def report(store: "Store", session_id: str, form: str) -> Iterator[str]:
    """Yield the report as `html` or `md`, piece by piece."""
    from ...agent.history.insight.read_account import read_account

    account = read_account(store, session_id)
    if form == "html":
        yield from html_page(account)
    else:
        from .markdown import markdown

        yield from markdown(account)
