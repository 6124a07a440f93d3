"""Replaces long pastes by a mark on the input line, and the mark by the text when the message is sent."""

import re

_LONG_LINES = 20
_LONG_CHARS = 4000
_ENDS_CHARS = 60
"""The most characters of a recalled text before the mark, and as many after the mark."""
_MARK = re.compile(r"\[pasted text \d+: \d+ lines, \d+ characters\]")


class Pastes:
    """The long texts of one process and their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold_paste(self, text: str) -> str:
        """Return a short text unchanged; return a mark for a long text, and keep the text."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not _is_long(text):
            return text
        lines = text.count("\n") + 1
        mark = f"[pasted text {len(self._texts) + 1}: {lines} lines, {len(text)} characters]"
        self._texts[mark] = text
        return mark

    def fold_recalled(self, text: str) -> str:
        """Return an earlier input with the middle of a long text replaced by a mark; the rest can be
        searched.
        """
        if not _is_long(text):
            return text
        start = min(len(text.partition("\n")[0]), _ENDS_CHARS)
        end = len(text) - min(len(text.rpartition("\n")[2]), _ENDS_CHARS)
        return text[:start] + self.fold_paste(text[start:end]) + text[end:]

    def unfold(self, text: str) -> str:
        """Return the message to send: every mark replaced by its text."""
        return _MARK.sub(lambda mark: self._texts.get(mark[0], mark[0]), text)


def _is_long(text: str) -> bool:
    return text.count("\n") >= _LONG_LINES or len(text) > _LONG_CHARS
