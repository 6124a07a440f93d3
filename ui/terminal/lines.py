"""Tool calls in words: one line while they run, everything exactly as it will run before an approval."""

import difflib
import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .sanitize import exposed, lookalikes, one_line, plain
from .terminal import Glyphs, shortened

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ...actions.events import PendingDecision, RunFinished, ToolFinished, ToolsChanged
    from ...state.application import StepStatus, Usage, VibeStep
    from ...state.calls import PendingCall
    from ...state.store.timeline import TimelineStep

_SUBJECTS = ("command", "path", "pattern", "url", "query", "goal", "status")
_MAX_TITLE = 120
_MAX_COMPARED_BYTES = 1 << 20

Line = tuple[str, str]
"""A rich style and a text without line ends."""


def title(tool: str, arguments: str) -> str:
    """Return the tool and what it is about, on one line that may be cut."""
    from ...state.messages import json_object

    values = json_object(arguments) or {}
    subject = next((values[name] for name in _SUBJECTS if isinstance(values.get(name), str)), None)
    text = (subject if subject is not None else _compact(arguments, values)).strip()
    first, _, more = text.partition("\n")
    cut = " ..." if more or len(first) > _MAX_TITLE else ""
    return f"{one_line(tool[:80])} {one_line(first[:_MAX_TITLE])}{cut}".strip()


def preview(arguments: str, cwd: str) -> list[Line]:
    """Return what an approval is about: command, difference or arguments, nothing left out."""
    from ...state.messages import json_object

    values = json_object(arguments) or {}
    lines = list(_body(arguments, values, Path(cwd)))
    if words := lookalikes("\n".join(text for _, text in lines)):
        lines.append(("bold yellow", f"Careful, letters of other scripts: {', '.join(words[:5])}"))
    return lines


def whole(call: "PendingCall | PendingDecision", cwd: str) -> Iterator[str]:
    """Yield a waiting call as plain lines, nothing left out: a decision may rest on them alone."""
    yield f"{one_line(call.call_id)}  {one_line(call.tool)}"
    for _, text in preview(call.arguments, cwd):
        yield f"    {text}"


def coloured_diff(text: str) -> Iterator[Line]:
    """Yield the lines of a unified diff with their colours."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.split("\n"):
        yield styles.get(line[:1], "") if not line.startswith(("+++", "---")) else "bold", exposed(line)


def _compact(arguments: str, values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) if values else arguments


def _body(arguments: str, values: dict[str, Any], cwd: Path) -> Iterator[Line]:
    command, path = values.get("command"), values.get("path")
    if isinstance(command, str):
        yield from _marked("$ ", command, "bold")
        yield from _rest(values, {"command"})
    elif isinstance(path, str) and isinstance(values.get("content"), str):
        yield "bold", exposed(path)
        yield from coloured_diff(_written(cwd / path, path, values["content"]))
        yield from _rest(values, {"path", "content"})
    elif isinstance(path, str) and isinstance(values.get("old"), str) and isinstance(values.get("new"), str):
        yield "bold", exposed(path)
        yield from _marked("- ", values["old"], "red")
        yield from _marked("+ ", values["new"], "green")
        yield from _rest(values, {"path", "old", "new"})
    elif values:
        yield from _rest(values, set())
    else:
        yield from _marked("", arguments, "")


def _marked(mark: str, text: str, style: str) -> Iterator[Line]:
    """Yield the lines of a text, the first one (of a command) or each one (of a diff) marked."""
    for number, line in enumerate(exposed(text).split("\n")):
        yield style, (mark if mark != "$ " or number == 0 else "  ") + line


def _rest(values: dict[str, Any], shown: set[str]) -> Iterator[Line]:
    for name, value in values.items():
        if name not in shown:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for number, line in enumerate(exposed(text).split("\n")):
                yield "", f"{exposed(name)}: {line}" if number == 0 else f"  {line}"


def _written(file: Path, path: str, content: str) -> str:
    """Return the difference that writing `content` makes."""
    before = ""
    try:
        if file.is_file() and file.stat().st_size <= _MAX_COMPARED_BYTES:
            before = file.read_text("utf-8", errors="replace")
    except OSError:
        before = ""
    lines = difflib.unified_diff(before.split("\n"), content.split("\n"), path, path, lineterm="")
    return "\n".join(lines) or "(no difference)"


_TAIL_LINES = 3
_TAIL_CHARS = 2000


@dataclass(slots=True)
class RunningCall:
    title: str
    began: float
    output: str = ""
    """The end of what it printed so far."""

    def add(self, chunk: str) -> None:
        self.output = (self.output + chunk)[-_TAIL_CHARS:]


@dataclass(slots=True)
class Status:
    """The running calls, the step they belong to, and since when the model is silent."""

    glyphs: Glyphs
    calls: dict[str, RunningCall] = field(default_factory=dict[str, RunningCall])
    step: str = ""
    waiting_since: float = field(default_factory=time.monotonic)

    def lines(self, now: float) -> "list[StatusRow]":
        frames = self.glyphs.spinner
        frame = frames[int(now * 2) % len(frames)]
        shown: list[StatusRow] = []
        for call in self.calls.values():
            took = elapsed(max(0, now - call.began))
            shown.append(self._line(f"{frame} {call.title}", f" {took}", "cyan"))
            tail = [line for line in plain(call.output).split("\n") if line.strip()][-_TAIL_LINES:]
            shown += [self._line(f"  {self.glyphs.bar} {line}", "", "dim") for line in tail]
        if not shown:
            waited = int(max(0, now - self.waiting_since))
            shown.append(self._line(f"{frame} working", f" {_whole_seconds(waited)}", "dim"))
        if self.step:
            shown.append(self._line(one_line(self.step), "", "dim"))
        return shown

    def _line(self, text: str, end: str, style: str) -> "StatusRow":
        return StatusRow(text, end, style, self.glyphs.rest)


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A text that is cut to the width of the console, and the end that never is."""

    text: str
    end: str
    style: str
    rest: str

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        room = max(0, options.max_width - len(self.end))
        text = shortened(self.text, room, self.rest)
        yield Text.assemble((text, self.style), (self.end, "dim"), no_wrap=True)


def elapsed(seconds: float) -> str:
    """Return a duration as a person writes it."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    return _whole_seconds(int(seconds))


def _whole_seconds(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


_SHOWN_LINES = 4
_SHOWN_DIFF_LINES = 40
_MAX_LINE = 200
_EXIT = re.compile(r"(?:^|\n)exit code: (\w+)[^\n]*$")
_DIFF = re.compile(r"^@@ .* @@", re.MULTILINE)


def finish_line(event: "ToolFinished", title: str, glyphs: Glyphs) -> Line:
    """Return the one line a finished call leaves: sign, call, outcome, duration."""
    sign, style = {
        "ok": (glyphs.done, "green"),
        "denied": (glyphs.denied, "yellow"),
        "interrupted": (glyphs.denied, "yellow"),
        "unknown": (glyphs.denied, "yellow"),
    }.get(event.outcome, (glyphs.failed, "red"))
    facts = [] if event.outcome == "ok" else [event.outcome]
    if found := _EXIT.search(event.content[-200:]):
        facts.append(f"exit {found[1]}")
    facts.append(elapsed(event.duration_ms / 1000))
    return style, f"{sign} {title}  {f' {glyphs.dot} '.join(facts)}"


def result_lines(event: "ToolFinished", glyphs: Glyphs, verbose: bool) -> Iterator[Line]:
    """Yield a taste of what a call gave back; a difference in colours."""
    from ...actions.tools.registry import traits_of

    content = _EXIT.sub("", plain(event.content).rstrip("\n"))
    if _DIFF.search(content) and event.outcome == "ok":
        yield from _indented(list(coloured_diff(content)), glyphs, None if verbose else _SHOWN_DIFF_LINES)
    elif content and (verbose or event.outcome != "ok" or not traits_of(event.tool).is_quiet):
        lines = [("dim", line) for line in content.split("\n")]
        yield from _indented(lines, glyphs, None if verbose else _SHOWN_LINES)


_MOST_TOOLS = 8


def tools_line(event: "ToolsChanged") -> str:
    """Say which tools came and went; that it costs is why a person is told."""
    changes = (("Tools added", event.added), ("Tools removed", event.removed))
    said = "; ".join(f"{verb}: {_first_of(names)}" for verb, names in changes if names)
    groups = f" (group {', '.join(event.groups)})" if event.groups else ""
    return f"{said}{groups}. The model reads its whole input anew."


def _first_of(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_TOOLS
    return ", ".join(names[:_MOST_TOOLS]) + (f" and {more:,} more" if more > 0 else "")


def plan_lines(steps: "Iterable[VibeStep]", glyphs: Glyphs) -> Iterator[Line]:
    yield "bold", "Plan"
    for step in steps:
        sign, style = step_sign(step.status, glyphs)
        yield style, f"  {sign} {one_line(step.step_id)}. {one_line(step.description)}"


def step_sign(status: "StepStatus", glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign of a step's status and its colour."""
    return {
        "pending": (glyphs.todo, ""),
        "in_progress": (glyphs.doing, "cyan"),
        "completed": (glyphs.done, "green"),
        "failed": (glyphs.failed, "red"),
    }[status]


def usage_text(usage: "Usage", glyphs: Glyphs) -> str:
    """Return calls, tokens and cost on one line; what is unknown is called so."""
    parts = [
        f"{usage.llm_calls} model call{'' if usage.llm_calls == 1 else 's'}",
        f"{_tokens(usage.input_tokens)} in",
        f"{_tokens(usage.output_tokens)} out",
        "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
    ]
    return f" {glyphs.dot} ".join(parts)


def end_lines(finished: "RunFinished") -> Iterator[Line]:
    """Yield how a run ended, if that needs words."""
    if finished.error is not None:
        yield "red", f"Error: {plain(finished.error.message)}"
        if finished.hint:
            yield "", plain(finished.hint)
    elif finished.status in _ENDS:
        yield "yellow", _ENDS[finished.status]


_ENDS = {
    "denied": "Stopped: the last calls were denied.",
    "goal_not_reached": "The plan ended with a failed step that was not made good.",
    "interrupted": "Interrupted.",
}


def _tokens(count: int | None) -> str:
    if count is None:
        return "? tokens"
    return f"{count} tokens" if count < 10_000 else f"{count / 1000:.0f}k tokens"


def _indented(lines: list[Line], glyphs: Glyphs, limit: int | None) -> Iterator[Line]:
    left_out = 0 if limit is None else max(0, len(lines) - limit)
    for style, text in lines[left_out:] if left_out else lines:
        cut = text if len(text) <= _MAX_LINE or limit is None else text[:_MAX_LINE] + glyphs.rest
        yield style, f"  {glyphs.bar} {cut}"
    if left_out:
        yield "dim", f"  {glyphs.bar} ({left_out} lines more above)"


_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def local_time(stamp: str) -> str:
    """Return a stored UTC time as the local date and minute."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return one_line(stamp)


def ago(stamp: str) -> str:
    """Return how long ago a stored time was, in words."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return "some time ago"
    if seconds < 0:
        return "in the future: a clock was changed"
    for length, unit in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


SIGNS = {"message": "you: ", "command": "you: ", "reply": "agent: "}


def step_lines(steps: "Iterable[TimelineStep]", session_id: str) -> Iterator[str]:
    """Yield a line for each step; `sandbur fork ID --at` takes the number in front."""
    owner = session_id
    for step in steps:
        if step.session_id != owner:
            whose = "its own steps" if step.session_id == session_id else "steps it was forked from"
            yield f"({whose}: {step.session_id})"
            owner = step.session_id
        yield step_line(step)


def step_line(step: "TimelineStep") -> str:
    text = f"{SIGNS.get(step.kind, '')}{one_line(step.text)}"
    return f"{step.seq:>5}  {local_time(step.at)}  {one_line(step.action):<20} {text}".rstrip()


def step_objects(steps: "Iterable[TimelineStep]") -> list[dict[str, Any]]:
    return [asdict(step) for step in steps]


_SHOWN_WAITING_LINES = 20
_MEANINGS = {
    "done": "it took effect",
    "failed": "it did not, or not as it should",
    "rerun": "run it once more",
    "check": "let the model find out",
}


def waiting_lines(call: "PendingCall", session_id: str, cwd: str) -> Iterator[str]:
    """Yield a call that waits for a decision as plain lines, with the commands that settle it."""
    if call.kind == "approval":
        first, *more = whole(call, cwd)
        yield f"Waiting: {first}"
        yield from more
        if call.reason:
            yield f"    asks: {one_line(call.reason)}"
        return
    yield f"Outcome unknown: {one_line(call.call_id)}  {one_line(call.tool)}"
    for _, text in unknown_lines(call, cwd):
        yield f"    {text}"
    yield "Say what came of it:"
    for line in settle_lines(session_id, call.call_id):
        yield f"    {line}"


def unknown_lines(call: "PendingCall", cwd: str, is_whole: bool = False) -> Iterator[Line]:
    """Yield everything a decision may rest on; of the output the end, or with `is_whole` all there is."""
    yield from preview(call.arguments, cwd)
    yield "", f"folder:  {one_line(cwd)}"
    known = call.recovery
    yield "", f"started: {local_time(known.started_at)} ({ago(known.started_at)})"
    if known.note:
        yield "", f"known:   {one_line(known.note)}"
    lines = exposed(known.output).rstrip("\n").split("\n") if known.output.strip() else []
    hidden = 0 if is_whole else max(0, len(lines) - _SHOWN_WAITING_LINES)
    yield "", "output so far:" if lines else "output so far: none"
    if hidden:
        yield "dim", f"  ({hidden} lines more above)"
    for line in lines[hidden:]:
        yield "dim", f"  {line}"


def settle_lines(session_id: str, call_id: str) -> Iterator[str]:
    """Yield the commands that say what came of a call, or run it again."""
    for outcome, meaning in _MEANINGS.items():
        yield f"sandbur settle {session_id} {shlex.quote(one_line(call_id))} --as {outcome:<6}  # {meaning}"
