"""What a comparison says, in short texts that lines and tables share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ui.sanitize import one_line
from ui.status import elapsed
from ui.steps import SIGNS

if TYPE_CHECKING:
    from agent.compare.comparison import Comparison, Run, RunFile
    from agent.compare.totals import Totals
    from agent.recorded_calls import RecordedCall
    from state.store.timeline import TimelineStep

Row = tuple[str, str, str]
"""What it is about, left, right."""


def names(found: "Comparison") -> tuple[str, str]:
    """Return short names of the two sessions."""
    left, right = found.left.summary.id, found.right.summary.id
    return (left[:8], right[:8]) if left[:8] != right[:8] else (left, right)


def parting_text(found: "Comparison") -> str:
    if found.parting is None:
        return "They have no step in common: neither is a fork of the other."
    last = found.common[-1] if found.common else None
    where = f" ({step_text(last)})" if last is not None else ""
    count = len(found.common)
    steps = "1 step is" if count == 1 else f"{count} steps are"
    return f"They part behind step {found.parting.seq}{where}; {steps} the same."


def step_text(step: "TimelineStep") -> str:
    return f"{one_line(step.action)}: {SIGNS.get(step.kind, '')}{one_line(step.text)}"


def rows(found: "Comparison") -> Iterator[Row]:
    """Yield the facts of both runs; in brackets what came behind the parting."""
    ours, theirs = found.left, found.right
    yield "session", ours.summary.id, theirs.summary.id
    yield "title", one_line(ours.summary.title), one_line(theirs.summary.title)
    yield "folder", one_line(ours.summary.cwd), one_line(theirs.summary.cwd)
    yield "model", one_line(ours.summary.model), one_line(theirs.summary.model)
    yield "mode", ours.mode, theirs.mode
    yield "status", one_line(ours.summary.status), one_line(theirs.summary.status)
    has_common = found.parting is not None
    yield from zip(_AMOUNTS, _amounts(ours, has_common), _amounts(theirs, has_common), strict=True)


_AMOUNTS = ("steps", "model calls", "input tokens", "output tokens", "cost", "time in models",
            "time in tools", "time in runs")  # fmt: skip


def _amounts(run: "Run", has_common: bool) -> Iterator[str]:
    pairs = zip(_whole(run.whole), _whole(run.own), strict=True)
    yield from (f"{whole} ({own})" if has_common and own != whole else whole for whole, own in pairs)


def _whole(totals: "Totals") -> Iterator[str]:
    usage = totals.usage
    yield str(totals.steps)
    yield "?" if usage is None else str(usage.llm_calls)
    yield _number(None if usage is None else usage.input_tokens)
    yield _number(None if usage is None else usage.output_tokens)
    yield "?" if usage is None or usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    yield "?" if totals.model_s is None else elapsed(totals.model_s)
    yield elapsed(totals.tool_s)
    yield "?" if totals.run_s is None else elapsed(totals.run_s)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def decision_text(call: "RecordedCall | None") -> str:
    """Return what was decided about a call, and by whom."""
    if call is None:
        return "-"
    last = call.verdicts[-1]
    if last.decision == "undecided":
        return "waits for a decision"
    edited = "edited and " if last.is_edited else ""
    reason = f": {one_line(last.reason)}" if last.reason and last.decision in ("denied", "invalid") else ""
    outcome = "" if call.outcome in ("", "ok", "denied") else f" ({one_line(call.outcome)})"
    settled = "settled as " if last.decision in ("done", "failed", "rerun") else ""
    who = one_line(last.who or last.by)
    return f"{edited}{settled}{one_line(last.decision)} by {who}{reason}{outcome}"


def file_text(file: "RunFile", left: str, right: str) -> str:
    """Return what became of a file, without its diff."""
    found = file.difference
    note = f": {one_line(found.note)}" if found is not None and found.note else ""
    if file.place == "both":
        status = "same" if found is None else found.status
        what = {"same": "the same in both", "added": f"gone in {left}", "removed": f"gone in {right}"}.get(
            status, "different"
        )
        return f"{one_line(file.name)}  {what}{note}"
    what = found.status if found is not None else "changed and changed back"
    whose = left if file.place == "left" else right
    return f"{one_line(file.name)}  only in {whose}: {what}{note}"
