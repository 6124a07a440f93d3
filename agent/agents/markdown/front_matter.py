"""Reads typed values from the front matter of a Markdown agent; every mistake has file, line and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeVar

from ....state.errors import ConfigError
from ...extensions.markdown_files import FrontMatterEntry

ValueT = TypeVar("ValueT")
_MOST_NAMES, _MOST_NAME_CHARS, _MOST_KEY_CHARS = 200, 200, 60
_MOST_UNKNOWN_KEYS = 10
_MOST_COUNT = 1_000_000
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Notices:
    """Collects notices about files; one sentence about several files becomes one notice."""

    def __init__(self) -> None:
        self._places: dict[str, dict[Path, int]] = {}

    def add(self, sentence: str, path: Path, line: int) -> None:
        self._places.setdefault(sentence, {}).setdefault(path, line)

    def render(self) -> Iterator[str]:
        """Yield the notices, each with the first place and the number of further files."""
        for sentence, places in self._places.items():
            path, line = next(iter(places.items()))
            others = len(places) - 1
            more = f" and {others} more file{'s' if others > 1 else ''}" if others else ""
            yield f"{path}, line {line}{more}: {sentence}"


class FrontMatter:
    """The keys of one file by name. Keys are compared without case, `-` and `_`."""

    def __init__(self, path: Path, entries: Sequence[FrontMatterEntry], notices: Notices) -> None:
        self._path = path
        self._notices = notices
        self._entries: dict[str, FrontMatterEntry] = {}
        for entry in entries:
            if fold(entry.key) in self._entries:
                key = entry.key[:_MOST_KEY_CHARS]
                notices.add(f"`{key}` appears twice; the first one counts.", path, entry.line)
            self._entries.setdefault(fold(entry.key), entry)

    def report_unknown_keys(self, known: Sequence[str], meant: Mapping[str, str]) -> None:
        """Add a notice for each key that is not known.

        `meant`: folded key of another format -> the key with that meaning.
        """
        folded = {fold(key): key for key in known}
        unknown = [entry for name, entry in self._entries.items() if name not in folded]
        for entry in unknown[:_MOST_UNKNOWN_KEYS]:
            key = entry.key[:_MOST_KEY_CHARS]
            near = get_close_matches(fold(key), folded, n=1)
            likely = meant.get(fold(key)) or (folded[near[0]] if near else "")
            hint = f"Did you mean `{likely}`?" if likely else f"The keys are: {', '.join(known)}."
            self._notices.add(f"`{key}` is not a key of a Markdown agent. {hint}", self._path, entry.line)
        if more := unknown[_MOST_UNKNOWN_KEYS:]:
            sentence = f"{len(more)} more keys are not keys of a Markdown agent."
            self._notices.add(sentence, self._path, more[0].line)

    def find(self, key: str) -> FrontMatterEntry | None:
        return self._entries.get(fold(key))

    def text(self, key: str) -> str:
        """Return the value; empty if the key is missing."""
        entry = self.find(key)
        return "" if entry is None else entry.text.strip()

    def names(self, key: str, separators: str = ",\n") -> tuple[str, ...] | None:
        """Return the names of a list, or of a line with commas; None if the key is missing or empty."""
        if not (text := self.text(key)):
            return None
        if len(text) > _MOST_NAMES * _MOST_NAME_CHARS:
            self.refuse(key, f"has {len(text):,} characters; {_MOST_NAMES * _MOST_NAME_CHARS:,} are possible")
        names = tuple(dict.fromkeys(name for part in split_names(text, separators) if (name := part.strip())))
        if len(names) > _MOST_NAMES:
            self.refuse(key, f"has {len(names)} names; {_MOST_NAMES} are possible")
        for name in names:
            if len(name) > _MOST_NAME_CHARS or not name.isprintable():
                self.refuse(key, f"has a name that is too long or not printable: {name[:40]!r}")
        return names

    def choice(self, key: str, values: Mapping[str, ValueT]) -> ValueT | None:
        """Return the meaning of the word of a key, from `values`; None if the key is missing or empty."""
        word = self.text(key)
        if word and word not in values:
            self.refuse(key, f"is {word[:40]!r}; it should be one of: {', '.join(values)}")
        return values.get(word)

    def count(self, key: str) -> int | None:
        """Return a number from 1 on; None if the key is missing or empty."""
        text = self.text(key)
        if not text:
            return None
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        if not is_number or not 0 < int(text) <= _MOST_COUNT:
            self.refuse(key, f"is {text[:40]!r}; it should be a whole number from 1 to {_MOST_COUNT:,}")
        return int(text)

    def switch(self, key: str) -> bool:
        """Return whether a switch is on; a missing one is off."""
        return bool(self.choice(key, _SWITCHES))

    def notice(self, key: str, clause: str) -> None:
        """Add a notice: the name of a key and `clause`, such as `is ignored`."""
        self._notices.add(f"`{key}` {clause}.", self._path, self._line(key))

    def refuse(self, key: str, clause: str, hint: str = "Correct it.") -> NoReturn:
        """Raise `ConfigError` with the name of a key and `clause`, such as `is too long`."""
        raise ConfigError(f"{self._path}, line {self._line(key)}: `{key}` {clause}.", hint)

    def _line(self, key: str) -> int:
        entry = self.find(key)
        return 1 if entry is None else entry.line


def fold(name: str) -> str:
    """Return a name in lower case and without `-` and `_`, to compare different spellings."""
    return name.lower().replace("-", "").replace("_", "")


def split_names(text: str, separators: str = ",\n") -> Iterator[str]:
    """Yield the parts between separators that stand in no parentheses."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        if character in separators and depth == 0:
            yield text[start:place]
            start = place + 1
        elif character in "()":
            depth = max(0, depth + (1 if character == "(" else -1))
    yield text[start:]
