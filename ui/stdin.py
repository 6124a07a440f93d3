"""The prompt of a headless run: the words on the command line, what is piped in, or both."""

import select
import stat
import sys
from os import fstat, read

from state.errors import UsageError
from ui.terminal import say

_MAX_BYTES = 10_000_000
_PATIENCE_S = 3.0
"""How long a pipe may stay silent when there is a prompt or a session to carry on without it."""


def headless_prompt(words: str | None, continues: bool) -> str | None:
    """Return what to send, None to carry a session on; raises `UsageError` if there is nothing to do."""
    if words == "-":
        prompt = _read_all()
    else:
        prompt = "\n\n".join(part for part in (clean(words or ""), _piped(words, continues)) if part.strip())
    if prompt.strip():
        return prompt
    if continues and words is None:
        return None
    raise UsageError("The prompt is empty.", 'Say what to do: sandbur -p "..." or echo ... | sandbur -p -')


def clean(text: str) -> str:
    """Return text without the surrogates that stand for undecodable bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _piped(words: str | None, continues: bool) -> str:
    if not _is_piped():
        return ""
    if words is None and not continues:
        return _read_all()
    ready, _, _ = select.select([0], [], [], _PATIENCE_S)
    if not ready:
        say("Nothing came from stdin, so it is left out; `-p -` waits for it, `< /dev/null` skips this.")
        return ""
    return _read_all()


def _is_piped() -> bool:
    try:
        kind = fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)


def _read_all() -> str:
    if sys.stdin.isatty():
        say("Type the prompt, then press Ctrl-D on an empty line.")
    parts: list[bytes] = []
    size = 0
    try:
        while part := read(0, 1 << 16):
            parts.append(part)
            size += len(part)
            if size > _MAX_BYTES:
                raise UsageError(
                    f"stdin holds more than {_MAX_BYTES // 1_000_000} MB.",
                    "Name a file in the prompt instead.",
                )
    except OSError as error:
        raise UsageError(f"stdin cannot be read: {error.strerror}.") from None
    return b"".join(parts).decode("utf-8", "replace").removeprefix("\ufeff")
