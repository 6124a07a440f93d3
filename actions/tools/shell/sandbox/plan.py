"""Plans which files commands in a sandbox may write and read, as a list of mounts with parents first."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from .....state.lazy_dataclass import dataclass
from ....workspace.protected.place_finder import PlaceFinder
from ....workspace.protected.protected_places import is_writable_by_approval
from ....workspace.protected.secret_files import SECRET_FILES, SECRET_FOLDERS, SYSTEM_SECRETS, is_secret_file

Access = Literal["read", "write", "hide"]


class Mount(NamedTuple):
    path: Path
    access: Access
    source: Path | None = None
    """The source of the mount, if it differs from the path."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The limits of one process. They are generous, and only end runaway processes."""

    memory_bytes: int = 0
    """The writable private memory in bytes; 0 for three quarters of the machine's memory, at least 2 GB."""
    processes: int = 2000
    """The most processes at once, in addition to those that the machine runs already."""
    file_bytes: int = 20_000_000_000
    cpu_s: int = 4 * 3600


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    mounts: tuple[Mount, ...]
    """The mounts. The rest of the machine is read-only. A mount comes after the mounts of the folders above
    it.
    """
    roots: tuple[Path, ...]
    """The writable folders. Protected files that a command creates there are moved away when the command
    ends.
    """
    kept: tuple[str, ...]
    """The protected places that exist already."""
    absent: tuple[Path, ...]
    """The files of repositories that name programs and that do not exist."""
    is_approved: bool
    """Whether a person or a rule allowed this command. Then it may write secret files, and the files that
    installers write.
    """
    temp: Path
    """The folder that commands see as `/tmp`."""
    has_network: bool = False
    """Whether commands use the machine's own network without limits."""
    has_proxy: bool = False
    """Whether commands have a separate network with a proxy outside."""
    limits: ResourceLimits = field(default_factory=ResourceLimits)


TEMP = Path("/tmp")
_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info/attributes")
"""The files of git that name programs, or further files that do. Git may write all other files."""
_MOST_IN_HOME = 5000
"""The most entries of the home folder that are checked by name."""


def plan_for(
    roots: Sequence[Path],
    home: Path,
    temp: Path,
    private: Iterable[Path] = (),
    own_settings: Iterable[Path] = (),
    network: Literal["none", "proxy", "all"] = "none",
    limits: ResourceLimits | None = None,
    finder: PlaceFinder | None = None,
    is_approved: bool = False,
) -> SandboxPlan:
    """Plan the sandbox of commands in `roots`. `private` places are hidden, `own_settings` are read-only.

    `finder`: the cached search of the workspace. `is_approved`: see `SandboxPlan`.
    """
    real = [Path(os.path.realpath(root)) for root in roots]
    found = (finder or PlaceFinder()).find(map(str, real))
    kept = [path for path in found.protected if not (is_approved and is_writable_by_approval(path))]
    of_git = [place for git in found.repositories for place in _of_git(Path(git))]
    existing = [*map(Path, kept), *(place for place in of_git if os.path.lexists(place))]
    hidden = [Path(os.path.realpath(place)) for place in (*secrets_of(home), *private)]
    mounts = [
        Mount(TEMP, "write", temp),
        *(Mount(root, "write") for root in real),
        # A folder with a protected file must not be moved, because the command could create the file again.
        *(Mount(folder, "write") for folder in _folders_between(existing, real)),
        *(Mount(place, "read") for place in (*existing, *own_settings) if _is_solid(place)),
        *(Mount(place, "hide") for place in hidden if _is_solid(place) and place not in real),
    ]
    return SandboxPlan(
        mounts=tuple(_skip_hidden(sorted(dict.fromkeys(mounts), key=lambda mount: len(mount.path.parts)))),
        roots=tuple(real),
        kept=tuple(kept),
        absent=tuple(place for place in of_git if not os.path.lexists(place) and place.parent.is_dir()),
        is_approved=is_approved,
        temp=temp,
        has_network=network == "all",
        has_proxy=network == "proxy",
        limits=limits or ResourceLimits(),
    )


def secrets_of(home: Path) -> Iterator[Path]:
    """Yield the existing places of secrets in a home and on the machine: whole folders, and single files."""
    yield from (Path(place) for place in list_secret_places(home) if os.path.lexists(place))
    with suppress(OSError), os.scandir(home) as entries:
        for entry in islice(entries, _MOST_IN_HOME):
            if is_secret_file(entry.path) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def list_secret_places(home: Path) -> tuple[str, ...]:
    """Return all places of secrets in a home and on the machine. They need not exist."""
    return (*(f"{home}/{name}" for name in (*SECRET_FOLDERS, *SECRET_FILES)), *SYSTEM_SECRETS)


def _skip_hidden(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Yield the mounts, except those inside hidden folders, which are empty."""
    kept: dict[Path, Access] = {}
    for mount in mounts:
        above = next((kept[folder] for folder in mount.path.parents if folder in kept), "read")
        if above != "hide" or mount.access == "write":
            kept[mount.path] = mount.access
            yield mount


def _of_git(git: Path) -> Iterator[Path]:
    """Yield the files in a git folder that name programs, and a file that refers to another git folder."""
    if not git.is_dir() or git.is_symlink():
        # The location of the repository. With another folder at this path, it would be a different
        # repository.
        yield git
        return
    modules = git / "modules"
    for folder in (git, *(modules.iterdir() if modules.is_dir() else ())):
        yield from (folder / name for name in _OF_GIT)


def _folders_between(places: Iterable[Path], roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders that contain a place, up to the nearest root, and all roots."""
    for place in places:
        for folder in place.parents:
            if folder in roots:
                break
            yield folder
    yield from roots


def _is_solid(path: Path) -> bool:
    """Return whether a path can be a mount point. A link cannot, because its target is elsewhere."""
    return path.exists() and not path.is_symlink()


def environment_of(plan: SandboxPlan, proxy: str) -> Mapping[str, str]:
    """Return the variables for commands: the folders for temporary files, and the proxy if there is one."""
    kept = {"TMPDIR": str(TEMP), "XDG_CACHE_HOME": f"{TEMP}/.cache", "npm_config_cache": f"{TEMP}/.npm"}
    if plan.has_proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            kept |= {name: proxy, name.upper(): proxy}
        kept |= {name: "localhost,127.0.0.1,::1" for name in ("no_proxy", "NO_PROXY")}
    return kept
