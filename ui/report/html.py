"""The report as one HTML page: no script, nothing from outside, everything untrusted escaped."""

import base64
import hashlib
from collections.abc import Iterator

from agent.report.account import (
    Account,
    Call,
    Compressed,
    Decided,
    Forked,
    Happened,
    Lost,
    ModelUsed,
    PlanMade,
    PlanStepBegan,
    PlanStepEnded,
    RunBoundary,
    Said,
)
from agent.report.facts import Facts, facts_of
from ui.report.html_parts import call_card, compressed, decided, model_line, pill, plan_made, said, time
from ui.report.html_tables import approvals, files, record, tiles, troubles
from ui.report.plot import plot
from ui.report.safe import line, prose
from ui.report.style import CSS
from ui.report.words import boundary, date_and_time, status_word

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
        closing = self._closed() if isinstance(what, Said) and what.by == "person" else ""
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
        case Said() as what:
            return said(what, happened.at, happened.seq)
        case Call() as call:
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
