"""Calls that wait for a decision, as lines: what it may rest on, and the commands to decide with."""

import shlex
from collections.abc import Iterator

from state.calls import PendingCall
from ui.calls import Line, preview, whole
from ui.sanitize import exposed, one_line
from ui.times import ago, local_time

_SHOWN_LINES = 20
_MEANINGS = {
    "done": "it took effect",
    "failed": "it did not, or not as it should",
    "rerun": "run it once more",
}


def waiting_lines(call: PendingCall, session_id: str, cwd: str) -> Iterator[str]:
    """Yield a call that waits for a decision as plain lines, with the commands that settle it."""
    if call.kind == "approval":
        first, *more = whole(call, cwd)
        yield f"Waiting: {first}"
        yield from more
        return
    yield f"Outcome unknown: {one_line(call.call_id)}  {one_line(call.tool)}"
    for _, text in unknown_lines(call, cwd):
        yield f"    {text}"
    yield "Say what came of it:"
    for line in settle_lines(session_id, call.call_id):
        yield f"    {line}"


def unknown_lines(call: PendingCall, cwd: str, is_whole: bool = False) -> Iterator[Line]:
    """Yield everything a decision may rest on; of the output the end, or with `is_whole` all there is."""
    yield from preview(call.arguments, cwd)
    yield "", f"folder:  {one_line(cwd)}"
    yield "", f"started: {local_time(call.started_at)} ({ago(call.started_at)})"
    if call.note:
        yield "", f"known:   {one_line(call.note)}"
    lines = exposed(call.output).rstrip("\n").split("\n") if call.output.strip() else []
    hidden = 0 if is_whole else max(0, len(lines) - _SHOWN_LINES)
    yield "", "output so far:" if lines else "output so far: none"
    if hidden:
        yield "dim", f"  ({hidden} lines more above)"
    for line in lines[hidden:]:
        yield "dim", f"  {line}"


def settle_lines(session_id: str, call_id: str) -> Iterator[str]:
    """Yield the commands that say what came of a call, or run it again."""
    for outcome, meaning in _MEANINGS.items():
        yield f"sandbur settle {session_id} {shlex.quote(one_line(call_id))} --as {outcome:<6}  # {meaning}"
