"""Tool calls in words: one line while they run, everything exactly as it will run before an approval."""

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from actions.events import PendingDecision
from state.calls import PendingCall
from ui.sanitize import exposed, lookalikes, one_line

_SUBJECTS = ("command", "path", "pattern", "url", "query", "goal", "status")
_MAX_TITLE = 120
_MAX_COMPARED_BYTES = 1 << 20

Line = tuple[str, str]
"""A rich style and a text without line ends."""


def fields(arguments: str) -> dict[str, Any]:
    """Return the arguments as an object; empty if they are none."""
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def title(tool: str, arguments: str) -> str:
    """Return the tool and what it is about, on one line that may be cut."""
    values = fields(arguments)
    subject = next((values[name] for name in _SUBJECTS if isinstance(values.get(name), str)), None)
    text = (subject if subject is not None else _compact(arguments, values)).strip()
    first, _, more = text.partition("\n")
    cut = " ..." if more or len(first) > _MAX_TITLE else ""
    return f"{one_line(tool[:80])} {one_line(first[:_MAX_TITLE])}{cut}".strip()


def preview(arguments: str, cwd: str) -> list[Line]:
    """Return what an approval is about: command, difference or arguments, nothing left out."""
    values = fields(arguments)
    lines = list(_body(arguments, values, Path(cwd)))
    if words := lookalikes("\n".join(text for _, text in lines)):
        lines.append(("bold yellow", f"Careful, letters of other scripts: {', '.join(words[:5])}"))
    return lines


def whole(call: PendingCall | PendingDecision, cwd: str) -> Iterator[str]:
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
