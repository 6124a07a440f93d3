"""Sanitizes text from servers: removes control and invisible characters and limits the length."""

import unicodedata

from ....state.conversation.messages import encodable

_MOST_LINE_CHARS = 300
_JOINERS = "\u200c\u200d"
"""Characters that some scripts and emoji need, although they are invisible."""


def plain(text: str, most_chars: int) -> str:
    """Return the text without control and invisible characters, cut to `most_chars`."""
    text = encodable(text)
    if not (text.isascii() and text.isprintable()):
        text = "".join(char for char in text[: most_chars + 1] if _is_visible(char))
    return text if len(text) <= most_chars else f"{text[:most_chars]}..."


def _is_visible(char: str) -> bool:
    return char in "\n\t" or char in _JOINERS or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")


def one_line(text: str, most_chars: int = _MOST_LINE_CHARS) -> str:
    """Return the text as one line of at most `most_chars` characters."""
    return plain(" ".join(text[: 4 * most_chars].split()), most_chars)
