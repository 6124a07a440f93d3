"""Finds the files that a command needs in order to run: the system, toolchains, git's configuration."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ....workspace.protected.secret_files import is_secret_file

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/nix", "/gnu", "/snap",
    "/run/current-system", "/proc", "/sys", "/var/lib/dpkg", "/var/lib/rpm",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_OF_PROGRAMS = ("bin", "sbin", "shims", "libexec", "condabin")
_TOO_WIDE = (".local", ".config", ".cache", "Library")
"""Folders of a home that contain far more than programs."""
_TOGETHER = {".cargo": (".rustup",), ".local": (".local/lib",)}
"""Maps a folder of the home to the folders in which its programs search their other files."""
_MOST_PROGRAMS = 500
_PATH_IN_CONFIG = re.compile(
    r"^\s*(?:path|excludesfile|attributesfile|mailmap\.file|file)\s*=\s*\"?([^\"#;\n]+)",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_CONFIG_BYTES = 200_000
_MOST_INCLUDED = 50


@lru_cache(maxsize=8)
def toolchains(search_path: str, home: Path) -> tuple[str, ...]:
    """Return the folders outside of the system that the programs of a search path need, including their own
    folders.
    """
    found: dict[str, None] = {}
    for folder in filter(os.path.isabs, search_path.split(":")):
        for place in (folder, *_follow_links(folder)):
            if not _is_of_system(place):
                found |= dict.fromkeys(_find_program_folders(place, home))
    return tuple(path for path in found if os.path.lexists(path))


def _follow_links(folder: str) -> Iterator[str]:
    """Yield the folders that contain the targets of the links in a folder of programs."""
    real = os.path.realpath(folder)
    yield real
    if _is_of_system(real):
        return
    try:
        with os.scandir(real) as entries:
            links = [entry.path for entry in islice(entries, _MOST_PROGRAMS) if entry.is_symlink()]
    except OSError:
        return
    yield from dict.fromkeys(os.path.dirname(os.path.realpath(link)) for link in links)  # noqa: PTH120


def _find_program_folders(programs: str, home: Path) -> Iterator[str]:
    """Yield the folders that a folder of programs needs: its parent, unless that contains far more than
    programs.
    """
    folder = Path(programs)
    around = folder.parent
    wide = {home, *home.parents, *(home / name for name in _TOO_WIDE)}
    yield str(around if folder.name in _OF_PROGRAMS and around not in wide else folder)
    for name, others in _TOGETHER.items():
        if folder.is_relative_to(home / name):
            yield from (str(home / other) for other in others)


def _is_of_system(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in SYSTEM)


def git_files(home: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files of a person's git configuration, and the files that they name."""
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    first = [home / ".gitconfig", *(config / name for name in ("config", "ignore", "attributes"))]
    first += [Path(env[name]) for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if env.get(name)]
    found: dict[str, None] = {}
    waiting = [*first, home / ".gitignore", home / ".gitattributes", home / ".mailmap"]
    while waiting and len(found) < _MOST_INCLUDED:
        path = waiting.pop(0)
        real = os.path.realpath(path)
        if real in found or not os.path.isfile(real) or is_secret_file(real):  # noqa: PTH113
            continue
        found[real] = None
        waiting += _find_named(path, real, home)
    return tuple(found)


def _find_named(path: Path, real: str, home: Path) -> list[Path]:
    try:
        modified = os.stat(real).st_mtime_ns  # noqa: PTH116
    except OSError:
        return []
    return [path.parent / name for name in _paths_in(real, modified, str(home))]


@lru_cache(maxsize=64)
def _paths_in(real: str, modified_ns: int, home: str) -> tuple[str, ...]:
    try:
        with open(real, "rb") as file:  # noqa: PTH123
            text = file.read(_MOST_CONFIG_BYTES).decode(errors="replace")
    except OSError:
        return ()
    names = (found[1].strip() for found in _PATH_IN_CONFIG.finditer(text))
    return tuple(home + name[1:] if name.startswith("~/") else name for name in names)
