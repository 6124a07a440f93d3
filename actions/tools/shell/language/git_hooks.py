"""Finds the hooks that a git command may run, so that its approval covers them."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from posixpath import basename, dirname, expanduser, join, normpath

_MAX_CONFIG_BYTES = 100_000
_RUNS_NO_HOOK = frozenset((
    "blame", "cat-file", "check-ignore", "config", "describe", "diff", "for-each-ref", "grep", "help",
    "init", "log", "ls-files", "ls-tree", "merge-base", "name-rev", "reflog", "remote", "rev-list",
    "rev-parse", "shortlog", "show", "show-ref", "status", "version",
))  # fmt: skip
_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))
_SECTION = re.compile(r"\[\s*core\s*\](.*)", re.IGNORECASE)
_HOOKS_PATH = re.compile(r"hookspath\s*=\s*(.*)", re.IGNORECASE)
_MANAGERS = (
    ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.toml", ".overcommit.yml",
    ".huskyrc", ".lintstagedrc",
)  # fmt: skip
"""Files in which managers of hooks read what a hook runs."""


def find_hooks(words: Sequence[str], folder: str) -> Iterator[str]:
    """Yield the paths of the hooks that a git command with these words may run in a folder.

    Only existing hooks that git would run are listed: a hook that is added later is a new path.
    """
    at = next((at for at, word in enumerate(words) if basename(word) == "git"), None)
    if at is None:
        return
    rest, given = list(words[at + 1 :]), ""
    while rest and rest[0].startswith("-"):
        if rest[0] == "-C" and len(rest) > 1:
            folder = join(folder, expanduser(rest[1]))
        elif rest[0] == "-c" and len(rest) > 1 and rest[1].lower().startswith("core.hookspath="):
            given = rest[1].partition("=")[2]
        del rest[: 2 if rest[0] in _VALUED else 1]
    if not rest or rest[0] in _RUNS_NO_HOOK:
        return
    root = _find_root(folder)
    if root is not None:
        yield from _list_hooks(root, given)


def _find_root(folder: str) -> str | None:
    """Return the nearest folder above that has a `.git`, or that is a bare repository."""
    here = normpath(folder)
    while True:
        if os.path.lexists(join(here, ".git")) or os.path.lexists(join(here, "HEAD")):
            return here
        if here == dirname(here):
            return None
        here = dirname(here)


def _list_hooks(root: str, given: str) -> Iterator[str]:
    own, common = _find_git_folders(root)
    folders = [join(common, "hooks")]
    settings = (join(own, "config.worktree"), join(common, "config"), expanduser("~/.gitconfig"),
                expanduser("~/.config/git/config"), "/etc/gitconfig")  # fmt: skip
    values = filter(None, (given, *(_read_hooks_path(place) for place in settings)))
    folders += (normpath(join(root, expanduser(value.strip('"')))) for value in values)
    found = [hook for folder in dict.fromkeys(folders) for hook in _list_programs(folder)]
    yield from found
    # The hooks of husky run files of the same name in the folder above.
    yield from (place for hook in found if Path(place := _above(hook)).is_file())
    if found:
        yield from (place for name in _MANAGERS if Path(place := join(root, name)).is_file())


def _above(hook: str) -> str:
    return join(dirname(dirname(hook)), basename(hook))


def _find_git_folders(root: str) -> tuple[str, str]:
    """Return the git folder of a working tree, and that of its repository, which has the hooks."""
    git = join(root, ".git")
    if Path(git).is_dir():
        return git, git
    if not Path(git).is_file():
        return root, root
    own = normpath(join(root, _read(git).removeprefix("gitdir:").strip()))
    common = _read(join(own, "commondir")).strip()
    return own, normpath(join(own, common)) if common else own


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_CONFIG_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _read_hooks_path(config: str) -> str:
    """Return the folder of hooks that a configuration file sets; empty if it sets none."""
    is_core, value = False, ""
    for raw in _read(config).splitlines():
        line = raw.strip()
        if line.startswith("["):
            found = _SECTION.match(line)
            is_core, line = found is not None, found[1].strip() if found else ""
        if is_core and (setting := _HOOKS_PATH.match(line)):
            value = setting[1].strip()
    return value


def _list_programs(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 -- names as text
    except OSError:
        return
    for name in names:
        place = join(folder, name)
        if not name.endswith(".sample") and os.access(place, os.X_OK) and Path(place).is_file():
            yield place
