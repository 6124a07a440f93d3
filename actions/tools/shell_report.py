"""Tells a model how a command ended."""

import signal
from collections.abc import Iterator

from actions.ports import ToolOutcome
from actions.tools.capture import Captured
from actions.tools.ending import Ended, Limits
from actions.tools.places import shown

_MOST_NAMED = 5
_CODES = {126: "found, but it could not be executed", 127: "command not found"}


def outcome_of(captured: Captured, ended: Ended, limits: Limits, remark: str = "") -> ToolOutcome:
    """Put output, remarks and exit code together."""
    output = captured.text.rstrip("\n")
    notes = [f"[{note}]" for note in (*_notes(ended, limits), *filter(None, [remark]))]
    content = "\n".join([output or "(no output)", *notes, f"exit code: {_exit_code(ended)}"])
    if ended.reason in ("timeout", "idle"):
        return ToolOutcome("timeout", content, captured.full)
    is_fine = ended.status == 0 and not ended.problem and not ended.too_many
    return ToolOutcome("ok" if is_fine else "error", content, captured.full)


def _notes(ended: Ended, limits: Limits) -> Iterator[str]:
    if ended.reason == "timeout":
        yield (
            f"timed out: killed, with all its processes, after {limits.timeout_s:g} s;"
            " a larger timeout_s gives it more time"
        )
    if ended.reason == "idle":
        yield f"timed out: killed, with all its processes, after {limits.idle_s:g} s without any output"
    if ended.problem:
        yield f"killed, with all its processes: {ended.problem}"
    if ended.too_many:
        yield f"killed: it had started {ended.too_many} processes at once"
    if ended.status is None:
        yield "something killed the process that watched this command; its processes were killed too"
    if ended.leftovers:
        named = ", ".join(shown(name) for name in ended.leftovers[:_MOST_NAMED])
        more = ", ..." if len(ended.leftovers) > _MOST_NAMED else ""
        count = len(ended.leftovers)
        noun = "process" if count == 1 else "processes"
        yield f"killed {count} {noun} left in the background: {named}{more}"
    if ended.survivors:
        yield f"{ended.survivors} processes could not be killed"


def _exit_code(ended: Ended) -> str:
    status = ended.status
    if status is None:
        return "unknown"
    if status < 0:
        return f"{128 - status} (killed by {_signal_name(-status)})"
    if status in _CODES:
        return f"{status} ({_CODES[status]})"
    if 128 < status < 128 + signal.NSIG:
        return f"{status} (as after {_signal_name(status - 128)})"
    return str(status)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
