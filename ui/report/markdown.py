"""The report as Markdown, for issues, pull requests and text search."""

import re
from collections.abc import Iterator

from ...actions.workspace.paths import format_count
from ...agent.history.reports import run_report
from ..terminal.text.sanitize import fence_text, one_line, plain
from . import words

_TICKS = re.compile(r"`+")
_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<language>\w*+)[^\n]*\n"
    r"(?P<text>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"`{3,}|~{3,}")
_HEADING = re.compile(r"^ {0,3}#{1,6} +([^\n]+)$", re.MULTILINE)
_RULE = re.compile(r"^ {0,3}(?=(?:-[ \t]*){3,}$|=+[ \t]*$)", re.MULTILINE)


def code(text: str) -> str:
    """Return text as inline code."""
    text_line = one_line(text)
    if not text_line.strip():
        return "``"
    longest = max((len(run[0]) for run in _TICKS.finditer(text_line)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if text_line.startswith("`") or text_line.endswith("`") or longest else ""
    return f"{fence}{edge}{text_line}{edge}{fence}"


def line(text: str) -> str:
    """Return text on one line that means nothing but itself."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", one_line(text))


def prose(text: str) -> str:
    """Return Markdown of a person or a model without HTML, pictures and headings.

    Its code blocks get new fences, so that all readers agree on their ends.
    """
    text = plain(text).strip("\n")
    parts: list[str] = []
    end = 0
    for found in _FENCED.finditer(text):
        parts += [
            _escape_markup(text[end : found.start()]),
            "\n\n",
            fence_text(found["text"].rstrip(), found["language"]),
            "\n\n",
        ]
        end = found.end()
    parts.append(_escape_markup(text[end:]))
    return "".join(parts).strip("\n")


def _escape_markup(text: str) -> str:
    """Write out what would begin something: entities mean themselves behind every backslash, too."""
    text = text.replace("<", "&lt;").replace("![", "!&#91;")
    text = _FENCE.sub(lambda run: f"&#{ord(run[0][0])};" * len(run[0]), text)
    text = _RULE.sub("\\\\", text)
    return _HEADING.sub(lambda heading: f"**{heading[1].strip(' #*')}**", text)


def event(happened: run_report.Happened, waiting: frozenset[str]) -> Iterator[str]:
    """Yield what happened at one point of the run."""
    what, at = happened.what, words.clock(happened.at)
    match what:
        case run_report.Utterance():
            yield from _render_utterance(what, happened)
        case run_report.CallAccount():
            yield from _call(what, waiting)
        case run_report.ModelUsed():
            yield from (f"*{line(notice)}*\n\n" for notice in what.call.notices)
            yield f"*{line(words.model_call(what))}*\n\n"
        case run_report.Decided():
            for call, one in what.verdicts:
                yield f"**{at} {line(words.verdict(one))}**: call {call.number}, {title(call)}\n\n"
        case run_report.PlanMade() | run_report.PlanStepBegan() | run_report.PlanStepEnded():
            yield _render_plan_event(what, at)
        case _:
            yield _render_mark(what, at, words.date_and_time(happened.at))


def _render_plan_event(
    what: run_report.PlanMade | run_report.PlanStepBegan | run_report.PlanStepEnded, at: str
) -> str:
    if isinstance(what, run_report.PlanMade):
        steps = "".join(f"{line(step_id)}. {line(text)}\n" for step_id, text in what.steps)
        return f"{'**The plan was revised**' if what.is_revision else '**Plan**'}\n\n{steps}\n"
    if isinstance(what, run_report.PlanStepBegan):
        return f"### Step {line(what.step_id)}: {line(what.description)}\n\n"
    return f"**Step {line(what.step_id)} {line(what.status)}** ({at}): {prose(what.summary)}\n\n"


def _render_mark(
    what: run_report.Compressed | run_report.RunBoundary | run_report.Forked | run_report.Lost,
    at: str,
    date: str,
) -> str:
    if isinstance(what, run_report.Compressed):
        return f"**Older messages were replaced by a summary:**\n\n{_quote(_cut_prose(what.summary))}\n\n"
    if isinstance(what, run_report.RunBoundary):
        return f"---\n*{at if what.is_end else date} {line(words.boundary(what))}*\n\n"
    if isinstance(what, run_report.Forked):
        return f"---\n*From here on: session {what.session_id}, forked from {what.parent_id}*\n\n"
    return f"**{line(what.what)}**\n\n"


def _render_utterance(what: run_report.Utterance, happened: run_report.Happened) -> Iterator[str]:
    text = _cut_prose(what.text)
    if what.by in ("person", "command"):
        yield f"### You ({words.clock(happened.at)}, step {happened.seq})\n\n{text}\n\n"
    elif what.by == "answer" and words.is_data(what.text):
        yield f"{_cut_fence(what.text)}\n"
    elif what.by in ("model", "answer"):
        yield f"{text}\n\n"
    else:
        name = "Thinking" if what.by == "thinking" else "Sandbur informed the model"
        yield f"*{name}:*\n\n{_quote(text)}\n\n"


def _quote(text: str) -> str:
    return "\n".join(f"> {part}".rstrip() for part in text.split("\n"))


def _call(call: run_report.CallAccount, waiting: frozenset[str]) -> Iterator[str]:
    took = f", {words.duration(call.duration_ms)}" if call.duration_ms is not None else ""
    again = f", started {len(call.started)} times" if len(call.started) > 1 else ""
    yield f"**{call.number}. {title(call)}** ({words.call_state(call, waiting)}{took}{again})\n\n"
    for name, value in words.list_arguments(call):
        yield f"{name or 'Arguments'}:\n\n{_cut_fence(value)}\n"
    yield _verdicts(call)
    for diff in call.diffs:
        yield from _diff(diff)
    if call.content.text.strip():
        whole = f" (a part of {words.number(call.output_bytes)} bytes)" if call.output_bytes else ""
        yield f"Output{whole}:\n\n{_cut_fence(call.content)}\n"


def _verdicts(call: run_report.CallAccount) -> str:
    lines = ""
    for one in words.telling_verdicts(call):
        lines += f"- {words.clock(one.at)} {line(words.verdict(one))}{line(words.reason(one))}\n"
    return f"{lines}\n" if lines else ""


def title(call: run_report.CallAccount) -> str:
    """Return the title of a call: its tool and subject."""
    return f"{line(call.tool)} {code(call.subject)}" if call.subject else line(call.tool)


def _diff(diff: run_report.FileDiff) -> Iterator[str]:
    note = f" ({line(diff.note)})" if diff.note else ""
    yield f"{diff.change.capitalize()} {code(diff.path)}{note}\n\n"
    if diff.lines:
        rest = [f"... {format_count(diff.left_out, 'line')} left out ..."] if diff.left_out else []
        yield fence_text(plain("\n".join([*diff.lines, *rest])).rstrip(), "diff") + "\n\n"


def _cut_prose(cut: run_report.CutText) -> str:
    return prose(cut.text) + (f"\n\n*{words.describe_cut(cut)}*\n\n{prose(cut.tail)}" if cut.left_out else "")


def _cut_fence(cut: run_report.CutText) -> str:
    text = f"{cut.text}\n{words.describe_cut(cut)}\n{cut.tail}" if cut.left_out else cut.text
    return fence_text(plain(text).rstrip()) + "\n"


_PLAN_SIGNS = {"completed": "x", "failed": "!"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST_BARS = 80


def markdown(account: run_report.Account) -> Iterator[str]:
    """Yield the report piece by piece."""
    facts = run_report.facts_of(account)
    yield from _top(account, facts)
    yield from _timeline(account)
    yield "## What happened\n\n"
    waiting = account.standing.waiting
    for happened in account.happened:
        yield from event(happened, waiting)
    yield from _approvals(facts, waiting)
    yield from _files(facts)
    yield from _record(account)


def _top(account: run_report.Account, facts: run_report.Facts) -> Iterator[str]:
    summary, standing = account.summary, account.standing
    yield f"# {line(summary.title) or 'A session without a message'}\n\n"
    yield f"{line(words.status_word(summary.status))} · session {code(summary.id)} · {code(summary.model)}"
    yield f" · mode {line(standing.mode or account.settings.mode)} · folder {code(summary.cwd)}"
    yield f" · sandbox {account.settings.sandbox}\n" if account.settings.sandbox != "off" else "\n"
    yield f"{words.date_and_time(summary.created_at)} to {words.date_and_time(summary.updated_at)} UTC\n"
    if summary.parent_id:
        yield f"fork of {code(summary.parent_id)} at step {summary.parent_seq}\n"
    yield "\n| | | |\n|---|---|---|\n"
    for name, value, remark in words.headline(facts, standing.usage):
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
            yield f"- {words.clock(at)} {_trouble(what)}\n"
        yield "\n"


def _trouble(
    what: run_report.CallAccount | run_report.RunBoundary | run_report.ModelUsed | run_report.Lost,
) -> str:
    match what:
        case run_report.CallAccount():
            return f"call {what.number}, {title(what)}: {words.call_state(what, frozenset())}"
        case run_report.RunBoundary():
            return line(words.boundary(what))
        case run_report.ModelUsed():
            return " ".join([*map(line, what.call.notices), line(words.model_call(what))])
        case run_report.Lost():
            return line(what.what)


def _timeline(account: run_report.Account) -> Iterator[str]:
    """Draw time and tokens in one line each; a bar stands for as many steps as necessary."""
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
        f"time   {_bars(times)}  at most {words.duration(max(times))} in a bar",
        f"tokens {_bars(tokens)}  at most {words.number(int(max(tokens)))}",
    ]
    if any(costs):
        rows.append(f"cost   {_bars(costs)}  at most {words.cost(max(costs))}")
    yield f"## Timeline\n\nEach bar is {unit}, from step {steps[0].seq} to {steps[-1].seq}.\n\n"
    yield fence_text("\n".join(rows).rstrip()) + "\n\n"


def _bars(values: list[float]) -> str:
    most = max(values) or 1.0
    return "".join(_BARS[-(-int(value * 800 / most) // 100)] for value in values)


def _approvals(facts: run_report.Facts, waiting: frozenset[str]) -> Iterator[str]:
    if not facts.decided:
        return
    yield "## Approvals\n\n| Call | What | Decisions | Outcome |\n|---|---|---|---|\n"
    for call in facts.decided:
        verdicts = "; ".join(
            f"{words.date_and_time(one.at)} {line(words.verdict(one))}" for one in call.verdicts
        )
        exactly = f"{code(call.subject)} sha256 {code(call.arguments_sha256[:16])}"
        yield f"| {call.number}. {_cell(line(call.tool))} | {_cell(exactly)} | {_cell(verdicts)} |"
        yield f" {words.call_state(call, waiting)} |\n"
    yield "\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _files(facts: run_report.Facts) -> Iterator[str]:
    if facts.files:
        yield "## Files\n\n"
        for path, calls in sorted(facts.files.items()):
            numbers = ", ".join(str(call.number) for call in calls)
            yield f"- {code(path)}: changed by call {numbers}\n"
        yield "\n"


def _record(account: run_report.Account) -> Iterator[str]:
    audit = account.audit
    yield "## Record\n\n"
    for breach in audit.breaches:
        yield f"- record {breach.record} {breach.table} {line(breach.place)}: {line(breach.problem)}\n"
    if not audit.breaches:
        records = format_count(sum(session.records for session in audit.sessions), "record")
        yield f"Verified: {records}; the chain ends in {code(audit.sessions[-1].chain)}.\n"
