"""Tool calls as text: one line while they run, and in full before an approval."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...actions.ports.events import FlowMatched, PendingDecision, RunFinished, ToolFinished, ToolsChanged
from ...actions.tools.registry import traits_of
from ...actions.turn.bugs_logged import BugsLogged
from ...actions.workspace.paths import format_count
from ...state.application import StepStatus, Usage, VibeStep
from ...state.calls import PendingCall
from ...state.conversation.messages import parse_json_object
from .terminal import Glyphs
from .text.diffs import CONTEXT, Line, LineColors, cut, diff_text, number_diff, prepend
from .text.plan_table import lay_out_plan
from .text.sanitize import expose, lookalikes, one_line, plain
from .text.times import ago, format_seconds, local_time
from .text.wrap import hanging, wrap

if TYPE_CHECKING:
    from ...agent.history.timeline import TimelineStep

_SUBJECTS = (
    "command", "path", "pattern", "url", "query", "goal", "plan", "description", "branch", "status", "code",
    "trial",
)  # fmt: skip
_MAX_TITLE = 120
_MAX_COMPARED_BYTES = 1 << 20


def title(tool: str, arguments: str) -> str:
    """Return the tool and its subject on one line, which may be truncated."""
    values = parse_json_object(arguments) or {}
    text = _about(tool, arguments, values).strip()
    first, _, more = text.partition("\n")
    cut = " ..." if more or len(first) > _MAX_TITLE else ""
    return f"{tool_word(tool)} {one_line(first[:_MAX_TITLE])}{cut}".strip()


def tool_word(tool: str) -> str:
    """Return a tool's word for people; its name if it declares none."""
    return traits_of(tool).word or one_line(tool[:80])


def _about(tool: str, arguments: str, values: dict[str, Any]) -> str:
    traits = traits_of(tool)
    values_of_call = [values.get(name) for name in traits.summary_arguments or (traits.subject,)]
    if words := [
        str(value) for value in values_of_call if isinstance(value, str | int) and value not in ("", False)
    ]:
        return "  ".join(words)
    subject = next((values[name] for name in _SUBJECTS if isinstance(values.get(name), str)), None)
    return subject if subject is not None else _compact(arguments, values)


def preview(tool: str, arguments: str, cwd: str) -> list[Line]:
    """Return the subject of an approval in full: a command or a diff if the tool declares one, otherwise its
    arguments."""
    lines: list[Line] | None = None
    with BugsLogged(f"the line of a call of {tool}"):
        lines = list(_body(tool, arguments, parse_json_object(arguments) or {}, Path(cwd)))
    if lines is None:
        lines = list(_mark_lines("", arguments, "plain"))
    return _warn_of_lookalikes(lines)


def preview_plan(tool: str, arguments: str, cwd: str, room: int, bar: str) -> list[Line]:
    """Return a proposed plan in `room` columns, with what it may do beside the steps."""
    texts = list((parse_json_object(arguments) or {}).values())
    if len(texts) != 1 or not isinstance(text := texts[0], str):
        return preview(tool, arguments, cwd)
    return _warn_of_lookalikes(list(lay_out_plan(text, room, bar)))


def _warn_of_lookalikes(lines: list[Line]) -> list[Line]:
    """Add a line about letters of other scripts that look like Latin ones."""
    if words := lookalikes("\n".join(text for _, text in lines)):
        lines.append(("caution", f"Careful, letters of other scripts: {', '.join(words[:5])}"))
    return lines


def question_lines(call: PendingCall | PendingDecision, cwd: str) -> list[Line]:
    """Return a call that waits for approval in full: its arguments, then what a revised plan or the call
    changes."""
    return [*preview(call.tool, call.arguments, cwd), *change_lines(call.plan_changes or call.changes)]


def change_lines(changes: str) -> Iterator[Line]:
    """Yield a difference of files, or of a proposed plan and the approved one; a wider permission stands
    out."""
    for line in expose(changes).split("\n") if changes else ():
        yield _CHANGE_STYLES.get(line.strip()[:1], "heading"), line


_CHANGE_STYLES = {"!": "caution", "+": "added", "-": "removed", "~": "plain"}


def whole(call: PendingCall | PendingDecision, cwd: str) -> Iterator[str]:
    """Yield a waiting call as plain lines, in full: a decision may depend on them alone."""
    yield f"{one_line(call.call_id)}  {one_line(call.tool)}"
    for _, text in question_lines(call, cwd):
        yield f"    {text}"


def _compact(arguments: str, values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) if values else arguments


def _body(tool: str, arguments: str, values: dict[str, Any], cwd: Path) -> Iterator[Line]:
    traits = traits_of(tool)
    subject, whole = values.get(traits.subject), values.get(traits.content)
    old, new = (values.get(name) for name in traits.replaces or ("", ""))
    displayed: set[str] = set()
    if not isinstance(subject, str):
        pass
    elif traits.runs_commands:
        displayed = {traits.subject}
        yield from _mark_lines("$ ", subject, "heading")
    elif traits.content and isinstance(whole, str):
        displayed = {traits.subject, traits.content}
        before = _content_of(cwd / subject)
        yield "heading", expose(subject) if before is not None else f"{expose(subject)} (a new file)"
        yield from diff_text(before or "", whole, 1, _color_change(subject, before or "", whole))
    elif traits.replaces and isinstance(old, str) and isinstance(new, str):
        displayed = {traits.subject, *traits.replaces}
        yield "heading", expose(subject)
        is_everywhere = values.get(traits.replaces_everywhere) is True
        yield from _diff_replacement(subject, _content_of(cwd / subject) or "", old, new, is_everywhere)
    if values:
        yield from _rest(values, displayed)
    else:
        yield from _mark_lines("", arguments, "plain")


def _mark_lines(mark: str, text: str, style: str) -> Iterator[Line]:
    """Yield the lines of a text with a mark in front; `$ `, the mark of a command, only at the first line."""
    for number, line in enumerate(expose(text).split("\n")):
        yield style, (mark if mark != "$ " or number == 0 else "  ") + line


def _rest(values: dict[str, Any], displayed: set[str]) -> Iterator[Line]:
    for name, value in values.items():
        if name not in displayed:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for number, line in enumerate(expose(text).split("\n")):
                yield "plain", f"{expose(name)}: {line}" if number == 0 else f"  {line}"


def _content_of(file: Path) -> str | None:
    """Return the content of a file; None if there is no file, no text if it is too large or unreadable."""
    try:
        if not file.is_file():
            return None
        return file.read_text("utf-8", errors="replace") if file.stat().st_size <= _MAX_COMPARED_BYTES else ""
    except OSError:
        return ""


def _diff_replacement(path: str, content: str, old: str, new: str, is_everywhere: bool) -> list[Line]:
    """Return the difference that a replacement makes in a file, with the lines around it."""
    at = content.find(old)
    if at < 0 or not old:
        return diff_text(f"{old}\n", f"{new}\n", 1, _color_change(path, old, new))
    last = content.rfind(old) if is_everywhere else at
    start = _move_lines(content, content.rfind("\n", 0, at) + 1, -CONTEXT)
    end = _move_lines(content, last + len(old), CONTEXT + 1)
    before = content[start:end]
    after = (
        before.replace(old, new) if is_everywhere else content[start:at] + new + content[at + len(old) : end]
    )
    first = content.count("\n", 0, start) + 1
    return diff_text(before, after, first, _color_change(path, before, after, first))


def _color_change(path: str, before: str, after: str, first: int = 1) -> LineColors:
    from .text.code_colors import color_change

    return color_change(path, before, after, first)


def _move_lines(text: str, place: int, by: int) -> int:
    """Return the start of the line that is `by` lines below the line of `place`, or above it."""
    for _ in range(abs(by)):
        if by < 0:
            place = text.rfind("\n", 0, max(0, place - 1)) + 1
        elif (end := text.find("\n", place)) >= 0:
            place = end + 1
        else:
            return len(text)
    return place


_MAX_LINES = 4
_MAX_DIFF_LINES = 40
_MAX_LINE = 200
_EXIT = re.compile(r"(?:^|\n)exit code: (\w+)[^\n]*$")
_DIFF = re.compile(r"^@@ .* @@", re.MULTILINE)


def finish_line(event: ToolFinished, title: str, glyphs: Glyphs) -> Line:
    """Return the line of a finished call: sign, title, outcome, duration; a nested one is indented."""
    sign, style = {
        "ok": (glyphs.done, "good"),
        "denied": (glyphs.denied, "careful"),
        "interrupted": (glyphs.denied, "careful"),
        "unknown": (glyphs.denied, "careful"),
    }.get(event.outcome, (glyphs.failed, "wrong"))
    facts = [] if event.outcome == "ok" else [event.outcome]
    if found := _EXIT.search(event.content[-200:]):
        facts.append(f"exit {found[1]}")
    facts.append(format_seconds(event.duration_ms / 1000))
    indent = "  " if event.parent_call_id else ""
    return style, f"{indent}{sign} {title}  {f' {glyphs.dot} '.join(facts)}"


def result_lines(
    event: ToolFinished, glyphs: Glyphs, verbose: bool, width: int = _MAX_LINE, key: str = ""
) -> Iterator[Line]:
    """Yield the last lines of a result, or the first lines of a diff in colours, cut to `width` columns.

    `key` names the key that shows the rest. With `verbose`, all lines are yielded in full.
    """
    content = result_text(event)
    if is_difference(event):
        lines, most = list(number_diff(content)), _MAX_DIFF_LINES
    elif content and event.outcome == "unknown" and not verbose:
        # The text is the program's own explanation, so it is wrapped instead of cut.
        texts = (row for line in content.split("\n") for row in wrap(line, width - 5))
        lines, most = [("quiet", text) for text in texts], _MAX_DIFF_LINES
    elif content and (verbose or not (is_quiet(event) or event.parent_call_id)):
        lines, most = [("quiet", line.expandtabs(4)) for line in content.split("\n")], _MAX_LINES
    else:
        return
    head = f"{'  ' if event.parent_call_id else ''}  {glyphs.bar} "
    if verbose:
        yield from ((role, prepend(head, text)) for role, text in lines)
        return
    hidden = max(0, len(lines) - most)
    gap: list[Line] = [("quiet", f"{head}{_count_hidden(hidden, key)}")] if hidden else []
    # The end of an output is most important, of a diff the beginning.
    is_cut_above = most == _MAX_LINES
    visible = lines[hidden:] if is_cut_above else lines[: len(lines) - hidden]
    rows = [(role, prepend(head, cut(text, width - len(head), glyphs.rest))) for role, text in visible]
    yield from (*gap, *rows) if is_cut_above else (*rows, *gap)


def _count_hidden(count: int, key: str) -> str:
    counted = f"+ {format_count(count, 'line')}"
    return f"{counted}, {key}" if key else counted


def result_text(event: ToolFinished) -> str:
    """Return a result without the parts that the call's own line contains."""
    return _EXIT.sub("", plain(event.content).rstrip("\n"))


def is_difference(event: ToolFinished) -> bool:
    return event.outcome == "ok" and bool(_DIFF.search(event.content))


def is_quiet(event: ToolFinished) -> bool:
    """Return whether the result of a call is not displayed."""
    return event.outcome == "ok" and traits_of(event.tool).is_quiet


def is_folded(event: ToolFinished, width: int = _MAX_LINE) -> bool:
    """Return whether `result_lines` leaves something out."""
    lines = result_text(event).split("\n")
    most = _MAX_DIFF_LINES if is_difference(event) else _MAX_LINES
    return (
        is_quiet(event)
        or bool(event.parent_call_id)
        or len(lines) > most
        or any(len(line) + 4 > width for line in lines)
    )


_MOST_TOOLS = 8


def tools_line(event: ToolsChanged) -> str:
    """Return a line about added and removed tools, because such a change makes the next request cost more."""
    changes = (("Tools added", event.added), ("Tools removed", event.removed))
    text = "; ".join(f"{verb}: {_first_of(names)}" for verb, names in changes if names)
    groups = f" (group {', '.join(event.groups)})" if event.groups else ""
    return f"{text}{groups}. The model reads its whole input again."


def flow_line(event: FlowMatched) -> str:
    """Return the line about the flow, the skill or the agent that got a message."""
    what = {"skill": "Skill", "skill_agent": "Skill", "hand_off": "Agent"}.get(event.does, "Flow")
    return f"{what} {event.flow}: {event.why}."


def _first_of(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_TOOLS
    return ", ".join(names[:_MOST_TOOLS]) + (f" and {more:,} more" if more > 0 else "")


def plan_lines(steps: Iterable[VibeStep], glyphs: Glyphs) -> Iterator[Line]:
    yield "heading", "Plan"
    for step in steps:
        sign, style = step_sign(step.status, glyphs)
        yield style, f"  {sign} {one_line(step.step_id)}. {one_line(step.description)}"


def step_sign(status: StepStatus, glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign of a step's status and its colour."""
    return {
        "pending": (glyphs.todo, "plain"),
        "in_progress": (glyphs.doing, "busy"),
        "completed": (glyphs.done, "good"),
        "failed": (glyphs.failed, "wrong"),
        "skipped": (glyphs.denied, "quiet"),
        "abandoned": (glyphs.rest, "quiet"),
    }[status]


def usage_text(usage: Usage, glyphs: Glyphs) -> str:
    """Return calls, tokens and cost on one line; unknown values are marked."""
    parts = [
        format_count(usage.llm_calls, "model call"),
        f"{_tokens(usage.input_tokens)} in",
        f"{_tokens(usage.output_tokens)} out",
        "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
    ]
    return f" {glyphs.dot} ".join(parts)


def end_lines(finished: RunFinished) -> Iterator[Line]:
    """Yield the explanation of a run's end, if it needs one."""
    if finished.error is not None:
        yield "wrong", f"Error: {plain(finished.error.message)}"
        if finished.hint:
            yield "plain", plain(finished.hint)
    elif finished.status == "goal_not_reached" and any(one.status == "abandoned" for one in finished.steps):
        yield "careful", "The plan was abandoned."
    elif finished.status in _ENDS:
        yield "careful", _ENDS[finished.status]


_ENDS = {
    "denied": "Stopped: the last calls were denied.",
    "goal_not_reached": "The plan ended with a failed step that was not made good.",
    "interrupted": "Interrupted.",
}


def _tokens(count: int | None) -> str:
    if count is None:
        return "? tokens"
    return f"{count} tokens" if count < 10_000 else f"{count / 1000:.0f}k tokens"


MOST_NESTED = 20
"""The most calls below one call or one step that are displayed; further calls are only counted."""
SIGNS = {"message": "you: ", "command": "you: ", "reply": "agent: "}


def step_lines(steps: Iterable[TimelineStep], session_id: str, cells: int | None = None) -> Iterator[str]:
    """Yield a line for each step; `sandbur fork ID --at` takes the number in front."""
    owner = session_id
    for step in steps:
        if step.session_id != owner:
            whose = "its own steps" if step.session_id == session_id else "steps it was forked from"
            yield f"({whose}: {step.session_id})"
            owner = step.session_id
        yield step_line(step, cells)


def step_line(step: TimelineStep, cells: int | None = None) -> str:
    """Return a step as one line, or as rows of `cells` columns. The calls that tools made follow in lines
    below it.
    """
    head = f"{step.seq:>5}  {local_time(step.at)}  {one_line(step.action):<20} "
    texts = [(head, f"{SIGNS.get(step.kind, '')}{one_line(step.text)}")]
    texts += [(" " * (len(head) + 2), text) for text in nested_lines(step)]
    if cells is None:
        return "\n".join(f"{before}{text}".rstrip() for before, text in texts)
    return "\n".join(row for before, text in texts for row in hanging(before, text, cells))


def nested_lines(step: TimelineStep) -> Iterator[str]:
    """Yield a line for each call that tools made in a step; of many calls only for the first ones."""
    yield from (one_line(text) for text in step.calls[:MOST_NESTED])
    if (more := len(step.calls) - MOST_NESTED) > 0:
        yield f"and {more} more"


def step_objects(steps: Iterable[TimelineStep]) -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


_MAX_WAITING_LINES = 20
_MEANINGS = {
    "done": "it took effect",
    "failed": "it did not take effect, or only a part of it did",
    "rerun": "run it once more",
    "check": "let the model find out",
}


def waiting_lines(call: PendingCall, session_id: str | None, cwd: str) -> Iterator[str]:
    """Yield a call that waits for a decision as plain lines.

    If its outcome is unknown, the commands that settle it follow, unless `session_id` is None: then no other
    process can settle it.
    """
    if call.kind == "approval":
        first, *more = whole(call, cwd)
        yield f"Waiting: {first}"
        yield from more
        if call.reason:
            yield f"    asks: {one_line(call.reason)}"
        return
    yield f"Outcome unknown: {one_line(call.call_id)}  {one_line(call.tool)}"
    for _, text in format_unknown(call, cwd):
        yield f"    {text}"
    if session_id is None:
        return
    yield "Record its outcome:"
    for line in settle_lines(session_id, call.call_id):
        yield f"    {line}"


def format_unknown(call: PendingCall, cwd: str, is_whole: bool = False) -> Iterator[Line]:
    """Yield everything that helps to settle a call: arguments, folder, start, and the end of its output.

    With `is_whole`, yield all of the output.
    """
    yield from preview(call.tool, call.arguments, cwd)
    yield "plain", f"folder:  {one_line(cwd)}"
    known = call.recovery
    yield "plain", f"started: {local_time(known.started_at)} ({ago(known.started_at)})"
    if known.note:
        yield "plain", f"known:   {one_line(known.note)}"
    lines = expose(known.output).rstrip("\n").split("\n") if known.output.strip() else []
    hidden = 0 if is_whole else max(0, len(lines) - _MAX_WAITING_LINES)
    yield "plain", "output so far:" if lines else "output so far: none"
    if hidden:
        yield "quiet", f"  ({format_count(hidden, 'line')} more above)"
    for line in lines[hidden:]:
        yield "quiet", f"  {line}"


def settle_lines(session_id: str, call_id: str) -> Iterator[str]:
    """Yield the commands that record the outcome of a call, or run the call again."""
    for outcome, meaning in _MEANINGS.items():
        yield f"sandbur settle {session_id} {shlex.quote(one_line(call_id))} --as {outcome:<6}  # {meaning}"
