"""Makes invisible characters visible, so that a text of a stranger stays on the line of its entry."""

import re

# Compiling it takes time, so `re` compiles it at the first text with such characters.
_UNSEEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def expose(text: str) -> str:
    """Return text with every invisible character escaped; line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSEEN, name_character, text)


def one_line(text: str) -> str:
    """Return text on one line, with line ends and all invisible characters escaped."""
    return expose(text).replace("\n", "\\n")


def name_character(match: re.Match[str]) -> str:
    """Return an escape for a character that was found."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"<U+{code:04X}>"
