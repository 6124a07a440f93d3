"""The figures of an account, and what went wrong in it."""

from dataclasses import dataclass, field

from agent.report.account import Account, Call, Decided, Lost, ModelUsed, RunBoundary


@dataclass(slots=True)
class Facts:
    runs: int = 0
    deaths: int = 0
    model_ms: int = 0
    tool_ms: int = 0
    active_ms: int = 0
    """All steps together; waiting for people is left out."""
    failed_model_calls: int = 0
    retries: int = 0
    calls: int = 0
    failed_calls: int = 0
    asked: int = 0
    waiting: int = 0
    approved_by_people: int = 0
    denied_by_people: int = 0
    files: dict[str, list[Call]] = field(default_factory=dict[str, list[Call]])
    """Path -> the calls that changed it."""
    troubles: list[tuple[str, Call | RunBoundary | ModelUsed | Lost]] = field(
        default_factory=list[tuple[str, Call | RunBoundary | ModelUsed | Lost]]
    )
    """When something went wrong, and what."""
    decided: list[Call] = field(default_factory=list[Call])
    """The calls that were asked about, denied or settled."""


def facts_of(account: Account) -> Facts:
    """Count everything once."""
    facts = Facts()
    for step in account.steps:
        facts.active_ms += step.total_ms
        facts.model_ms += step.model_ms
        facts.tool_ms += step.tool_ms
    for happened in account.happened:
        what = happened.what
        if isinstance(what, RunBoundary):
            _count_run(facts, what, happened.at)
        elif isinstance(what, ModelUsed):
            _count_model_call(facts, what, happened.at)
        elif isinstance(what, Call):
            _count_call(facts, what, happened.at, account.standing.waiting)
        elif isinstance(what, Lost):
            facts.troubles.append((happened.at, what))
        elif isinstance(what, Decided):
            for _, verdict in what.verdicts:
                facts.approved_by_people += verdict.decision == "approved"
                facts.denied_by_people += verdict.decision == "denied"
    return facts


def _count_run(facts: Facts, run: RunBoundary, at: str) -> None:
    facts.runs += not run.is_end
    facts.deaths += run.status == "died"
    if run.status == "died" or run.error:
        facts.troubles.append((at, run))


def _count_model_call(facts: Facts, used: ModelUsed, at: str) -> None:
    facts.failed_model_calls += used.call.error is not None
    facts.retries += sum("discarded" not in notice for notice in used.call.notices)
    if used.call.error is not None or used.call.notices:
        facts.troubles.append((at, used))


def _count_call(facts: Facts, call: Call, at: str, waiting: frozenset[str]) -> None:
    facts.calls += 1
    facts.failed_calls += call.outcome not in ("ok", None)
    facts.waiting += call.call_id in waiting
    facts.asked += any(verdict.decision == "undecided" for verdict in call.verdicts)
    for diff in call.diffs:
        facts.files.setdefault(diff.path, []).append(call)
    if call.outcome in ("unknown", "timeout", "interrupted") or len(call.started) > 1:
        facts.troubles.append((at, call))
    if any(verdict.who or verdict.decision in ("undecided", "denied") for verdict in call.verdicts):
        facts.decided.append(call)
