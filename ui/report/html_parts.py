"""Single events of a run as HTML."""

from collections.abc import Iterator

from agent.report.account import Call, Compressed, Cut, Decided, FileDiff, ModelUsed, PlanMade, Said, Verdict
from ui.prune import size_text
from ui.report.safe import block, line, prose
from ui.report.shown import shown_arguments
from ui.report.words import call_state, clock, date_and_time, duration, model_call, number, plural, verdict

_SIGNS = {"ok": "ok", "error": "bad", "timeout": "bad", "denied": "warn", "interrupted": "warn",
          "unknown": "warn", "waiting": "warn"}  # fmt: skip
_OPEN_DIFF_LINES = 60


def time(stamp: str) -> str:
    return f'<time title="{line(date_and_time(stamp))} UTC">{line(clock(stamp))}</time>'


def pill(text: str, sign: str = "") -> str:
    return f'<span class="pill {sign}">{line(text)}</span>'


def sign_of(state: str) -> str:
    return _SIGNS.get(state, "")


def said(what: Said, at: str, seq: int) -> str:
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


def call_card(call: Call, waiting: frozenset[str]) -> str:
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


def _arguments(call: Call) -> Iterator[str]:
    for name, value in shown_arguments(call):
        label = f'<span class="soft">{line(name)}</span> ' if name else ""
        text = f'<pre dir="auto">{cut_block(value)}</pre>'
        yield f"<details><summary>{label or 'Arguments'}</summary>{text}</details>"


def _verdicts(call: Call) -> Iterator[str]:
    for one in call.verdicts:
        if one.decision == "approved" and not one.who:
            continue
        yield f'<div class="line {"bad" if one.decision == "denied" else ""}">{_verdict(one)}</div>'


def _verdict(one: Verdict) -> str:
    reason = f": {line(one.reason)}" if one.reason and one.decision != "approved" else ""
    return f"{time(one.at)} {line(verdict(one))}{reason}"


def _output(call: Call, state: str) -> Iterator[str]:
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
