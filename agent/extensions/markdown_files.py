"""Markdown files of people and projects: the folders, the trust in them, and the front matter of a file."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...state.errors import ConfigError
from ...state.lazy_dataclass import dataclass
from ..config.paths import decode_text, own_text_folders, read_bytes, text_folders
from ..config.trust import is_trusted_place, trust_place

TextT = TypeVar("TextT")
_MOST_BYTES = 1 << 20
"""The size limit of one file, in bytes. A larger file of a project is left out and cannot be read."""
_MOST_FILES = 500
_DEEPEST = 6
_MOST_FIELD_LINES = 2000
"""The most lines of a front matter. A longer one is treated as text."""
_MOST_FIELDS, _MOST_FIELD_CHARS = 30, 200
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_ESCAPED = re.compile(r'\\(["\\])')
_BLOCK = re.compile(r"[|>][-+]?")


class TextFolder:
    """One folder of Markdown files. A project's folder is active only if a person trusts it with the content
    that it had when the session began."""

    def __init__(self, path: Path, is_project: bool) -> None:
        self.path = path
        self.is_project = is_project

    @property
    def files(self) -> Mapping[str, str]:
        """Relative name -> SHA-256 of the content, for every file of a project; links are left out."""
        return self._listing[0]

    @cached_property
    def _listing(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """The files, and the names of those that are too large to be read."""
        found: dict[str, str] = {}
        refused: list[str] = []
        for name in sorted(_names(self.path, follows=False)):
            if len(found) + len(refused) == _MOST_FILES:
                raise ConfigError(f"{self.path} has more than {_MOST_FILES} files.", "Take some out.")
            content = _content(self.path / name, os.O_NOFOLLOW)
            if content is None:
                refused.append(name)
            else:
                found[name] = hashlib.sha256(content).hexdigest()
        return found, tuple(refused)

    def find_names(self, pattern: str) -> list[str]:
        """Return the relative names of the files that a glob names, in their order; `read` refuses those that
        are too large."""
        names = (
            (*self.files, *self._listing[1]) if self.is_project else tuple(_names(self.path, follows=True))
        )
        return sorted(name for name in names if Path(name).match(pattern))[:_MOST_FILES]

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises `ConfigError` if it is not in the folder or has changed."""
        path = self.path / name
        inside = Path(os.path.normpath(path)).is_relative_to(self.path)
        content = _content(path, os.O_NOFOLLOW if self.is_project else 0) if inside else None
        if content is None or (self.is_project and name not in self.files):
            raise ConfigError(
                f"{self.path} has no readable file {name[:200]!r} of up to {_MOST_BYTES:,} bytes."
            )
        if self.is_project and hashlib.sha256(content).hexdigest() != self.files[name]:
            raise ConfigError(f"{path} was changed since the session began.", "Begin a new session.")
        return content

    def text(self, name: str) -> str:
        return decode_text(self.read(name), self.path / name)

    @property
    def digest(self) -> bytes:
        return "".join(f"{name} {digest}\n" for name, digest in self.files.items()).encode()

    def is_trusted(self, env: Mapping[str, str]) -> bool:
        """Return whether the files are active. A person's own folder is always active."""
        return not self.is_project or is_trusted_place(self.path, self.digest, env)

    def trust(self, env: Mapping[str, str]) -> None:
        """Trust exactly these files until one of them changes."""
        trust_place(self.path, self.digest, env)


def folders_of(kind: str, cwd: Path, env: Mapping[str, str]) -> list[TextFolder]:
    """Return the folders with texts of a kind; a project's folders come first."""
    own = set(own_text_folders(kind, env))
    return [TextFolder(path, path not in own) for path in text_folders(kind, cwd, env)]


def list_untrusted(folders: list[TextFolder], env: Mapping[str, str]) -> Iterator[tuple[TextFolder, str]]:
    """Yield each project folder that no person trusts, and the reason as a sentence."""
    for folder in folders:
        try:
            if not folder.is_trusted(env) and folder.files:
                why = "its files, as they are now, are not trusted. The chat asks about them."
                yield folder, f"Ignored {folder.path}: {why}"
        except ConfigError as problem:
            yield folder, f"{problem} It is left out."


def list_files(
    kind: str,
    pattern: str,
    cwd: Path,
    env: Mapping[str, str],
    most: int,
    read: Callable[[TextFolder, str], tuple[str, TextT] | None],
    notices: list[str],
) -> tuple[dict[str, TextT], tuple[TextFolder, ...]]:
    """Return the active files of a kind by key, and the inactive folders.

    If two files have the same key, the file of the nearer folder counts. `read` returns the key and the
    content of a file, or None if the file is of another kind. A `ConfigError` of `read` becomes a notice.
    """
    folders = folders_of(f"{kind}s", cwd, env)
    refused = dict(list_untrusted(folders, env))
    notices += refused.values()
    found: dict[str, TextT] = {}
    for folder in folders:
        for name in [] if folder in refused else folder.find_names(pattern):
            try:
                one = read(folder, name)
            except ConfigError as problem:
                notices.append(f"{problem} The {kind} is left out.")
                continue
            if one is None or one[0] in found:
                continue
            if len(found) == most:
                first = folder.path / name
                notices.append(f"There are over {most} {kind}s: {first} and those after it are left out.")
                return found, tuple(refused)
            found[one[0]] = one[1]
    return found, tuple(refused)


def _names(folder: Path, follows: bool, depth: int = 0) -> Iterator[str]:
    """Yield the relative names of files, without hidden ones."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=follows) and depth < _DEEPEST:
            yield from (f"{entry.name}/{name}" for name in _names(folder / entry.name, follows, depth + 1))
        elif entry.is_file(follow_symlinks=follows):
            yield entry.name


def _content(path: Path, flags: int) -> bytes | None:
    try:
        found = read_bytes(path, _MOST_BYTES, flags)
    except ConfigError:
        return None
    return None if found is None or found[1] > len(found[0]) else found[0]


class FrontMatterEntry(NamedTuple):
    key: str
    line: int
    """The line number in the file, counted from 1."""
    text: str
    """The value; a list is its items joined by commas."""
    block: tuple[str, ...]
    """The lines below the key that belong to it, as they are."""
    items: tuple[str, ...] | None
    """The items of a list; None for a value that is not a list."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The text of a file and the fields of its front matter."""

    fields: Mapping[str, str]
    """Key in small letters -> value; of two equal keys the first counts."""
    body: str
    entries: tuple[FrontMatterEntry, ...] = ()
    """Every key, in the order of the file."""
    ignored_lines: tuple[int, ...] = ()
    """The lines above the text that are neither a key, nor a value, nor a comment."""

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The items of the fields that are lists, by key in small letters; of two equal keys the first."""
        found = reversed(self.entries)
        return {one.key.lower(): one.items for one in found if one.items is not None}

    def line(self, name: str, most: int) -> str:
        """Return a field as one line of at most `most` characters."""
        return " ".join(self.fields.get(name, "").split())[:most]


def split_front_matter(text: str) -> Marked:
    """Read the front matter between two lines `---`: `name: value`, lists and blocks."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return Marked({}, text.strip())
    head = enumerate(lines[1:_MOST_FIELD_LINES], 1)
    end = next((place for place, line in head if line.rstrip() in ("---", "...")), None)
    if end is None:
        return Marked({}, text.strip())
    entries, ignored = _read_entries(lines[:end])
    fields = {entry.key.lower(): entry.text for entry in reversed(entries)}
    return Marked(fields, "\n".join(lines[end + 1 :]).strip(), tuple(entries), tuple(ignored))


def describe_fields(folder: TextFolder, name: str) -> str:
    """Return what a Markdown file sets beside name and description, such as `model: x; tools: y`."""
    if not name.endswith(".md"):
        return ""
    try:
        entries = split_front_matter(folder.text(name)).entries
    except ConfigError:
        return ""
    fields = [
        f"{entry.key[:_MOST_FIELD_CHARS]}: {_shorten(' '.join(entry.text.split()))}"
        for entry in entries
        if entry.key.lower() not in ("name", "description") and entry.text
    ]
    more = len(fields) - _MOST_FIELDS
    return "; ".join((*fields[:_MOST_FIELDS], *([f"and {more} more"] if more > 0 else [])))


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_FIELD_CHARS else f"{text[:_MOST_FIELD_CHARS]}..."


def _read_entries(lines: list[str]) -> tuple[list[FrontMatterEntry], list[int]]:
    """Return the entries of a front matter, and the numbers of the lines that are ignored."""
    entries: list[FrontMatterEntry] = []
    ignored: list[int] = []
    place = 1
    while place < len(lines):
        found = _KEY.fullmatch(lines[place].rstrip())
        place += 1
        if found is None:
            if lines[place - 1].strip() and not lines[place - 1].startswith("#"):
                ignored.append(place)
            continue
        number = place
        while place < len(lines) and (not lines[place].strip() or lines[place][:1] in " \t-"):
            place += 1
        block = lines[number:place]
        first, more = (found[2] or "").strip(), [line.strip() for line in block]
        items = _items(first, more)
        entries.append(FrontMatterEntry(found[1], number, _value(first, more), tuple(block), items))
    return entries, ignored


def _value(first: str, more: list[str]) -> str:
    """Return the value of a field; a list is returned as its items joined by commas."""
    if _BLOCK.fullmatch(first):
        return "\n".join(more).strip()
    if (items := _items(first, more)) is not None:
        return ", ".join(items)
    return unquote(" ".join([first, *filter(None, more)]).strip())


def _items(first: str, more: list[str]) -> tuple[str, ...] | None:
    """Return the items of a list; None for a value that is not a list."""
    if first.startswith("[") and first.endswith("]"):
        return tuple(unquote(part.strip()) for part in first[1:-1].split(","))
    if not first and more and all(line.startswith("- ") for line in more if line):
        return tuple(unquote(line[2:].strip()) for line in more if line)
    return None


def unquote(text: str) -> str:
    """Return a value without its quotes, or without the comment after it."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return _ESCAPED.sub(r"\1", text[1:-1]) if text[0] == '"' else text[1:-1].replace("''", "'")
    return text.partition(" #")[0].rstrip()
