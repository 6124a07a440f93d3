"""Turns what a program wrote for a terminal into plain text."""

import re

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
    """Return what a terminal would show in the end: no sequences, no controls, overwritten text gone."""
    text = _SEQUENCES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(_after_returns(line) for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def plain_piece(text: str) -> str:
    """Return a piece of a running output as plain text; what would be overwritten is a line of its own."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)


def split_unfinished(text: str) -> tuple[str, str]:
    """Split off a control sequence at the end that goes on in the next piece."""
    found = _UNFINISHED.search(text, max(len(text) - _MOST_UNFINISHED, 0))
    return (text[: found.start()], found[0]) if found else (text, "")


def _after_returns(line: str) -> str:
    """Return what is left of a line over which a program wrote again and again."""
    return line.rstrip("\r").rpartition("\r")[2]
