"""Opens files without ever waiting for one, and says in a sentence what is wrong with a path."""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from .safe_open import LinkInTheWay, OutOfReach, Reach, folder_at, open_in, real_path, split

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def resolved(path: str, cwd: Path) -> Path:
    """Return the absolute path; `..` stays, because beyond a link only the system knows what it means."""
    return cwd / os.path.expanduser(path)  # noqa: PTH111 -- Path.expanduser raises for unknown users


def leads_of(paths: Iterable[str], cwd: Path) -> list[str]:
    """Return where paths lead, as they are written in a call; not those that lead nowhere at this moment."""
    found: list[str] = []
    for path in paths:
        with suppress(OSError, ValueError):
            found.append(str(real_path(resolved(path, cwd))))
    return found


def shown(path: str | Path) -> str:
    """Return a path as one line of valid text: bytes that are no UTF-8 replaced, controls written out."""
    text = os.fsencode(path).decode(errors="replace")
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_from(path: str | Path, cwd: Path) -> str:
    """Return a path as the model should write it: relative below the working folder, else absolute."""
    text, base = os.fspath(path), os.path.join(os.fspath(cwd), "")  # noqa: PTH118 -- keeps the slash
    return shown(text[len(base) :] if text.startswith(base) and len(text) > len(base) else text)


def size_text(size: int) -> str:
    """Return a size for people, such as `12.3 KB`."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    value = float(size)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as `1 file` or `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class FileStat(NamedTuple):
    """What changes when a file does."""

    mode: int
    """With the file type."""
    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStat:
        return cls(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@contextmanager
def opened(path: str | Path, flags: int) -> Generator[int]:
    """Yield the open file or folder, which no child process gets."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_SPECIAL = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
_MEANINGS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.ELOOP: "its links lead in a circle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EBUSY: "it is in use or a mount point, so that it cannot be replaced as a whole",
    errno.EXDEV: "it is a mount point, so that it cannot be replaced as a whole",
    errno.EPERM: "the operation is not permitted; the file or folder may be immutable",
    errno.EACCES: "permission denied",
    errno.EAGAIN: "nothing to read from it now",
}
_MOST_NAMES = 5000


class FileProblem(Exception):
    """A file cannot be used as asked; the message is for the model."""


class IsFolder(FileProblem):
    """A folder where a file is wanted."""


def problem(path: Path, error: OSError, wish: str) -> FileProblem:
    """Translate a system error met while `wish` ("read", "written") was done to `path`."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileProblem(_missing(path))
    if isinstance(error, IsADirectoryError):
        return FileProblem(f"{shown(path)} is a folder.")
    if isinstance(error, LinkInTheWay):
        return FileProblem(f"{shown(path)} cannot be {wish}: {error.strerror}. Try again.")
    reason = _MEANINGS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    return FileProblem(f"{shown(path)} cannot be {wish}: {reason}.")


@contextmanager
def translated(path: Path, wish: str) -> Generator[None]:
    """Turn the system's errors into a `FileProblem`."""
    try:
        yield
    except OSError as error:
        raise problem(path, error, wish) from None


def located(path: Path, reach: Reach, wish: str, *, is_new: bool = False, searches: bool = False) -> Path:
    """Return where a path leads, to use what is there with no link followed any more; or a `FileProblem`.

    `is_new`: there need not be anything. One that `searches` may begin below what was judged.
    """
    with translated(path, wish):
        try:
            real = reach.real(path, searches=searches)
        except OutOfReach as place:
            raise FileProblem(
                f"{shown(path)} leads to {shown(str(place))}, which is not where it led when the call was"
                f" judged, or outside of the workspace. Nothing was {wish}."
            ) from None
        if not is_new and path.is_symlink() and not real.exists():
            raise FileProblem(f"{shown(path)} is a link to a file that does not exist.")
        return real


def special_kind(mode: int) -> str | None:
    """Name a file that is neither regular nor a folder nor a link."""
    return next((name for is_kind, name in _SPECIAL if is_kind(mode)), None)


def require_regular(path: Path, status: os.stat_result) -> None:
    """Refuse folders, pipes, sockets and devices."""
    if stat.S_ISDIR(status.st_mode):
        raise IsFolder(f"{shown(path)} is a folder.")
    if not stat.S_ISREG(status.st_mode):
        kind = special_kind(status.st_mode) or "no regular file"
        raise FileProblem(f"{shown(path)} is {kind}, not a file with content.")


def open_regular(path: Path) -> BufferedReader:
    """Open the regular file that has this real path for reading; anything else is a `FileProblem`."""
    folder, name = split(path)
    with translated(path, "read"), folder_at(folder) as there:
        status = os.stat(name, dir_fd=there, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise LinkInTheWay
        # Looked at first, because opening alone makes some devices act.
        require_regular(path, status)
        descriptor = open_in(there, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        file = os.fdopen(descriptor, "rb")
        try:
            require_regular(path, os.fstat(descriptor))
        except FileProblem:
            file.close()
            raise
        return file


def _missing(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        above = next((parent for parent in folder.parents if parent.is_dir()), Path("/"))
        return f"{shown(path)} does not exist: the last folder on the way that does is {shown(above)}."
    near = similar_names(folder, path.name)
    hint = f" Similar names there: {', '.join(near)}." if near else ""
    return f"{shown(path)} does not exist.{hint}"


def similar_names(folder: Path, name: str) -> list[str]:
    """Return names in the folder, by its real path, that the model may have meant."""
    try:
        with folder_at(folder, os.O_RDONLY) as there, os.scandir(there) as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    lowered = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    return [shown(lowered[match]) for match in near]


def require_folder(path: Path) -> Path:
    """Return the folder itself, all links followed."""
    root, names = folder_and_file(path)
    if names:
        raise FileProblem(f"{shown(path)} is a file, not a folder.")
    return root


def folder_and_file(path: Path) -> tuple[Path, list[str]]:
    """Return the folder to start in, and the one file to search if the path is a file."""
    with translated(path, "searched"):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return path, []
        require_regular(path, status)
        return path.parent, [path.name]


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for nobody else to look into."""
    while True:
        if not folder.parent.exists():
            make_private(folder.parent)
        # Another call that ends removes an empty folder of the session.
        with suppress(FileNotFoundError):
            folder.mkdir(mode=0o700, exist_ok=True)
            return
