"""How calls, plans and runs ended, as lines for people."""

import re
from collections.abc import Iterable, Iterator

from actions.events import RunFinished, ToolFinished
from state.plan import StepStatus, VibeStep
from state.usage import Usage
from ui.calls import Line, coloured_diff
from ui.sanitize import one_line, plain
from ui.status import elapsed
from ui.terminal import Glyphs

_SHOWN_LINES = 4
_SHOWN_DIFF_LINES = 40
_MAX_LINE = 200
_QUIET_TOOLS = ("read_file", "list_directory", "glob", "grep")
_EXIT = re.compile(r"(?:^|\n)exit code: (\w+)[^\n]*$")
_DIFF = re.compile(r"^@@ .* @@", re.MULTILINE)


def finish_line(event: ToolFinished, title: str, glyphs: Glyphs) -> Line:
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


def result_lines(event: ToolFinished, glyphs: Glyphs, verbose: bool) -> Iterator[Line]:
    """Yield a taste of what a call gave back; a difference in colours."""
    content = _EXIT.sub("", plain(event.content).rstrip("\n"))
    if _DIFF.search(content) and event.outcome == "ok":
        yield from _indented(list(coloured_diff(content)), glyphs, None if verbose else _SHOWN_DIFF_LINES)
    elif content and (verbose or event.outcome != "ok" or event.tool not in _QUIET_TOOLS):
        lines = [("dim", line) for line in content.split("\n")]
        yield from _indented(lines, glyphs, None if verbose else _SHOWN_LINES)


def plan_lines(steps: Iterable[VibeStep], glyphs: Glyphs) -> Iterator[Line]:
    yield "bold", "Plan"
    for step in steps:
        sign, style = step_sign(step.status, glyphs)
        yield style, f"  {sign} {one_line(step.step_id)}. {one_line(step.description)}"


def step_sign(status: StepStatus, glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign of a step's status and its colour."""
    return {
        "pending": (glyphs.todo, ""),
        "in_progress": (glyphs.doing, "cyan"),
        "completed": (glyphs.done, "green"),
        "failed": (glyphs.failed, "red"),
    }[status]


def usage_text(usage: Usage, glyphs: Glyphs) -> str:
    """Return calls, tokens and cost on one line; what is unknown is called so."""
    parts = [
        f"{usage.llm_calls} model call{'' if usage.llm_calls == 1 else 's'}",
        f"{_tokens(usage.input_tokens)} in",
        f"{_tokens(usage.output_tokens)} out",
        "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
    ]
    return f" {glyphs.dot} ".join(parts)


def end_lines(finished: RunFinished) -> Iterator[Line]:
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
