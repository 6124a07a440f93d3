"""Decides whether a read-only git command could run a program that a repository's configuration names."""

import os
import re
import stat
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from posixpath import dirname, join, lexists, realpath, relpath

from ..protected_places import looks_like_repository

_MAX_CONFIG_BYTES = 100_000
_MAX_INDEX_BYTES = 50_000_000
_MAX_FOLDERS = 20_000
_SETTLED_NS = 2_000_000_000
"""A folder whose last change is more recent, in nanoseconds, may change again without a new time stamp."""
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"(?:[^"\\]|\\.)*")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks"
    r"|autocrlf|eol|safecrlf|abbrev|quotepath|compression|bigfilethreshold|commentchar|whitespace|checkstat"
    r"|trustctime|preloadindex|untrackedcache|longpaths|protecthfs|protectntfs|commitgraph"
    r"|editor|pager|sharedrepository|deltabasecachelimit|packedgitlimit|packedgitwindowsize|hidedotfiles"
    r"|multipackindex|loosecompression|fscache)"
    r"|remote\.(?:url|fetch|pushurl|push|prune|tagopt|mirror|gh-resolved|skipfetchall)"
    r"|branch\.(?:remote|merge|rebase|pushremote|autosetuprebase|autosetupmerge|description|sort|vscode-merge-base"
    r"|gh-merge-base|github-pr-owner-number)"
    r"|user\.(?:name|email|signingkey|useconfigonly)|author\.\w+|committer\.\w+|pull\.(?:rebase|ff)|push\.\w+"
    r"|color\.[\w.-]+|merge\.(?:conflictstyle|ff|renamelimit|tool)|rerere\.(?:enabled|autoupdate)|advice\.\w+"
    r"|init\.defaultbranch|commit\.gpgsign|tag\.gpgsign|fetch\.(?:prune|prunetags|parallel|writecommitgraph)"
    r"|gc\.[\w.-]+|pack\.\w+|column\.\w+|help\.\w+|http\.[\w.-]+|https\.[\w.-]+|url\.\w+|alias\.[\w-]+|gui\.[\w.-]+"
    r"|receive\.\w+|status\.(?:short|branch|showuntrackedfiles|relativepaths)|rebase\.\w+|maintenance\.\w+"
    r"|diff\.(?:renames|renamelimit|algorithm|context|mnemonicprefix|noprefix|colormoved|tool|wserrorhighlight)"
    r"|log\.(?:date|abbrevcommit|follow|decorate|showroot)"
    r"|blame\.(?:date|coloring|showemail|showroot|blankboundary|markignoredlines|markunblamablelines)"
    r"|feature\.\w+|index\.(?:threads|version|sparse|recordendofindexentries|recordoffsettable|skiphash)"
    r"|versionsort\.\w+"
    r"|transfer\.\w+|credential\.\w+|lfs\.[\w.-]+|github\.\w+|gitlab\.\w+|svn\.\w+|sequence\.\w+|i18n\.\w+"
)
"""The configuration keys with which a read-only git command runs no program. A pager is harmless, because it
needs a terminal; an alias is harmless, because it has another name."""
_ENVIRONMENT = re.compile(
    r"GIT_(?:DIR|WORK_TREE|CONFIG.*|EXTERNAL_DIFF|EXEC_PATH|OBJECT_DIRECTORY|ALTERNATE.*|COMMON_DIR|NAMESPACE)"
)
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of an index entry that is a nested repository. The configuration of that repository applies,
too."""


def why_git_may_run_more(folder: str, may_be_linked: bool = False) -> str | None:
    """Return why a read-only git command in a folder may run other programs, or None if it cannot.

    `may_be_linked`: if the folder is a linked working tree, judge the repository that it belongs to.
    """
    if found := next((name for name in os.environ if _ENVIRONMENT.fullmatch(name)), None):
        return f"{found} is set, which git obeys"
    repository = find_repository(folder)
    if repository is None:
        return None
    own, git = git_folders(repository) if may_be_linked else (join(repository, ".git"),) * 2
    if not lexists(git) or not stat.S_ISDIR(os.lstat(git).st_mode):
        return f"{repository} has no plain .git folder"
    for name in ("commondir", "config.worktree", "objects/info/alternates", "modules"):
        if lexists(join(git, name)):
            return f"the repository has {name}"
    if any(entry.name.startswith("sharedindex.") for entry in os.scandir(git)):
        return "the repository's index has a second part"
    if link := _link_inside(git):
        return f"{relpath(link, repository)} is a link, or could not be looked at"
    return _check_config(repository, git) or _check_index(join(own, "index"))


def git_folders(repository: str) -> tuple[str, str]:
    """Return the git folder of a working tree, and the git folder of its repository."""
    git = join(repository, ".git")
    try:
        if not stat.S_ISREG(os.lstat(git).st_mode):
            return git, git
        own = realpath(join(repository, _line_of(git).removeprefix("gitdir: ")))
        common = realpath(join(own, _line_of(join(own, "commondir"))))
        is_both_ways = realpath(_line_of(join(own, "gitdir"))) == realpath(git)
    except (OSError, ValueError):
        return git, git
    return (own, common) if is_both_ways and dirname(dirname(own)) == common else (git, git)


def _line_of(path: str) -> str:
    with Path(path).open(encoding="utf-8") as file:
        return file.readline(4096).rstrip("\n")


def keys_set(repository: str) -> Iterator[tuple[str, str]]:
    """Yield each key with its value that the repository's configuration sets. The repository must have been
    judged before."""
    config = Path(git_folders(repository)[1], "config")
    section = ""
    for raw in config.read_text("utf-8").split("\n") if config.exists() else ():
        line = raw.strip()
        if found := _SECTION.match(line):
            section, line = found[1].lower(), line[found.end() :].strip()
        if found := _KEY.fullmatch(line):
            yield f"{section}.{found[1].lower()}", found[2] or ""


def _link_inside(git: str) -> str | None:
    """Return a link inside of git's own folder, or None. Git would display the content of its target as if it
    were git's own data."""
    waiting = [git]
    for count in range(_MAX_FOLDERS):
        if not waiting:
            return None
        folder = waiting.pop()
        link, folders = _scan_folder(folder)
        if link is not None:
            return join(folder, link)
        # Read-only commands run only one hook, and `_check_config` looks that one up by its name. So
        # the folder of hooks need not be searched.
        waiting += (join(folder, name) for name in folders if count or name != "hooks")
    return waiting[0]


def _scan_folder(folder: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the first link in a folder, and the folders in it."""
    try:
        status = os.lstat(folder)
        if time.time_ns() - status.st_mtime_ns < _SETTLED_NS:
            return _entries(folder)
        return _list_index_entries(folder, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    except OSError:
        return ".", ()


@lru_cache(maxsize=4096)
def _list_index_entries(
    folder: str, modified: int, changed: int, inode: int
) -> tuple[str | None, tuple[str, ...]]:
    return _entries(folder)


def _entries(folder: str) -> tuple[str | None, tuple[str, ...]]:
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                return entry.name, ()
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return None, tuple(folders)


def find_repository(folder: str) -> str | None:
    """Return the folder of the repository that git will use, found in the same way as git does."""
    here = realpath(folder)
    while True:
        if lexists(join(here, ".git")):
            return here
        if looks_like_repository(here):
            return here
        if here == dirname(here):
            return None
        here = dirname(here)


def _check_config(repository: str, git: str) -> str | None:
    try:
        status = os.lstat(join(git, "config"))
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_CONFIG_BYTES:
            return "the repository's configuration is not a plain file"
        # `splitlines` would be wrong here: git does not treat a lone carriage return as a line end.
        text = Path(git, "config").read_bytes().decode().replace("\r\n", "\n")
    except FileNotFoundError:
        text = ""
    except (OSError, ValueError):
        return "the repository's configuration cannot be read"
    key, hooks = _first_risk(text)
    if key:
        return f"the repository's configuration sets {key}, with which git may run a program"
    for place in (join(git, "hooks"), *(join(repository, hook) for hook in hooks)):
        if lexists(join(place, "post-index-change")):
            return "the repository has a hook that read-only git commands run"
    return None


@lru_cache(maxsize=64)
def _first_risk(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the first key that is not known to be harmless, and the configured folders of hooks."""
    hooks: list[str] = []
    section = ""
    if "\r" in text:
        return "something that cannot be read", ()
    for raw in text.split("\n"):
        line = raw.strip()
        if found := _SECTION.match(line):
            section, line = found[1].lower(), line[found.end() :].strip()
        if not line or line[0] in "#;":
            continue
        found = _KEY.fullmatch(line)
        if found is None or line.endswith("\\"):
            return "something that cannot be read", ()
        key, value = f"{section}.{found[1].lower()}", found[2] or ""
        if key == "core.hookspath" and re.fullmatch(r"[\w./-]+", value):
            hooks.append(value)
        elif (key == "core.fsmonitor" and value == "false") or (key == "core.bare" and value == "false"):
            continue
        elif key == "core.bare" or not _HARMLESS.fullmatch(key):
            return key, ()
    return "", tuple(hooks)


def _check_index(path: str) -> str | None:
    content = _index_of(path)
    if content is None:
        return "the repository's index cannot be read"
    return "the repository holds other repositories" if _SUBMODULE in content else None


def read_index(folder: str) -> bytes:
    """Return the index of the repository of a folder. An index contains the names of the repository's
    files."""
    repository = find_repository(folder)
    return b"" if repository is None else _index_of(join(repository, ".git", "index")) or b""


def _index_of(path: str) -> bytes | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_INDEX_BYTES:
        return None
    return _content(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=2)
def _content(path: str, modified: int, changed: int, size: int, inode: int) -> bytes | None:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return None
    # Version 4 of the index stores each name relative to the previous one, and cannot be searched.
    return content if content[4:8] in (b"\0\0\0\2", b"\0\0\0\3") else None
