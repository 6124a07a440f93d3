"""Finds, adds and removes `@path` mentions in messages."""

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from .....state.conversation.attached_texts import remove_files
from .....state.conversation.media_types import SUFFIXES

_FILE_IN_LINE = re.compile(r"\s<(?:file|folder) path=\".*")
MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))')
ATTACHABLE_FILES = tuple(SUFFIXES)
"""The suffixes of pictures, recordings, videos and documents."""


def without_files(text: str) -> str:
    """Return a message without the texts of attached files."""
    return remove_files(text)


def line_without_files(line: str) -> str:
    """Return a message in one line, which may be cut, without the texts of attached files."""
    return _FILE_IN_LINE.sub("", line) if "@" in line else line


def as_mention(pasted: str) -> str:
    """Return a pasted path of a picture, recording, video or document as a mention, other text unchanged."""
    text = pasted.strip()
    if "\n" in text or not text.lower().rstrip("'\"").endswith(ATTACHABLE_FILES):
        return pasted
    try:
        words = [unquote(text.removeprefix("file://"))] if text.startswith("file://") else shlex.split(text)
    except ValueError:
        return pasted
    paths = [Path(word).expanduser() if word.startswith("~/") else Path(word) for word in words]
    try:
        if not all(path.is_absolute() and path.is_file() for path in paths):
            return pasted
    except (OSError, ValueError):
        return pasted
    return " ".join(mention(str(path)) for path in paths) + " "


def mention(path: str) -> str:
    """Return the mention of a path: `@path`, with quotes if the path contains a blank."""
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"
