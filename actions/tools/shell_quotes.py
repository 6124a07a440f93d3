"""Characters that do not mean what they look like: escapes of `$'...'` and letters nobody can see."""

import re

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_QUOTED = re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL)
_INVISIBLE_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"


def ansi_quoted(text: str, start: int) -> tuple[str, int]:
    """Return the decoded text from `start`, just behind `$'`, and where its closing quote is."""
    found = _QUOTED.match(text, start)
    end = found.end() if found else len(text)
    return _ESCAPE.sub(_unescaped, text[start:end]), end


def is_visible(character: str) -> bool:
    return (character.isprintable() or character in "\t\n") and character not in _INVISIBLE_LETTERS


def _unescaped(found: re.Match[str]) -> str:
    hexadecimal, octal = found[1] or found[2], found[3]
    if hexadecimal or octal:
        return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[4], found[4])
