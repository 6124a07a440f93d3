"""What was typed while no prompt was up."""

import os
import re
import select

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

_SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\[O])?")
_ERASE, _ERASE_LINE = "\x7f\x08", "\x15"
_MAX_BYTES = 1 << 16


def typed_so_far(descriptor: int = 0) -> bytes:
    """Take what waits to be read from the terminal; its line discipline must not collect lines."""
    typed = b""
    try:
        while len(typed) < _MAX_BYTES and select.select([descriptor], [], [], 0)[0]:
            part = os.read(descriptor, 4096)
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


def keep_for_prompt(source: Input) -> None:
    """Let the next prompt begin with the keys that were pressed before the terminal was raw.

    Until then it makes a Ctrl-J of Enter, which is a key of its own from now on.
    """
    descriptor = source.fileno()
    if not os.isatty(descriptor):
        return
    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed(typed_so_far(descriptor).decode("utf-8", "replace").replace("\n", "\r"))
    parser.flush()
    store_typeahead(source, pressed)
