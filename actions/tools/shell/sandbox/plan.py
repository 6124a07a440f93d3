"""What commands in a sandbox may write and read: a list of mounts, parents first."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from ....workspace.protected.place_finder import PlaceFinder
from ....workspace.protected.protected_places import is_writable_by_approval
from ....workspace.protected.secret_files import SECRET_FILES, SECRET_FOLDERS, SYSTEM_SECRETS, is_secret_file

Access = Literal["read", "write", "hide"]


class Mount(NamedTuple):
    path: Path
    access: Access
    source: Path | None = None
    """The source of the mount, if it differs from its place."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of one process. They are generous, to end runaway processes only."""

    memory_bytes: int = 0
    """Writable private memory; 0: three quarters of the machine's, at least 2 GB."""
    processes: int = 2000
    """At once, beyond those that the machine runs already."""
    file_bytes: int = 20_000_000_000
    cpu_s: int = 4 * 3600


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    mounts: tuple[Mount, ...]
    """The rest of the machine is read-only. A mount comes after those of the folders above it."""
    roots: tuple[Path, ...]
    """The writable folders: protected files created there are moved away when a command ends."""
    kept: tuple[str, ...]
    """Protected places that are there already."""
    absent: tuple[Path, ...]
    """Parts of repositories that name programs and are not there."""
    is_approved: bool
    """A person or a rule allowed this command: it may write secret files, and the files that installers
    write."""
    temp: Path
    """The folder that commands see as `/tmp`."""
    has_network: bool = False
    """The machine's own network, unrestricted."""
    has_proxy: bool = False
    """A separate network with a proxy outside."""
    limits: ResourceLimits = field(default_factory=ResourceLimits)


TEMP = Path("/tmp")
_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info/attributes")
"""Git's files that name programs, or other places to look for them. Git may write the rest."""
_MOST_IN_HOME = 5000
"""Entries of the home folder that are looked at by name."""


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
    """Plan the sandbox of commands in `roots`; `private` is hidden, `own_settings` are read-only.

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
        # A folder with a protected file must not be moved: otherwise the file could be created again.
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
    """Yield the places of secrets of a home and of the machine: folders whole, files one by one."""
    yield from (Path(place) for place in list_secret_places(home) if os.path.lexists(place))
    with suppress(OSError), os.scandir(home) as entries:
        for entry in islice(entries, _MOST_IN_HOME):
            if is_secret_file(entry.path) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def list_secret_places(home: Path) -> tuple[str, ...]:
    """Return all places of secrets of a home and of the machine, whether they are there or not."""
    return (*(f"{home}/{name}" for name in (*SECRET_FOLDERS, *SECRET_FILES)), *SYSTEM_SECRETS)


def _skip_hidden(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Leave out mounts in hidden folders, which are empty."""
    kept: dict[Path, Access] = {}
    for mount in mounts:
        above = next((kept[folder] for folder in mount.path.parents if folder in kept), "read")
        if above != "hide" or mount.access == "write":
            kept[mount.path] = mount.access
            yield mount


def _of_git(git: Path) -> Iterator[Path]:
    """Yield the files in a git folder that name programs, and a file that refers to another git folder."""
    if not git.is_dir() or git.is_symlink():
        # The location of the repository: with another folder there it would be a different repository.
        yield git
        return
    modules = git / "modules"
    for folder in (git, *(modules.iterdir() if modules.is_dir() else ())):
        yield from (folder / name for name in _OF_GIT)


def _folders_between(places: Iterable[Path], roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders in which a place is, below the nearest root and that itself."""
    for place in places:
        for folder in place.parents:
            if folder in roots:
                break
            yield folder
    yield from roots


def _is_solid(path: Path) -> bool:
    """Return whether a path can be a mount point: a link cannot, and its target is elsewhere."""
    return path.exists() and not path.is_symlink()


def environment_of(plan: SandboxPlan, proxy: str) -> Mapping[str, str]:
    """Return what commands find in their environment: where to write, and the way out if there is one."""
    kept = {"TMPDIR": str(TEMP), "XDG_CACHE_HOME": f"{TEMP}/.cache", "npm_config_cache": f"{TEMP}/.npm"}
    if plan.has_proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            kept |= {name: proxy, name.upper(): proxy}
        kept |= {name: "localhost,127.0.0.1,::1" for name in ("no_proxy", "NO_PROXY")}
    return kept
