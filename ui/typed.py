"""What a person types while no prompt is up: kept as a draft, never sent by itself."""

import os
import re
import select

_SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\[O])?")
_ERASE, _ERASE_LINE = "\x7f\x08", "\x15"
_MAX_BYTES = 1 << 16


def typed_so_far() -> bytes:
    """Take what waits to be read from the terminal; its line discipline must not collect lines."""
    typed = b""
    try:
        while len(typed) < _MAX_BYTES and select.select([0], [], [], 0)[0]:
            part = os.read(0, 4096)
            if not part:
                break
            typed += part
    except OSError:
        pass
    return typed


def as_draft(typed: bytes) -> str:
    """Return the text that the keys make; Backspace and Ctrl-U erase, other control keys do nothing."""
    draft = ""
    for char in _SEQUENCES.sub(b"", typed).decode("utf-8", "replace"):
        if char in _ERASE:
            draft = draft if draft.endswith("\n") else draft[:-1]
        elif char == _ERASE_LINE:
            draft = draft[: draft.rfind("\n") + 1]
        elif char in "\r\n":
            draft += "\n"
        elif char.isprintable() or char == "\t":
            draft += char
    return draft.strip("\n")
