"""Opens files without ever blocking, and describes problems with a path in one sentence."""

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

from ...state.errors import LIMITS
from .safe_open import LinkInTheWay, OutOfScope, PathScope, open_folder, open_in, resolve_real_path, split

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def make_absolute(path: str, cwd: Path) -> Path:
    """Return the absolute path. It keeps `..`, because only the system knows what `..` means after a link."""
    return cwd / os.path.expanduser(path)  # noqa: PTH111 -- Path.expanduser raises for unknown users


def resolve_paths(paths: Iterable[str], cwd: Path) -> list[str]:
    """Return the real paths of the paths in a call. Paths that cannot be resolved now are left out."""
    found: list[str] = []
    for path in paths:
        with suppress(OSError, ValueError):
            found.append(str(resolve_real_path(make_absolute(path, cwd))))
    return found


def make_argument(word: str) -> str:
    """Return a word that a program can be started with. A locale that cannot encode it gets it as UTF-8."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return os.fsdecode(word.encode(errors="surrogateescape"))
    return word


def format_path(path: str | Path) -> str:
    """Return a path as one line of valid text: invalid UTF-8 is replaced, control characters are escaped."""
    text = os.fsencode(path).decode(errors="replace")
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def format_path_from(path: str | Path, cwd: Path) -> str:
    """Return a path as the model should write it: relative below the working folder, otherwise absolute."""
    text, base = os.fspath(path), os.path.join(os.fspath(cwd), "")  # noqa: PTH118 -- keeps the slash
    return format_path(text[len(base) :] if text.startswith(base) and len(text) > len(base) else text)


def format_size(size: int) -> str:
    """Return a size for people, such as `12.3 KB`."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    value = float(size)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 file` or `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class FileStat(NamedTuple):
    """The values of a file's status that change when the file changes."""

    mode: int
    """The mode with the file type."""
    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStat:
        return cls(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@contextmanager
def open_descriptor(path: str | Path, flags: int) -> Generator[int]:
    """Open a file or folder and yield its descriptor; child processes do not inherit it."""
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
    errno.ELOOP: "its links form a cycle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EBUSY: "it is in use or a mount point, so that it cannot be replaced as a whole",
    errno.EXDEV: "it is a mount point, so that it cannot be replaced as a whole",
    errno.EPERM: "the operation is not permitted; the file or folder may be immutable",
    errno.EACCES: "permission denied",
    **{number: f"the system allows {what}; raise {how}" for number, (what, how) in LIMITS.items()},
    errno.EAGAIN: "there is nothing to read from it now",
}
_MOST_NAMES = 5000


class FileProblem(Exception):
    """A request about files cannot be fulfilled. The message is for the model."""


class IsFolder(FileProblem):
    """The path is a folder, but a file is needed."""


def make_file_problem(path: Path, error: OSError, wish: str) -> FileProblem:
    """Convert a system error into a `FileProblem`. `wish` is the intended operation as a participle, such as
    "read".
    """
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileProblem(_describe_missing(path))
    if isinstance(error, IsADirectoryError):
        return FileProblem(f"{format_path(path)} is a folder.")
    if isinstance(error, LinkInTheWay):
        return FileProblem(f"{format_path(path)} cannot be {wish}: {error.strerror}. Try again.")
    return FileProblem(f"{format_path(path)} cannot be {wish}: {describe_error(error)}.")


def describe_error(error: OSError) -> str:
    """Return a system error as a clause."""
    return _MEANINGS.get(error.errno or 0) or (error.strerror or str(error)).lower()


@contextmanager
def translate_errors(path: Path, wish: str) -> Generator[None]:
    """Convert system errors into a `FileProblem`. `wish` is as in `make_file_problem`."""
    try:
        yield
    except OSError as error:
        raise make_file_problem(path, error, wish) from None


def locate(path: Path, reach: PathScope, wish: str, *, is_new: bool = False, searches: bool = False) -> Path:
    """Return the real path of `path`, which can be opened without following links. Raises `FileProblem`.

    `is_new`: the file need not exist. `searches`: the path may be below a judged path.
    """
    with translate_errors(path, wish):
        try:
            real = reach.resolve(path, searches=searches)
        except OutOfScope as place:
            raise FileProblem(
                f"{format_path(path)} leads to {format_path(str(place))}, which is not the target that"
                f" it had when the call was judged, or is outside of the workspace. Nothing was {wish}."
            ) from None
        if not is_new and reach.find_on_disk(path).is_symlink() and not real.exists():
            raise FileProblem(f"{format_path(path)} is a link to a file that does not exist.")
        return real


def name_special_kind(mode: int) -> str | None:
    """Return the name of a special kind of file, such as "a socket". Return None for a regular file, a folder
    or a link.
    """
    return next((name for is_kind, name in _SPECIAL if is_kind(mode)), None)


def require_regular(path: Path, status: os.stat_result) -> None:
    """Raise `FileProblem` for folders, pipes, sockets and devices."""
    if stat.S_ISDIR(status.st_mode):
        raise IsFolder(f"{format_path(path)} is a folder.")
    if not stat.S_ISREG(status.st_mode):
        kind = name_special_kind(status.st_mode) or "no regular file"
        raise FileProblem(f"{format_path(path)} is {kind}, not a file with content.")


def open_regular(path: Path) -> BufferedReader:
    """Open the regular file at a real path for reading. Raises `FileProblem` for anything else."""
    folder, name = split(path)
    with translate_errors(path, "read"), open_folder(folder) as there:
        status = os.stat(name, dir_fd=there, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise LinkInTheWay
        # The type is checked first, because opening some devices already has an effect.
        require_regular(path, status)
        descriptor = open_in(there, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        file = os.fdopen(descriptor, "rb")
        try:
            require_regular(path, os.fstat(descriptor))
        except FileProblem:
            file.close()
            raise
        return file


def _describe_missing(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        above = next((parent for parent in folder.parents if parent.is_dir()), Path("/"))
        nearest = format_path(above)
        return f"{format_path(path)} does not exist: the nearest folder above it that exists is {nearest}."
    near = find_similar_names(folder, path.name)
    hint = f" Similar names there: {', '.join(near)}." if near else ""
    return f"{format_path(path)} does not exist.{hint}"


def find_similar_names(folder: Path, name: str) -> list[str]:
    """Return names in the folder (a real path) that are similar to the name that the model used."""
    try:
        with open_folder(folder, os.O_RDONLY) as there, os.scandir(there) as entries:
            names = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    lowered = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    return [format_path(lowered[match]) for match in near]


def require_folder(path: Path) -> Path:
    """Return the folder. Raises `FileProblem` if the path is a file."""
    root, names = split_folder_and_file(path)
    if names:
        raise FileProblem(f"{format_path(path)} is a file, not a folder.")
    return root


def split_folder_and_file(path: Path) -> tuple[Path, list[str]]:
    """Return the folder in which a search starts. If the path is a file, also return the name of this
    file.
    """
    with translate_errors(path, "searched"):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return path, []
        require_regular(path, status)
        return path.parent, [path.name]


def make_private(folder: Path) -> None:
    """Create a folder, and its missing parents, that only the user can read."""
    while True:
        if not folder.parent.exists():
            make_private(folder.parent)
        # Another call may remove the empty folder at the same time. Then the loop tries again.
        with suppress(FileNotFoundError):
            folder.mkdir(mode=0o700, exist_ok=True)
            return
