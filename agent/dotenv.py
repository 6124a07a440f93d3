"""Reads `.env` files as tolerantly as the programs that use them: quotes, comments, many lines."""

import re
from collections.abc import Iterator

_SETTING = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,127})[ \t]*[=:][ \t]*")
_DOUBLE = re.compile(r'"(?P<value>(?:[^"\\]|\\.)*+)"', re.DOTALL)
_SINGLE = re.compile(r"'(?P<value>[^']*+)'")
_COMMENT = re.compile(r"[ \t]#.*\Z")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting; what is none is passed over."""
    at = 0
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        found = _SETTING.match(text, at, line_end)
        if found is None:
            at = line_end + 1
            continue
        value, end = _value(text, found.end(), line_end)
        yield found["name"], value
        at = text.find("\n", end) + 1 or len(text)


def _value(text: str, start: int, line_end: int) -> tuple[str, int]:
    """Return a value and where it ends."""
    if (quoted := _DOUBLE.match(text, start)) is not None:
        value = _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), quoted["value"])
        return value, quoted.end()
    if (quoted := _SINGLE.match(text, start)) is not None:
        return quoted["value"], quoted.end()
    return _COMMENT.sub("", text[start:line_end]).strip(), line_end
