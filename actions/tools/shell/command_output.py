"""Displays the output of a running command in pieces, and shortens the whole output for the model."""

import asyncio
import codecs
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, Self

from ....state.conversation.messages import Outcome
from ....state.databases.file_parts import OpenFile
from ....state.lazy_dataclass import dataclass
from ...ports import ToolOutcome
from ...workspace.paths import format_path, format_size
from .execution.spool import CommandLimits, Ended

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and the like: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_MOST_UNFINISHED = 4096
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")


def plain(text: str) -> str:
    """Return the text that a terminal would finally display, without control sequences and
    overwritten text.
    """
    text = _SEQUENCES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(_apply_returns(line) for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def plain_piece(text: str) -> str:
    """Return a piece of a running output as plain text. Overwritten text becomes separate lines."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)


def split_unfinished(text: str) -> tuple[str, str]:
    """Split off an incomplete control sequence at the end of the text."""
    found = _UNFINISHED.search(text, max(len(text) - _MOST_UNFINISHED, 0))
    return (text[: found.start()], found[0]) if found else (text, "")


def _apply_returns(line: str) -> str:
    """Return the final text of a line that a program overwrote repeatedly."""
    return line.rstrip("\r").rpartition("\r")[2]


INTERVAL_S = 0.05
MAX_EVENT_BYTES = 8192


class LiveOutput:
    """Collects bytes and emits plain text, at most every `INTERVAL_S` seconds."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = bytearray()
        self._unfinished = ""
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last = -INTERVAL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._flush(is_last=True)

    def feed(self, chunk: bytes, skipped: int = 0) -> None:
        """Add a piece of output. `skipped` is the number of bytes that are missing before it."""
        if skipped:
            self._dropped += len(self._waiting) + skipped
            self._waiting.clear()
        self._waiting += chunk
        excess = max(len(self._waiting) - MAX_EVENT_BYTES, 0)
        del self._waiting[:excess]
        self._dropped += excess
        if self._timer is None:
            wait_s = max(self._last + INTERVAL_S - self._loop.time(), 0)
            self._timer = self._loop.call_later(wait_s, self._flush)

    def _flush(self, is_last: bool = False) -> None:
        self._timer, self._last = None, self._loop.time()
        note = ""
        if self._dropped:
            self._decoder.reset()
            note, self._unfinished = f"\n[... {self._dropped:,} bytes ...]\n", ""
        text = self._unfinished + self._decoder.decode(bytes(self._waiting), is_last)
        self._waiting.clear()
        self._dropped = 0
        text, self._unfinished = (text, "") if is_last else split_unfinished(text)
        if piece := note + plain_piece(text):
            self._emit(piece)


MAX_BYTES = 30_000
"""The limit of the text for the model in bytes."""
_HEAD_SHARE = 0.35
"""The share of the beginning. The end gets more, because errors and summaries are there."""
_SIDE_BYTES = 512_000
_LONGEST_SNAP = 2000


@dataclass(frozen=True, slots=True)
class Captured:
    text: str
    """Plain text, with a marker in place of the part that was left out."""
    full: bytes | OpenFile | None
    """All stored bytes, if `text` does not contain all of them; else None."""


def capture(output: int, takes_file: bool) -> Captured:
    """Return the output in an open file. With `takes_file`, the memory use is small for any size."""
    size = os.fstat(output).st_size
    with os.fdopen(os.dup(output), "rb") as file:
        file.seek(0)
        if size <= 2 * _SIDE_BYTES:
            content = file.read(size)
            text, is_cut = cut_middle(plain(content.decode(errors="replace")), (0, 0), "")
            return Captured(text, content if is_cut or not _is_utf8(content) else None)
        text, _ = cut_middle(*_read_sides(file, size))
        if takes_file:
            return Captured(text, OpenFile(os.dup(output)))
        file.seek(0)
        return Captured(text, file.read(size))


def _read_sides(file: BinaryIO, size: int) -> tuple[str, tuple[int, int], str]:
    """Return the beginning and the end as plain text, and the number of bytes and lines between them."""
    head = file.read(_SIDE_BYTES)
    between = size - 2 * _SIDE_BYTES
    lines, left = 0, between
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        lines += chunk.count(b"\n")
        left -= len(chunk)
    tail = file.read(_SIDE_BYTES)
    head_text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    tail_text = tail.decode(errors="replace").lstrip("\ufffd")
    return plain(head_text), (between, lines), plain(tail_text)


def cut_middle(head: str, middle: tuple[int, int], tail: str) -> tuple[str, bool]:
    """Join the parts, and cut the middle to make them fit. Return whether anything was cut."""
    if middle == (0, 0) and len((head + tail).encode()) <= MAX_BYTES:
        return head + tail, False
    if not tail:
        half = len(head) // 2
        head, tail = head[:half], head[half:]
    first, dropped_first = _take_beginning(head, int(MAX_BYTES * _HEAD_SHARE))
    last, dropped_last = _take_end(tail, MAX_BYTES - int(MAX_BYTES * _HEAD_SHARE))
    left_out = dropped_first + dropped_last
    size, lines = middle[0] + len(left_out.encode()), middle[1] + left_out.count("\n")
    marker = f"[... {lines:,} lines, {format_size(size)} left out ...]"
    return f"{first.rstrip(chr(10))}\n{marker}\n{last}", True


def _take_beginning(text: str, most_bytes: int) -> tuple[str, str]:
    kept = text[:most_bytes].encode()[:most_bytes].decode(errors="ignore")
    snap = kept.rfind("\n", max(len(kept) - _LONGEST_SNAP, 0))
    if len(kept) < len(text) and snap >= 0:
        kept = kept[: snap + 1]
    return kept, text[len(kept) :]


def _take_end(text: str, most_bytes: int) -> tuple[str, str]:
    kept = text[-most_bytes:].encode()[-most_bytes:].decode(errors="ignore")
    snap = kept.find("\n", 0, _LONGEST_SNAP)
    if len(kept) < len(text) and snap >= 0:
        kept = kept[snap + 1 :]
    return kept, text[: len(text) - len(kept)]


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


_MOST_NAMED = 5
_CODES = {126: "found, but it could not be executed", 127: "command not found"}


def outcome_of(captured: Captured, ended: Ended, limits: CommandLimits, *remarks: str) -> ToolOutcome:
    output = captured.text.rstrip("\n")
    notes = [f"[{note}]" for note in (*_notes(ended, limits), *remarks)]
    content = "\n".join([output or "(no output)", *notes, f"exit code: {_exit_code(ended)}"])
    if ended.reason in ("timeout", "idle"):
        return outcome_with("timeout", content, captured)
    is_fine = ended.status == 0 and not ended.problem and not ended.too_many and not ended.asking
    return outcome_with("ok" if is_fine else "error", content, captured)


def outcome_with(outcome: Outcome, content: str, captured: Captured) -> ToolOutcome:
    """Return an outcome with the whole output attached."""
    if isinstance(captured.full, OpenFile):
        return ToolOutcome(outcome, content, output_file=captured.full)
    return ToolOutcome(outcome, content, captured.full)


def _notes(ended: Ended, limits: CommandLimits) -> Iterator[str]:
    if ended.reason == "timeout":
        yield (
            f"timed out: killed, with all its processes, after {limits.timeout_s:g} s;"
            " a larger timeout_s gives it more time"
        )
    if ended.reason == "idle":
        yield f"timed out: killed, with all its processes, after {limits.idle_s:g} s without any output"
    if ended.reason == "input":
        yield (
            f"stopped: {format_path(ended.asking)} waited for keyboard input, but nobody can type;"
            " answer by an argument, an option such as --yes, a pipe or a here-document"
        )
    if ended.problem:
        yield f"killed, with all its processes: {ended.problem}"
    if ended.too_many:
        yield f"killed: it had started {ended.too_many} processes at once"
    if ended.status is None:
        yield "the supervisor of this command was killed; its processes were killed, too"
    if ended.leftovers:
        named = ", ".join(format_path(name) for name in ended.leftovers[:_MOST_NAMED])
        more = ", ..." if len(ended.leftovers) > _MOST_NAMED else ""
        count = len(ended.leftovers)
        noun = "process" if count == 1 else "processes"
        yield f"killed {count} {noun} left in the background: {named}{more}"
    if ended.moved:
        named = ", ".join(format_path(name) for name in ended.moved[:_MOST_NAMED])
        yield f"a command in the sandbox may not make these, so they were renamed: {named}"
    if ended.survivors:
        yield f"{ended.survivors} processes could not be killed"


def _exit_code(ended: Ended) -> str:
    status = ended.status
    if status is None:
        return "unknown"
    if status < 0:
        return f"{128 - status} (killed by {_signal_name(-status)}{_LIMITS.get(-status, '')})"
    if status in _CODES:
        return f"{status} ({_CODES[status]})"
    if 128 < status < 128 + signal.NSIG:
        return f"{status} (as after {_signal_name(status - 128)}{_LIMITS.get(status - 128, '')})"
    return str(status)


_LIMITS: dict[int, str] = {
    signal.SIGXFSZ: ": `ulimit -f` allows no larger file",
    signal.SIGXCPU: ": `ulimit -t` allows no more CPU time",
}


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
