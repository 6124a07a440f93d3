"""Composes a report from the account of a session, in blocks that are the same for HTML and Markdown."""

import math
from collections.abc import Iterator, Sequence

from ...actions.workspace.paths import format_count, format_size
from ...agent.history.reports import run_report
from ...agent.history.sub_agents import SubAgentRecord
from ...agent.runtime.version import VERSION
from . import words
from .blocks import (
    Bar,
    Block,
    CallLink,
    Card,
    Figures,
    Heading,
    Inline,
    Line,
    Note,
    Pill,
    Plan,
    PlanItem,
    Prose,
    Sign,
    Span,
    Stamp,
    StepBegin,
    StepEnd,
    Table,
    Turn,
    Verbatim,
)

_SIGNS: dict[str, Sign] = {
    "ok": "ok", "error": "bad", "timeout": "bad", "denied": "warn", "interrupted": "warn", "unknown": "warn",
    "waiting": "warn",
}  # fmt: skip
_PLAN_SIGNS: dict[str, Sign] = {"completed": "ok", "failed": "bad", "in_progress": "warn"}
_STATUS_SIGNS: dict[str, Sign] = {
    "done": "ok", "error": "bad", "goal_not_reached": "bad", "repeated": "bad", "new": "",
}  # fmt: skip
_MOST_TROUBLES = 50
_MOST_BREACHES = 20
_MOST_LINKS = 20
_MOST_STEP_ROWS = 60
_MOST_SUB_AGENTS = 200


def title_of(account: run_report.Account) -> str:
    return account.summary.title or "A session without a message"


def compose_report(account: run_report.Account) -> Iterator[Block]:
    """Yield the report block by block."""
    facts = run_report.facts_of(account)
    yield from _top(account)
    yield Figures(words.headline(facts, account.standing.usage))
    if account.standing.plan:
        yield Heading(2, "Plan")
        yield Plan("", [_plan_item(step) for step in account.standing.plan])
    for contract in run_report.list_contracts(account.happened):
        yield from _contract(contract)
    yield from _troubles(facts)
    yield from compose_steps(account.steps)
    yield from _sub_agents(account.sub_agents)
    yield Heading(2, "What happened")
    yield from _events(account)
    yield from _approvals(facts, account.standing.waiting)
    yield from _files(facts)
    yield from _record(account)


def _top(account: run_report.Account) -> Iterator[Block]:
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
    if summary.spawned_by:
        facts["sub-agent of"] = summary.spawned_by.session_id
    if summary.parent_id:
        facts["fork of"] = f"{summary.parent_id} at {summary.parent_seq}"
    yield Heading(1, title_of(account))
    line: list[Inline] = [Pill(words.status_word(summary.status), _STATUS_SIGNS.get(summary.status, "warn"))]
    for name, value in facts.items():
        line += [f" · {name} ", Span(value, "value")]
    yield Note(line)
    if standing.goal and " ".join(standing.goal.split()) != summary.title:
        yield Prose(run_report.CutText(f"**Goal:** {standing.goal}"))
    if standing.page:
        yield Verbatim(run_report.CutText(standing.page), "The page of the session")


def _plan_item(step: run_report.PlanStep) -> PlanItem:
    status = Pill(step.status.replace("_", " "), _PLAN_SIGNS.get(step.status, ""))
    return PlanItem(step.step_id, step.description, status, step.summary)


def _contract(contract: run_report.PlanContract) -> Iterator[Block]:
    """Yield an approved plan: who approved it, its text, and the calls inside and outside of it."""
    plan = contract.plan
    when: list[Inline] = [" ", Stamp(plan.at, True)] if plan.at else []
    yield Heading(2, "Approved plan")
    digest = Span(f"sha256 {plan.digest}", "code")
    yield Note([f"Approved by {plan.who or 'a person who is not recorded'}", *when, " · ", digest])
    yield Verbatim(plan.text, "The plan and its permissions", is_open=True)
    if plan.changes:
        yield Verbatim(run_report.CutText(plan.changes), "What it changes", is_open=True)
    rows: list[list[Line]] = [
        [[words], [str(len(calls))], _links(calls)]
        for words, calls in (
            ("ran without a question, as the plan allows", contract.inside),
            ("outside the plan", contract.outside),
        )
    ]
    yield Table(("Calls", "Count", "Which"), rows)


def _troubles(facts: run_report.Facts) -> Iterator[Block]:
    """Yield a table of the errors, with links to the failed calls."""
    if not facts.troubles:
        return
    rows = [[[Stamp(at)], _trouble(what)] for at, what in facts.troubles[:_MOST_TROUBLES]]
    if (more := len(facts.troubles) - _MOST_TROUBLES) > 0:
        rows.append([[], [Span(f"and {more} more, below", "soft")]])
    yield Heading(2, "What went wrong")
    yield Table(("Time", "What"), rows)


def _trouble(
    what: run_report.CallAccount | run_report.RunBoundary | run_report.ModelUsed | run_report.Lost,
) -> list[Inline]:
    match what:
        case run_report.CallAccount():
            again = f", started {len(what.started)} times" if len(what.started) > 1 else ""
            return [CallLink(what), " ", _outcome(what, frozenset()), again]
        case run_report.RunBoundary():
            return [words.boundary(what)]
        case run_report.ModelUsed():
            return [" ".join([*what.call.notices, words.model_call(what)])]
        case run_report.Lost():
            return [what.what]


def compose_steps(steps: Sequence[run_report.StepCost]) -> Iterator[Block]:
    """Yield a table with time, tokens and cost of the steps; with many steps, a row sums up several."""
    if not steps:
        return
    size = math.ceil(len(steps) / _MOST_STEP_ROWS)
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    most = max(sum(step.total_ms for step in group) for group in groups) or 1
    yield Heading(2, "Steps")
    head = ("Step", "Action", "Time", "", "Models", "Tools", "Sandbur", "Tokens in", "Tokens out", "Cost")
    yield Table(head, [_step_row(group, most) for group in groups])


def _sub_agents(agents: Sequence[SubAgentRecord]) -> Iterator[Block]:
    """Yield a table of the sub-agents with their state, tokens and cost."""
    if not agents:
        return
    yield Heading(2, "Sub-agents")
    rows = [_sub_agent_row(one) for one in agents[:_MOST_SUB_AGENTS]]
    if (more := len(agents) - _MOST_SUB_AGENTS) > 0:
        rows.append([[], [Span(f"and {more} more", "soft")]])
    yield Table(("Agent", "For", "State", "Tokens in", "Tokens out", "Cost", "Session"), rows)
    own = "sandbur sessions export ID --format html"
    yield Note([f"Their tokens and cost are part of those above. A report of one: {own}"])


def _sub_agent_row(agent: SubAgentRecord) -> list[Line]:
    status, usage = agent.summary.status, agent.usage
    state = Pill(words.status_word(status), _STATUS_SIGNS.get(status, "warn"))
    counts = (usage.input_tokens, usage.output_tokens)
    cells = ("unknown" if count is None else words.number(count) for count in counts)
    row: list[Line] = [[agent.name], [agent.description], [state], *([cell] for cell in cells)]
    return [*row, [words.cost(usage.cost_usd)], [Span(agent.id, "code")]]


def _step_row(group: Sequence[run_report.StepCost], most_ms: int) -> list[Line]:
    first, total_ms = group[0], sum(step.total_ms for step in group)
    numbers = str(first.seq) if len(group) == 1 else f"{first.seq} to {group[-1].seq}"
    costs = [step.cost_usd for step in group]
    at_least = "at least " if None in costs else ""
    cells = (
        words.duration(sum(step.model_ms for step in group)),
        words.duration(sum(step.tool_ms for step in group)),
        words.duration(sum(step.other_ms for step in group)),
        words.number(sum(step.tokens_in for step in group)),
        words.number(sum(step.tokens_out for step in group)),
        at_least + words.cost(sum(cost or 0.0 for cost in costs)),
    )
    action = first.action if len(group) == 1 else ""
    row: list[Line] = [[numbers], [action], [words.duration(total_ms)], [Bar(total_ms / most_ms)]]
    return [*row, *([cell] for cell in cells)]


def _approvals(facts: run_report.Facts, waiting: frozenset[str]) -> Iterator[Block]:
    """Yield a table of the calls that were asked about or denied: the call, its decisions, its outcome."""
    if not facts.calls:
        return
    yield Heading(2, "Approvals")
    if facts.decided:
        rows = [_approval(call, waiting) for call in facts.decided]
        yield Table(("Call", "What exactly", "Decisions", "Outcome"), rows)
    unasked = format_count(facts.calls - len(facts.decided), "call")
    yield Note([f"{unasked} ran without a question, by the mode or a rule."])


def _approval(call: run_report.CallAccount, waiting: frozenset[str]) -> list[Line]:
    decisions: list[Inline] = []
    for one in call.verdicts:
        reason = f": {one.reason}" if one.reason else ""
        decisions += ["; " if decisions else "", Stamp(one.at, True), f" {words.verdict(one)}{reason}"]
    exactly = [Span(call.subject, "code"), " ", Span(f"sha256 {call.arguments_sha256}", "soft")]
    return [[CallLink(call, has_subject=False)], exactly, decisions, [_outcome(call, waiting)]]


def _files(facts: run_report.Facts) -> Iterator[Block]:
    """Yield a table of the changed files, with links to the calls that changed them."""
    if facts.files:
        yield Heading(2, "Files")
        rows = [[[Span(path, "code")], _links(calls)] for path, calls in sorted(facts.files.items())]
        yield Table(("File", "Changed by"), rows)


def _links(calls: Sequence[run_report.CallAccount]) -> list[Inline]:
    links = [part for call in calls[:_MOST_LINKS] for part in (", ", CallLink(call, has_subject=False))][1:]
    more = len(calls) - _MOST_LINKS
    return [*links, f" and {more} more" if more > 0 else ""]


def _record(account: run_report.Account) -> Iterator[Block]:
    """Yield the result of the check of the stored records, and the program version."""
    audit = account.audit
    yield Heading(2, "Record")
    if audit.breaches:
        yield Note([Pill("does not hold", "bad"), f" {format_count(len(audit.breaches), 'finding')}"])
        for breach in audit.breaches[:_MOST_BREACHES]:
            place = f"record {breach.record} {breach.table} {breach.place}: {breach.problem}"
            yield Note([place], "bad")
        if (more := len(audit.breaches) - _MOST_BREACHES) > 0:
            yield Note([f"and {more} more"], "bad")
    else:
        records = format_count(sum(session.records for session in audit.sessions), "record")
        approved = "hash-chained; each call ran exactly as it was approved"
        chain = Span(audit.sessions[-1].chain, "code")
        yield Note([Pill("verified", "ok"), f" {records}, {approved}. The chain ends in ", chain, "."])
    export = Span(f"sandbur sessions export {account.summary.id}", "code")
    yield Note([f"Made by Sandbur {VERSION}. All times are UTC. Whole outputs: ", export])


def _events(account: run_report.Account) -> Iterator[Block]:
    """Yield the events of the session; those of a plan step are between `StepBegin` and `StepEnd`."""
    open_step: str | None = None
    for happened in account.happened:
        what = happened.what
        is_person = isinstance(what, run_report.Utterance) and what.by == "person"
        if open_step is not None and (is_person or isinstance(what, run_report.PlanStepBegan)):
            yield StepEnd()
            open_step = None
        yield from _event(happened, account.standing.waiting)
        if isinstance(what, run_report.PlanStepBegan):
            open_step = what.step_id
        if isinstance(what, run_report.PlanStepEnded) and what.step_id == open_step:
            yield StepEnd()
            open_step = None
    if open_step is not None:
        yield StepEnd()


def _event(happened: run_report.Happened, waiting: frozenset[str]) -> Iterator[Block]:
    what, at = happened.what, happened.at
    match what:
        case run_report.Utterance():
            yield _utterance(what, happened)
        case run_report.CallAccount():
            yield _card(what, waiting)
        case run_report.ModelUsed():
            yield from (Note([notice], "warn") for notice in what.call.notices)
            yield Note([words.model_call(what)], "" if what.call.error is None else "bad")
        case run_report.Compressed():
            yield Prose(what.summary, "Older messages were replaced by a summary")
        case run_report.Decided():
            yield from (Note([*_verdict(one), ": ", CallLink(call)]) for call, one in what.verdicts)
        case run_report.PlanMade() | run_report.PlanStepBegan() | run_report.PlanStepEnded():
            yield from _plan_event(what, at)
        case run_report.PlanApproved():
            yield Note([f"The plan {what.digest[:12]} was approved, and begins"], is_mark=True)
        case _:
            yield _mark(what, at)


def _mark(what: run_report.RunBoundary | run_report.Forked | run_report.Lost, at: str) -> Note:
    match what:
        case run_report.RunBoundary():
            sign = "bad" if what.status in ("died", "error") else ""
            return Note([words.boundary(what), " · ", Stamp(at, not what.is_end)], sign, is_mark=True)
        case run_report.Forked():
            text = f"From here on the steps are of session {what.session_id}, forked from {what.parent_id}"
            return Note([text], is_mark=True)
        case run_report.Lost():
            return Note([what.what], "bad", is_mark=True)


def _plan_event(
    what: run_report.PlanMade | run_report.PlanStepBegan | run_report.PlanStepEnded, at: str
) -> Iterator[Block]:
    match what:
        case run_report.PlanMade():
            title = "The plan was revised" if what.is_revision else "Plan"
            yield Plan(title, [PlanItem(step_id, text) for step_id, text in what.steps])
        case run_report.PlanStepBegan():
            yield StepBegin(what.step_id, what.description, at)
        case run_report.PlanStepEnded():
            status = Pill(what.status, _PLAN_SIGNS.get(what.status, ""))
            yield Note([f"Step {what.step_id} ", status, " ", Stamp(at)])
            yield Prose(run_report.CutText(what.summary))


def _utterance(what: run_report.Utterance, happened: run_report.Happened) -> Block:
    """Return the block of a message: of the person, of the model, or of Sandbur to the model."""
    match what.by:
        case "person" | "command":
            return Turn(happened.at, happened.seq, what.text, what.name)
        case "answer" if words.is_data(what.text):
            return Verbatim(what.text)
        case "model" | "answer":
            return Prose(what.text)
        case "thinking":
            return Prose(what.text, "Thinking")
        case "runtime":
            return Prose(what.text, "Sandbur informed the model")


def _card(call: run_report.CallAccount, waiting: frozenset[str]) -> Card:
    remarks = [words.duration(call.duration_ms)] if call.duration_ms is not None else []
    if len(call.started) > 1:
        remarks.append(f"started {len(call.started)} times")
    state = _outcome(call, waiting)
    below = tuple(_card(made, waiting) for made in call.calls)
    return Card(call, " · ".join(remarks), state, tuple(_call_parts(call, state.text)), below)


def _call_parts(call: run_report.CallAccount, state: str) -> Iterator[Note | Verbatim | run_report.FileDiff]:
    for name, value in words.list_arguments(call):
        yield Verbatim(value, name or "Arguments")
    for one in words.telling_verdicts(call):
        yield Note(_verdict(one), "bad" if one.decision == "denied" else "")
    yield from call.diffs
    if call.content.text.strip():
        lines = format_count(call.content.text.count("\n") + 1 + call.content.tail.count("\n"), "line")
        whole = f", of {format_size(call.output_bytes)}" if call.output_bytes else ""
        yield Verbatim(call.content, f"Output: {lines}{whole}", is_open=state not in ("ok", "denied"))


def _verdict(one: run_report.RecordedVerdict) -> list[Inline]:
    return [Stamp(one.at), " ", words.verdict(one), words.reason(one)]


def _outcome(call: run_report.CallAccount, waiting: frozenset[str]) -> Pill:
    state = words.call_state(call, waiting)
    return Pill(state, _SIGNS.get(state, ""))
