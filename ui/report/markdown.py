"""The report as Markdown: for issues, pull requests and whoever greps."""

import re
from collections.abc import Iterator

from agent.report.account import Account, Call, Lost, ModelUsed, RunBoundary
from agent.report.facts import Facts, facts_of
from ui.report.fences import code, fenced, line, prose
from ui.report.markdown_events import event, title
from ui.report.words import (
    boundary,
    call_state,
    clock,
    cost,
    date_and_time,
    duration,
    headline,
    model_call,
    number,
    plural,
    status_word,
    verdict,
)

_PLAN_SIGNS = {"completed": "x", "failed": "!"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST_BARS = 80


def markdown(account: Account) -> Iterator[str]:
    """Yield the report piece by piece."""
    facts = facts_of(account)
    yield from _top(account, facts)
    yield from _timeline(account)
    yield "## What happened\n\n"
    waiting = account.standing.waiting
    for happened in account.happened:
        yield from event(happened, waiting)
    yield from _approvals(facts, waiting)
    yield from _files(facts)
    yield from _record(account)


def _top(account: Account, facts: Facts) -> Iterator[str]:
    summary, standing = account.summary, account.standing
    yield f"# {line(summary.title) or 'A session without a message'}\n\n"
    yield f"{line(status_word(summary.status))} · session {code(summary.id)} · {code(summary.model)}"
    yield f" · mode {line(standing.mode or account.settings.mode)} · folder {code(summary.cwd)}\n"
    yield f"{date_and_time(summary.created_at)} to {date_and_time(summary.updated_at)} UTC\n"
    if summary.parent_id:
        yield f"fork of {code(summary.parent_id)} at step {summary.parent_seq}\n"
    yield "\n| | | |\n|---|---|---|\n"
    for name, value, remark in headline(facts, standing.usage):
        yield f"| {name} | {line(value)} | {line(remark)} |\n"
    yield "\n"
    if standing.goal and " ".join(standing.goal.split()) != summary.title:
        yield f"**Goal:** {prose(standing.goal)}\n\n"
    if standing.plan:
        yield "## Plan\n\n"
        for step in standing.plan:
            yield f"- [{_PLAN_SIGNS.get(step.status, ' ')}] {line(step.step_id)}. {line(step.description)}"
            yield f" ({line(step.status.replace('_', ' '))})"
            yield f": {line(step.summary)}\n" if step.summary else "\n"
        yield "\n"
    if facts.troubles:
        yield "## What went wrong\n\n"
        for at, what in facts.troubles:
            yield f"- {clock(at)} {_trouble(what)}\n"
        yield "\n"


def _trouble(what: Call | RunBoundary | ModelUsed | Lost) -> str:
    match what:
        case Call():
            return f"call {what.number}, {title(what)}: {call_state(what, frozenset())}"
        case RunBoundary():
            return line(boundary(what))
        case ModelUsed():
            return " ".join([*map(line, what.call.notices), line(model_call(what))])
        case Lost():
            return line(what.what)


def _timeline(account: Account) -> Iterator[str]:
    """Draw time and tokens in one line each; a bar stands for as many steps as needed."""
    steps = account.steps
    if not steps:
        return
    size = -(-len(steps) // _MOST_BARS)
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    times = [float(sum(step.total_ms for step in group)) for group in groups]
    tokens = [float(sum(step.tokens_in + step.tokens_out for step in group)) for group in groups]
    costs = [sum(step.cost_usd or 0.0 for step in group) for group in groups]
    unit = "a step" if size == 1 else f"{size} steps"
    rows = [
        f"time   {_bars(times)}  at most {duration(max(times))} in a bar",
        f"tokens {_bars(tokens)}  at most {number(int(max(tokens)))}",
    ]
    if any(costs):
        rows.append(f"cost   {_bars(costs)}  at most {cost(max(costs))}")
    yield f"## Timeline\n\nEach bar is {unit}, from step {steps[0].seq} to {steps[-1].seq}.\n\n"
    yield fenced("\n".join(rows)) + "\n"


def _bars(values: list[float]) -> str:
    most = max(values) or 1.0
    return "".join(_BARS[-(-int(value * 800 / most) // 100)] for value in values)


def _approvals(facts: Facts, waiting: frozenset[str]) -> Iterator[str]:
    if not facts.decided:
        return
    yield "## Approvals\n\n| Call | What | Decisions | Outcome |\n|---|---|---|---|\n"
    for call in facts.decided:
        said = "; ".join(f"{date_and_time(one.at)} {line(verdict(one))}" for one in call.verdicts)
        exactly = f"{code(call.subject)} sha256 {code(call.arguments_sha256[:16])}"
        yield f"| {call.number}. {_cell(line(call.tool))} | {_cell(exactly)} | {_cell(said)} |"
        yield f" {call_state(call, waiting)} |\n"
    yield "\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _files(facts: Facts) -> Iterator[str]:
    if facts.files:
        yield "## Files\n\n"
        for path, calls in sorted(facts.files.items()):
            numbers = ", ".join(str(call.number) for call in calls)
            yield f"- {code(path)}: changed by call {numbers}\n"
        yield "\n"


def _record(account: Account) -> Iterator[str]:
    audit = account.audit
    yield "## Record\n\n"
    for breach in audit.breaches:
        yield f"- record {breach.record} {breach.table} {line(breach.place)}: {line(breach.problem)}\n"
    if not audit.breaches:
        records = sum(session.records for session in audit.sessions)
        yield f"Verified: {plural(records, 'record')}; the chain ends in {code(audit.sessions[-1].chain)}.\n"
