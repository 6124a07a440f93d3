"""What happened in a run, event by event, as Markdown."""

from collections.abc import Iterator

from agent.report.account import (
    Call,
    Compressed,
    Cut,
    Decided,
    FileDiff,
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
from ui.report.fences import code, fenced, line, prose
from ui.report.shown import shown_arguments
from ui.report.words import (
    boundary,
    call_state,
    clock,
    date_and_time,
    duration,
    model_call,
    number,
    plural,
    verdict,
)
from ui.sanitize import plain


def event(happened: Happened, waiting: frozenset[str]) -> Iterator[str]:
    """Yield what happened at one point of the run."""
    what, at = happened.what, clock(happened.at)
    match what:
        case Said():
            yield from _said(what, happened)
        case Call():
            yield from _call(what, waiting)
        case ModelUsed():
            yield from (f"*{line(notice)}*\n\n" for notice in what.call.notices)
            yield f"*{line(model_call(what))}*\n\n"
        case Decided():
            for call, one in what.verdicts:
                yield f"**{at} {line(verdict(one))}**: call {call.number}, {title(call)}\n\n"
        case PlanMade() | PlanStepBegan() | PlanStepEnded():
            yield _planned(what, at)
        case _:
            yield _marked(what, at, date_and_time(happened.at))


def _planned(what: PlanMade | PlanStepBegan | PlanStepEnded, at: str) -> str:
    if isinstance(what, PlanMade):
        steps = "".join(f"{line(step_id)}. {line(text)}\n" for step_id, text in what.steps)
        return f"{'**The plan was revised**' if what.is_revision else '**Plan**'}\n\n{steps}\n"
    if isinstance(what, PlanStepBegan):
        return f"### Step {line(what.step_id)}: {line(what.description)}\n\n"
    return f"**Step {line(what.step_id)} {line(what.status)}** ({at}): {prose(what.summary)}\n\n"


def _marked(what: Compressed | RunBoundary | Forked | Lost, at: str, date: str) -> str:
    if isinstance(what, Compressed):
        return f"**Older messages were replaced by a summary:**\n\n{_quoted(_cut_prose(what.summary))}\n\n"
    if isinstance(what, RunBoundary):
        return f"---\n*{at if what.is_end else date} {line(boundary(what))}*\n\n"
    if isinstance(what, Forked):
        return f"---\n*From here on: session {what.session_id}, forked from {what.parent_id}*\n\n"
    return f"**{line(what.what)}**\n\n"


def _said(what: Said, happened: Happened) -> Iterator[str]:
    text = _cut_prose(what.text)
    if what.by in ("person", "command"):
        yield f"### You ({clock(happened.at)}, step {happened.seq})\n\n{text}\n\n"
    elif what.by == "model":
        yield f"{text}\n\n"
    else:
        name = "Thinking" if what.by == "thinking" else "Sandbur told the model"
        yield f"*{name}:*\n\n{_quoted(text)}\n\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {part}".rstrip() for part in text.split("\n"))


def _call(call: Call, waiting: frozenset[str]) -> Iterator[str]:
    took = f", {duration(call.duration_ms)}" if call.duration_ms is not None else ""
    again = f", started {len(call.started)} times" if len(call.started) > 1 else ""
    yield f"**{call.number}. {title(call)}** ({call_state(call, waiting)}{took}{again})\n\n"
    for name, value in shown_arguments(call):
        yield f"{name or 'Arguments'}:\n\n{_cut_fence(value)}\n"
    yield _verdicts(call)
    for diff in call.diffs:
        yield from _diff(diff)
    if call.content.text.strip():
        whole = f" (a part of {number(call.output_bytes)} bytes)" if call.output_bytes else ""
        yield f"Output{whole}:\n\n{_cut_fence(call.content)}\n"


def _verdicts(call: Call) -> str:
    lines = ""
    for one in call.verdicts:
        if one.decision != "approved" or one.who:
            reason = f": {line(one.reason)}" if one.reason and one.decision != "approved" else ""
            lines += f"- {clock(one.at)} {line(verdict(one))}{reason}\n"
    return f"{lines}\n" if lines else ""


def title(call: Call) -> str:
    """Name a call by its tool and what it is about."""
    return f"{line(call.tool)} {code(call.subject)}" if call.subject else line(call.tool)


def _diff(diff: FileDiff) -> Iterator[str]:
    note = f" ({line(diff.note)})" if diff.note else ""
    yield f"{diff.change.capitalize()} {code(diff.path)}{note}\n\n"
    if diff.lines:
        rest = [f"... {plural(diff.left_out, 'line')} left out ..."] if diff.left_out else []
        yield fenced(plain("\n".join([*diff.lines, *rest])), "diff") + "\n"


def _cut_prose(cut: Cut) -> str:
    return prose(cut.text) + (f"\n\n*{_left_out(cut)}*\n\n{prose(cut.tail)}" if cut.left_out else "")


def _cut_fence(cut: Cut) -> str:
    text = f"{cut.text}\n{_left_out(cut)}\n{cut.tail}" if cut.left_out else cut.text
    return fenced(plain(text))


def _left_out(cut: Cut) -> str:
    return f"... {number(cut.left_out)} characters are left out here ..."
