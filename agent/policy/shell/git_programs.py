"""Decides whether git may run a program that a repository names. No rule with a wildcard covers that."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import expanduser, join, lexists, realpath

from .far_options import GIT_OPTIONS_WITH_VALUE
from .repository import find_repository, git_folders, keys_set, why_git_may_run_more
from .seen_commands import SeenCommand, Sight

_MOST_FOLDERS = 16
_ONLY_LOOKS = re.compile(
    r"blame|cat-file|check-ignore|count-objects|describe|diff(?:-files|-index|-tree)?|for-each-ref|grep|help|log"
    r"|ls-files|ls-tree|merge-base|name-rev|reflog|rev-list|rev-parse|shortlog|show(?:-ref)?|status|symbolic-ref"
    r"|version|whatchanged"
)
"""Read-only subcommands, which `repository.py` judges. A subcommand that changes something uses more of the
configuration."""
_RUNS_NO_HOOK = frozenset(("add", "branch", "clean", "init", "mv", "remote", "restore", "rm", "stash", "tag"))
_OBEYED = re.compile(
    r"core\.(?:editor|hookspath)|sequence\.editor|credential\..*|gui\..*|lfs\..*|help\..*|gc\..*hook|url\..*"
    r"|remote\.(?:url|pushurl)|svn\..*|receive\..*"
)
"""Configuration keys that are harmless only for read-only subcommands."""
_PLAIN_ADDRESS = re.compile(
    r"(?:https?|ssh|git)://\S*|[\w.-]+@[\w.-]+:\S*|[\w.-]+:(?!:)[\w./~-]+|\.{0,2}/\S*", re.ASCII
)


def why_git_may_run_programs(sight: Sight, cwd: str) -> str | None:
    """Return the part of a repository that may make git run a program, or None."""
    folders = [realpath(cwd)]
    for seen in sight.commands:
        if seen.program in ("cd", "pushd") and len(seen.words) > 1:
            # Whether the `cd` succeeds is unknown, so both folders count from here on.
            folders += [realpath(join(folder, expanduser(seen.words[1]))) for folder in folders]
            folders = list(dict.fromkeys(folders))[:_MOST_FOLDERS]
        if seen.program == "git":
            for folder in folders:
                if why := _why(seen, folder):
                    return f"git may run a program of the repository: {why}"
    return None


def _why(seen: SeenCommand, folder: str) -> str | None:
    words = list(seen.words[1:])
    while words and words[0].startswith("-"):
        if words[0] == "-C" and len(words) > 1:
            folder = realpath(join(folder, expanduser(words[1])))
        del words[: 2 if words[0] in GIT_OPTIONS_WITH_VALUE else 1]
    if not words or not Path(folder).is_dir():
        return None
    if why := why_git_may_run_more(folder, may_be_linked=True):
        return why
    if _ONLY_LOOKS.fullmatch(words[0]) is not None:
        return None
    repository = find_repository(folder)
    return None if repository is None else _why_acting(words[0], repository)


def _why_acting(subcommand: str, repository: str) -> str | None:
    """Return the program that a subcommand which changes something may run, as a clause; None if none."""
    for key, value in keys_set(repository):
        if key == f"alias.{subcommand}":
            return f"the repository's configuration sets {key}"
        if key in ("remote.url", "remote.pushurl") and _PLAIN_ADDRESS.fullmatch(value) is not None:
            continue
        if _OBEYED.fullmatch(key) is not None:
            return f"the repository's configuration sets {key}, which git {subcommand} may obey"
    if subcommand in _RUNS_NO_HOOK:
        return None
    hook = next(_hooks(join(git_folders(repository)[1], "hooks")), None)
    return None if hook is None else f"the repository has the hook {hook}"


def _hooks(folder: str) -> Iterator[str]:
    if lexists(folder):
        for hook in sorted(Path(folder).iterdir()):
            if hook.suffix != ".sample" and os.access(hook, os.X_OK):
                yield hook.name
