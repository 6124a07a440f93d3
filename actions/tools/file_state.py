"""What is at a path right now: a file, a link, nothing, or something that has no content."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from actions.tools.atomic import Version
from actions.tools.file_text import MAX_BYTES
from actions.tools.files import FileProblem, open_regular


@dataclass(frozen=True, slots=True)
class FileState:
    """A link counts as a file whose content is its target."""

    version: Version | None = None
    """None: there is nothing."""
    mode: int | None = None
    """As in `FileChange`; None where there is neither file nor link."""
    content: bytes | None = None
    """None too if it is too large or cannot be read."""

    @property
    def digest(self) -> str | None:
        return None if self.content is None else digest_of(self.content)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def recorded_mode(mode: int) -> int | None:
    """Return a mode as it is recorded; None for what is neither a file nor a link."""
    if stat.S_ISLNK(mode):
        return mode
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def state_at(path: Path, max_bytes: int = MAX_BYTES) -> FileState:
    """Read what is there."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    try:
        if stat.S_ISLNK(status.st_mode):
            return FileState(Version.of(status), status.st_mode, os.fsencode(path.readlink()))
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            content = file.read(max_bytes + 1)
    except (FileProblem, OSError):
        return FileState(Version.of(status), recorded_mode(status.st_mode))
    return FileState(
        Version.of(status), recorded_mode(status.st_mode), content if len(content) <= max_bytes else None
    )
