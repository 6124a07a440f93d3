"""Markdown files of people and projects: their folders, which are trusted, and their front matter."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ...state.errors import ConfigError
from ..config.paths import decode_text, read_bytes, text_folders, user_home
from ..config.trust import is_trusted_place, trust_place

TextT = TypeVar("TextT")
_MOST_BYTES = 1 << 20
"""Size limit of one file; a larger file of a project is left out and cannot be read."""
_MOST_FILES = 500
_DEEPEST = 6
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_ESCAPED = re.compile(r'\\(["\\])')
_BLOCK = re.compile(r"[|>][-+]?")


class TextFolder:
    """One folder of texts. A project's folder is active only if it is trusted, with the content it had when
    the session began."""

    def __init__(self, path: Path, is_project: bool) -> None:
        self.path = path
        self.is_project = is_project

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Relative name -> SHA-256 of the content, for every file of a project; links are left out."""
        found: dict[str, str] = {}
        for name in sorted(_names(self.path, follows=False)):
            if len(found) == _MOST_FILES:
                raise ConfigError(f"{self.path} has more than {_MOST_FILES} files.", "Take some out.")
            content = _content(self.path / name, os.O_NOFOLLOW)
            if content is not None:
                found[name] = hashlib.sha256(content).hexdigest()
        return found

    def find_names(self, pattern: str) -> list[str]:
        """Return the relative names of the files that a glob names, in their order."""
        names = self.files if self.is_project else list(_names(self.path, follows=True))
        return sorted(name for name in names if Path(name).match(pattern))[:_MOST_FILES]

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises `ConfigError` if it is not in the folder or has changed."""
        path = self.path / name
        inside = Path(os.path.normpath(path)).is_relative_to(self.path)
        content = _content(path, os.O_NOFOLLOW if self.is_project else 0) if inside else None
        if content is None or (self.is_project and name not in self.files):
            raise ConfigError(
                f"There is no file {name[:200]!r} of up to {_MOST_BYTES:,} bytes in {self.path}."
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
        """Return whether its texts are active: a person's own always are."""
        return not self.is_project or is_trusted_place(self.path, self.digest, env)

    def trust(self, env: Mapping[str, str]) -> None:
        """Trust exactly these files until one of them changes."""
        trust_place(self.path, self.digest, env)


def folders_of(kind: str, cwd: Path, env: Mapping[str, str]) -> list[TextFolder]:
    """Return the folders with texts of a kind; a project's folders come first."""
    home = user_home(env)
    return [TextFolder(path, path.parent.parent != home) for path in text_folders(kind, cwd, env)]


def list_untrusted(folders: list[TextFolder], env: Mapping[str, str]) -> Iterator[tuple[TextFolder, str]]:
    """Yield the folders that do not count, each with the reason."""
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
    """List the active files of a kind and the inactive folders; of two files with one key the nearer counts.

    `read` returns the key and content of a file, or None if the file is of another kind; its `ConfigError`
    becomes a notice.
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
            if one is not None and len(found) < most:
                found.setdefault(*one)
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


@dataclass(frozen=True, slots=True)
class Marked:
    """A text, and the fields above it."""

    fields: Mapping[str, str]
    body: str
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The items of the fields that are lists."""

    def line(self, name: str, most: int) -> str:
        """Return a field as one line of so many characters."""
        return " ".join(self.fields.get(name, "").split())[:most]


def split_front_matter(text: str) -> Marked:
    """Read the front matter between two lines `---`: `name: value`, lists and blocks; other lines are
    ignored."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return Marked({}, text.strip())
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return Marked({}, text.strip())
    fields: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    place = 1
    while place < end:
        found = _KEY.fullmatch(lines[place].rstrip())
        place += 1
        if found is None:
            continue
        more: list[str] = []
        while place < end and (not lines[place].strip() or lines[place][:1] in " \t-"):
            more.append(lines[place].strip())
            place += 1
        name, first = found[1].lower(), (found[2] or "").strip()
        fields.setdefault(name, _value(first, more))
        if (items := _items(first, more)) is not None:
            lists.setdefault(name, items)
    return Marked(fields, "\n".join(lines[end + 1 :]).strip(), lists)


def _value(first: str, more: list[str]) -> str:
    """Return the value of a field; a list is returned as its items joined by commas."""
    if _BLOCK.fullmatch(first):
        return "\n".join(more).strip()
    if (items := _items(first, more)) is not None:
        return ", ".join(items)
    return unquote(" ".join([first, *filter(None, more)]).strip())


def _items(first: str, more: list[str]) -> tuple[str, ...] | None:
    """Return the items of a list; None for a value that is no list."""
    if first.startswith("[") and first.endswith("]"):
        return tuple(unquote(part.strip()) for part in first[1:-1].split(","))
    if not first and more and all(line.startswith("- ") for line in more if line):
        return tuple(unquote(line[2:].strip()) for line in more if line)
    return None


def unquote(text: str) -> str:
    """Return a value without its quotes, or without the comment behind it."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return _ESCAPED.sub(r"\1", text[1:-1]) if text[0] == '"' else text[1:-1].replace("''", "'")
    return text.partition(" #")[0].rstrip()
