"""Tool calls as an editor shows them: kind, files, changes and result."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from acp import (
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_tool_call,
)
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)

from ...actions.ports import BadArguments, Tool
from ...actions.ports.events import ToolFinished, ToolRequested
from ...state.calls import PendingCall, parent_call_id_of
from ...state.conversation.messages import Outcome, parse_json_object
from ...state.lazy_dataclass import dataclass
from ...state.store.call_moves import MadeCall
from ..terminal.lines import format_unknown, question_lines, title
from ..terminal.text.sanitize import fence_text, one_line, plain

FindTool = Callable[[str], Tool | None]
_Content = ContentToolCallContent | FileEditToolCallContent

_MOST_COMPARED_BYTES = 1 << 20
_MOST_LIVE_CHARS = 4000
_MOST_RESULT_CHARS = 20_000
_PAUSE_S = 0.1
"""The shortest time between two updates with live output, in seconds."""


def kind_of(tool: Tool | None) -> ToolKind:
    """Return the kind of a tool in the protocol."""
    if tool is None:
        return "other"
    traits = tool.traits
    if traits.runs_commands:
        return "execute"
    if traits.writes_files:
        return "edit"
    if traits.reaches:
        return "fetch"
    if traits.shows == "names" or (traits.shows and traits.subject == "pattern"):
        return "search"
    return "read" if traits.shows or traits.reads_results else "other"


@dataclass(slots=True)
class _CallProgress:
    """A call that the editor knows."""

    content: list[_Content]
    output: str = ""
    """The end of its output so far."""
    at: float = 0.0
    """When the output was sent last."""
    has_ended: bool = False


@dataclass(slots=True)
class ToolCalls:
    """Announces each call to the editor once, and then sends its updates."""

    find: FindTool
    cwd: Path
    _known: dict[str, _CallProgress] = field(default_factory=dict[str, _CallProgress])

    def note_request(self, call_id: str, tool: str, arguments: str) -> ToolCallStart:
        found = self.find(tool)
        changes = self._changes(found, arguments)
        self._known[call_id] = _CallProgress(changes)
        start = start_tool_call(
            call_id,
            _title(found, tool, arguments),
            kind=kind_of(found),
            status="pending",
            content=changes or None,
            locations=self._locations(found, arguments),
            raw_input=parse_json_object(arguments) or {"arguments": arguments},
        )
        if parent := parent_call_id_of(call_id):
            # The protocol has no field for it. Editors show the calls in the order of their announcements.
            start.field_meta = {"sandbur": {"parentToolCallId": parent}}
        return start

    def announce_earlier(self, calls: Iterable[PendingCall]) -> Iterator[ToolCallStart]:
        """Announce the calls of an earlier process, except for those that are known already."""
        for call in calls:
            if call.call_id not in self._known:
                yield self.note_request(call.call_id, call.tool, call.arguments)

    def announce_made(self, calls: Iterable[MadeCall]) -> Iterator[ToolCallStart | ToolCallProgress]:
        """Announce the calls that a tool made, and their ends, as far as the editor does not know them."""
        for call, result in calls:
            if call.call_id not in self._known:
                yield self.note_request(call.call_id, call.tool, call.arguments)
            if result is not None and not self._known[call.call_id].has_ended:
                yield self.note_end(call.call_id, result.outcome, result.display_text)

    def of_request(self, event: ToolRequested) -> ToolCallStart:
        return self.note_request(event.call_id, event.tool, event.arguments)

    def note_start(self, call_id: str) -> ToolCallProgress:
        return update_tool_call(call_id, status="in_progress")

    def wrote(self, call_id: str, chunk: str) -> ToolCallProgress | None:
        """Add live output; return an update with it, or None if the last update was sent just before."""
        progress = self._known.setdefault(call_id, _CallProgress([]))
        progress.output = (progress.output + chunk)[-_MOST_LIVE_CHARS:]
        now = time.monotonic()
        if now - progress.at < _PAUSE_S:
            return None
        progress.at = now
        output = _code(plain(progress.output).rstrip("\n"))
        return update_tool_call(call_id, status="in_progress", content=[*progress.content, output])

    def note_result(self, event: ToolFinished) -> ToolCallProgress:
        return self.note_end(event.call_id, event.outcome, event.content)

    def note_end(self, call_id: str, outcome: Outcome, text: str) -> ToolCallProgress:
        progress = self._known.get(call_id) or _CallProgress([])
        progress.has_ended = True
        status: ToolCallStatus = "completed" if outcome == "ok" else "failed"
        content: list[_Content] = list(progress.content) if outcome == "ok" else []
        output = plain(text).rstrip("\n")
        if output and not content:
            more = len(output) - _MOST_RESULT_CHARS
            rest = f"\n({more:,} characters more)" if more > 0 else ""
            content.append(_code(output[:_MOST_RESULT_CHARS] + rest))
        raw = {"outcome": outcome, "content": output[:_MOST_RESULT_CHARS]}
        return update_tool_call(call_id, status=status, content=content, raw_output=raw)

    def describe_question(self, call: PendingCall) -> ToolCallUpdate:
        """Return a waiting call with all that a decision about it may rest on."""
        found = self.find(call.tool)
        is_unknown = call.kind == "outcome_unknown"
        cwd = str(self.cwd)
        approval = question_lines(call, cwd)
        lines = format_unknown(call, cwd, is_whole=True) if is_unknown else approval
        changes: list[_Content] = [] if is_unknown else self._changes(found, call.arguments)
        why = one_line(call.reason)
        if is_unknown:
            why = "It was running when the process died, and nobody knows what came of it."
        words = [_code("\n".join(text for _, text in lines))]
        reason = [_code(why)] if why else []
        return ToolCallUpdate(
            tool_call_id=call.call_id,
            title=_title(found, call.tool, call.arguments),
            kind=kind_of(found),
            status="pending",
            content=[*changes, *words, *reason],
            locations=self._locations(found, call.arguments) or None,
            raw_input=parse_json_object(call.arguments) or {"arguments": call.arguments},
        )

    def _locations(self, tool: Tool | None, arguments: str) -> list[ToolCallLocation]:
        if tool is None:
            return []
        try:
            paths = tool.paths(tool.parse(arguments))
        except BadArguments:
            return []
        named = (parse_json_object(arguments) or {}).get("offset")
        line = named if isinstance(named, int) and named > 0 and kind_of(tool) == "read" else None
        places = dict.fromkeys(str(self.cwd / path) for path in paths if "\0" not in path and "*" not in path)
        return [ToolCallLocation(path=place, line=line) for place in places]

    def _changes(self, tool: Tool | None, arguments: str) -> list[_Content]:
        """Return a call's changes as a diff, if it does nothing else."""
        if tool is None or not tool.traits.writes_files:
            return []
        values = parse_json_object(arguments) or {}
        path = values.get(tool.traits.subject)
        if not isinstance(path, str) or "\0" in path:
            return []
        file = self.cwd / path
        whole = values.get(tool.traits.content) if tool.traits.content else None
        if isinstance(whole, str):
            return [tool_diff_content(str(file), whole, _content_of(file))]
        old, new = (values.get(name) for name in tool.traits.replaces or ("", ""))
        if tool.traits.replaces and isinstance(old, str) and isinstance(new, str):
            return [tool_diff_content(str(file), new, old)]
        return []


def _title(tool: Tool | None, name: str, arguments: str) -> str:
    """Return the title of a call. For a shell command it is the command alone, because editors display it as
    one.
    """
    line = title(name, arguments)
    text = line.removeprefix(f"{name} ") if kind_of(tool) == "execute" else line
    return text or "a tool"


def _code(text: str) -> ContentToolCallContent:
    return tool_content(text_block(fence_text(text)))


def _content_of(file: Path) -> str | None:
    try:
        if file.is_file() and file.stat().st_size <= _MOST_COMPARED_BYTES:
            return file.read_text("utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    return None
