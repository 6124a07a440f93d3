"""Texts and number formats that the HTML and the Markdown form of a report share."""

import json
from datetime import datetime
from typing import Any

from ...actions.tools.registry import traits_of
from ...actions.workspace.paths import format_count
from ...agent.history.reports.run_report import (
    CallAccount,
    CutText,
    Facts,
    ModelUsed,
    RecordedVerdict,
    RunBoundary,
)
from ...state.application import Usage
from ...state.conversation.messages import parse_json_object
from ..terminal.text.sanitize import one_line
from ..terminal.text.times import format_seconds

STATUS_WORDS = {
    "needs_approval": "waits for an approval",
    "needs_decision": "waits for a decision",
    "parked": "parked, as its process died again and again",
    "goal_not_reached": "goal not reached",
    "repeated": "stopped, as it repeated itself",
    "turn_limit": "stopped at the turn limit",
    "budget_limit": "stopped at the budget",
    "rate_limited": "turned away by the provider",
}
_MOVE_WORDS = {
    "done": "settled it as done",
    "failed": "settled it as failed",
    "rerun": "let it run once more",
    "check": "asked the model to check",
    "undecided": "asked",
    "invalid": "refused",
}


def is_data(text: CutText) -> bool:
    """Return whether an answer is JSON, possibly truncated."""
    return text.text.lstrip()[:1] in ("{", "[")


def status_word(status: str) -> str:
    return STATUS_WORDS.get(status, one_line(status))


def clock(stamp: str) -> str:
    """Return the UTC time of day of a stored time."""
    return _format_time(stamp, "%H:%M:%S")


def date_and_time(stamp: str) -> str:
    return _format_time(stamp, "%Y-%m-%d %H:%M:%S")


def _format_time(stamp: str, layout: str) -> str:
    try:
        return datetime.fromisoformat(stamp).strftime(layout)
    except ValueError:
        return one_line(stamp)


def duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else format_seconds(milliseconds / 1000)


def number(count: int) -> str:
    return f"{count:,}"


def short(count: int | None) -> str:
    """Return a large number with three digits and its unit."""
    if count is None:
        return "?"
    return (
        number(count)
        if count < 10_000
        else f"{count / 1000:.3g}k"
        if count < 10**6
        else f"{count / 10**6:,.4g}M"
    )


def cost(dollars: float | None) -> str:
    if dollars is None:
        return "unknown"
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def tokens(usage: Usage) -> str:
    sent = "?" if usage.input_tokens is None else number(usage.input_tokens)
    answered = "?" if usage.output_tokens is None else number(usage.output_tokens)
    return f"{sent} in, {answered} out"


def boundary(run: RunBoundary) -> str:
    """Describe in one sentence how a run began or ended."""
    if not run.is_end:
        who = f" by {one_line(run.by)}" if run.by else ""
        return f"Run {run.number} began{who}: {one_line(run.model)}, mode {one_line(run.mode)}"
    if run.status == "died":
        return f"Run {run.number} ended without a record: its process died"
    if run.status == "running":
        return f"Run {run.number} is still running"
    text = f"Run {run.number} ended after {duration(run.duration_ms)}: {status_word(run.status)}"
    return f"{text}. {one_line(run.error)}" if run.error else text


def model_call(used: ModelUsed) -> str:
    """Return the usage of a model call in one line."""
    call = used.call
    parts = [one_line(call.model), duration(call.duration_ms)]
    if call.first_ms is not None and call.first_ms != call.duration_ms:
        parts.append(f"first words after {duration(call.first_ms)}")
    if call.error is None:
        parts.append(tokens(call.total_usage))
        if call.total_usage.cache_read_tokens:
            parts.append(f"{number(call.total_usage.cache_read_tokens)} cached")
        if call.total_usage.cost_usd is None or call.total_usage.cost_usd > 0:
            parts.append(f"cost {cost(call.total_usage.cost_usd)}")
    else:
        parts.append(f"failed ({one_line(call.error.code)}): {one_line(call.error.message)}")
    return " · ".join(parts)


_ID_CHARS = 8
_DECIDERS = {"policy": "the policy", "rule": "a rule", "runtime": "Sandbur", "hook": "a hook"}


def verdict(call_verdict: RecordedVerdict) -> str:
    """Return the decision and its author, without the reason."""
    who = one_line(call_verdict.who) or _DECIDERS.get(
        call_verdict.by, one_line(call_verdict.by) or "the policy at that time"
    )
    if call_verdict.who and call_verdict.by == "rule":
        who = f"a rule, which {who} could not overrule,"
    done = _MOVE_WORDS.get(call_verdict.decision, one_line(call_verdict.decision))
    return f"{who} {done}{' it, edited' if call_verdict.is_edited else ''}"


def telling_verdicts(call: CallAccount) -> list[RecordedVerdict]:
    """Return the decisions except those that allowed the call without asking a person."""
    return [one for one in call.verdicts if one.decision != "approved" or one.who]


def reason(call_verdict: RecordedVerdict) -> str:
    """Return the reason of a denial as a suffix."""
    return f": {call_verdict.reason}" if call_verdict.reason and call_verdict.decision != "approved" else ""


def describe_cut(cut: CutText) -> str:
    return f"... {number(cut.left_out)} characters are left out here ..."


def call_state(call: CallAccount, waiting: frozenset[str]) -> str:
    """Return the outcome of a call, or how far it got."""
    if call.outcome is not None:
        return call.outcome
    if any(one.call_id in waiting for one in (call, *call.calls)):
        return "waiting"
    if call.runs_in:
        return f"in session {call.runs_in[:_ID_CHARS]}"
    return "started" if call.started else "not run"


def headline(facts: Facts, usage: Usage) -> list[tuple[str, str, str]]:
    """Return the main figures of a run: name, value and remark of each."""
    failed = [f"{facts.failed_model_calls} failed"] if facts.failed_model_calls else []
    failed += [format_count(facts.retries, "retry").replace("retrys", "retries")] if facts.retries else []
    cached = usage.cache_read_tokens or 0
    share = f"{cached / usage.input_tokens:.0%} from cache" if usage.input_tokens and cached else ""
    refused = [f"{facts.failed_calls} not ok"] if facts.failed_calls else []
    waits = [f"{facts.waiting} waiting"] if facts.waiting else []
    is_decided = facts.approved_by_people or facts.denied_by_people
    people = [f"{facts.approved_by_people} approved, {facts.denied_by_people} denied"] if is_decided else []
    return [
        ("Time", duration(facts.active_ms),
         f"models {duration(facts.model_ms)}, tools {duration(facts.tool_ms)}"),
        ("Cost", cost(usage.cost_usd), ""),
        ("Tokens", f"{short(usage.input_tokens)} in / {short(usage.output_tokens)} out", share),
        ("Model calls", number(usage.llm_calls), ", ".join(failed)),
        ("Tool calls", number(facts.calls), ", ".join(refused)),
        ("Asked", number(facts.asked), ", ".join([*people, *waits])),
        ("Files changed", number(len(facts.files)), ""),
        ("Runs", number(facts.runs), f"{facts.deaths} died" if facts.deaths else ""),
    ]  # fmt: skip


_SHORT_CHARS = 160


def list_arguments(call: CallAccount) -> list[tuple[str, CutText]]:
    """Return the arguments of a call that its title does not contain, as pairs of name and text.

    A long command is one pair, and so is each text of several lines. The other arguments are one pair of JSON
    without a name. The list is empty if the title contains all arguments, or if a diff shows the content.
    """
    if call.arguments.left_out:
        return [("", call.arguments)]
    fields, traits = parse_json_object(call.arguments.text), traits_of(call.tool)
    if fields is None:
        return [("", call.arguments)] if call.arguments.text.strip() else []
    if call.diffs and traits.writes_files and any(diff.lines for diff in call.diffs):
        return []
    command = fields.get(traits.subject)
    if isinstance(command, str) and traits.runs_commands:
        rest = {name: field for name, field in fields.items() if name != traits.subject}
        command_rows = (
            [("Command", CutText(command))] if "\n" in command or len(command) > _SHORT_CHARS else []
        )
        return [*command_rows, *([("Options", _pretty(rest))] if rest else [])]
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and "\n" in value}
    if len(fields) <= 1 and len(call.arguments.text) <= _SHORT_CHARS and not texts:
        return []
    rest = {name: value for name, value in fields.items() if name not in texts}
    return [
        *((name.capitalize(), CutText(value)) for name, value in texts.items()),
        *([("", _pretty(rest))] if rest else []),
    ]


def _pretty(fields: dict[str, Any]) -> CutText:
    return CutText(json.dumps(fields, indent=2, ensure_ascii=False))
