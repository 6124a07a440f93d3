"""What commands in a sandbox may write and see: a list of mounts, from the root to the leaves."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Access = Literal["read", "write", "hide"]


class Mount(NamedTuple):
    path: Path
    access: Access
    source: Path | None = None
    """What is seen there, if it is something else."""


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What one process of a command may take. Generous: they end what has run wild, not what is large."""

    memory_bytes: int = 0
    """Of its own writable memory; 0: three quarters of the machine's, at least 2 GB."""
    processes: int = 2000
    """At once, beyond those that the machine runs already."""
    file_bytes: int = 20_000_000_000
    cpu_s: int = 4 * 3600


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    mounts: tuple[Mount, ...]
    """The rest of the machine can be read. A mount comes after those of the folders above it."""
    absent: tuple[Path, ...]
    """Protected places that do not exist: what a command makes there is moved away when it ends."""
    temp: Path
    """What commands see as `/tmp`."""
    has_network: bool = False
    """The machine's own network, whole."""
    has_proxy: bool = False
    """An own network, where somebody outside listens."""
    limits: ResourceLimits = field(default_factory=ResourceLimits)


TEMP = Path("/tmp")
_ALWAYS_PROTECTED = (
    ".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
    ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".kshrc", ".inputrc", ".ripgreprc", ".envrc",
    ".vscode", ".idea", ".zed", ".cursor", ".devcontainer", ".github", ".gitlab-ci.yml", ".circleci",
    ".husky", ".githooks", ".pre-commit-config.yaml", ".mcp.json", ".sandbur", ".claude", ".codex",
    ".gemini", ".agents",
)  # fmt: skip
"""Files and folders that other programs run or obey: those of shells, editors, CI, hooks and agents."""
_OF_GIT = ("hooks", "config", "config.worktree", "commondir", "info/attributes")
"""What names programs that git runs, or another place to look for them."""
_SECRET = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".my.cnf", ".pypirc",
    ".git-credentials", ".password-store", ".config/gcloud", ".config/gh", ".config/op", ".config/hub",
    ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", ".claude.json",
    ".codex/auth.json", ".cargo/credentials.toml", ".vault-token",
)  # fmt: skip
"""Below the home folder: keys, tokens and what browsers know."""
_MOST_ENTRIES = 2000
"""Looked through for repositories within the workspace."""


def plan_for(
    roots: Sequence[Path],
    home: Path,
    temp: Path,
    private: Iterable[Path] = (),
    own_settings: Iterable[Path] = (),
    network: Literal["none", "proxy", "all"] = "none",
    limits: ResourceLimits | None = None,
) -> SandboxPlan:
    """Plan for commands that work in `roots`; `private` is hidden, `own_settings` are read-only."""
    real = [Path(os.path.realpath(root)) for root in roots]
    guarded = [*real, *_repositories(real)]
    places = [place for root in guarded for place in _protected(root)]
    existing = [place for place in places if os.path.lexists(place)]
    hidden = [Path(os.path.realpath(place)) for place in (*(home / name for name in _SECRET), *private)]
    mounts = [
        Mount(TEMP, "write", temp),
        *(Mount(root, "write") for root in real),
        # A folder with something protected in it stays where it is: moved away, it could be made anew.
        *(Mount(folder, "write") for folder in _folders_between(existing, guarded)),
        *(Mount(place, "read") for place in (*existing, *own_settings) if _is_solid(place)),
        *(Mount(place, "hide") for place in hidden if _is_solid(place) and place not in real),
    ]
    return SandboxPlan(
        mounts=tuple(_needed(sorted(dict.fromkeys(mounts), key=lambda mount: len(mount.path.parts)))),
        absent=tuple(place for place in places if not os.path.lexists(place) and place.parent.is_dir()),
        temp=temp,
        has_network=network == "all",
        has_proxy=network == "proxy",
        limits=limits or ResourceLimits(),
    )


def _needed(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Leave out what is in a hidden folder: nothing of it is there any more."""
    kept: dict[Path, Access] = {}
    for mount in mounts:
        above = next((kept[folder] for folder in mount.path.parents if folder in kept), "read")
        if above != "hide" or mount.access == "write":
            kept[mount.path] = mount.access
            yield mount


def _protected(root: Path) -> Iterator[Path]:
    """Yield the protected places of a folder, as they are spelled there: some file systems ignore case."""
    git = root / ".git"
    if git.is_file():
        # Where the repository is: a folder in its place would be another one.
        yield git
    if git.is_dir() and not git.is_symlink():
        yield from (git / name for name in _OF_GIT)
        modules = git / "modules"
        for module in modules.iterdir() if modules.is_dir() else ():
            yield from (module / name for name in _OF_GIT)
    wanted = set(_ALWAYS_PROTECTED)
    with os.scandir(root) as entries:
        for entry in entries:
            if (name := entry.name.lower()) in wanted:
                wanted.discard(name)
                yield root / entry.name
    yield from (root / name for name in sorted(wanted))


def _repositories(roots: Iterable[Path]) -> Iterator[Path]:
    """Yield repositories in folders of the roots; a few levels deep, and no further than a moment."""
    left = _MOST_ENTRIES
    waiting = [(root, 0) for root in roots]
    while waiting and left > 0:
        folder, depth = waiting.pop(0)
        try:
            with os.scandir(folder) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        left -= len(below)
        for path in map(Path, below):
            if depth < _DEEPEST and path.name not in _PASSED_OVER:
                waiting.append((path, depth + 1))
            if path.name == ".git" and depth:
                yield folder


_DEEPEST = 2
_PASSED_OVER = frozenset({".git", "node_modules", *_ALWAYS_PROTECTED})


def _folders_between(places: Iterable[Path], roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders in which a place is, below the nearest root and that itself."""
    for place in places:
        for folder in place.parents:
            if folder in roots:
                break
            yield folder
    yield from roots


def _is_solid(path: Path) -> bool:
    """Tell whether something can be mounted there: a link cannot be, and what it leads to is elsewhere."""
    return path.exists() and not path.is_symlink()


def environment_of(plan: SandboxPlan, proxy: str) -> Mapping[str, str]:
    """Return what commands find in their environment: where to write, and the way out if there is one."""
    kept = {"TMPDIR": str(TEMP), "XDG_CACHE_HOME": f"{TEMP}/.cache", "npm_config_cache": f"{TEMP}/.npm"}
    if plan.has_proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            kept |= {name: proxy, name.upper(): proxy}
        kept |= {name: "localhost,127.0.0.1,::1" for name in ("no_proxy", "NO_PROXY")}
    return kept
