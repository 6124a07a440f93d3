"""Applies deny rules for reading files to commands and to all tools that read files."""

import glob
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from posixpath import expanduser, isabs, join, realpath

from ...actions.ports import Searching, implements
from .rules import path_rules
from .rules.path_rules import Workspace
from .rules.rules import Call, Rule
from .shell.read_paths import walk_below
from .shell.seen_commands import SeenCommand, Sight

_MAX_MATCHES = 1000
_MAX_ENTRIES = 50_000
_MENTIONS = frozenset((
    "echo", "printf", "true", "false", "test", "[", "mkdir", "cd", "which", "type", "basename", "dirname",
    "export", "rm", "rmdir", "touch", "kill", "sleep", "expr",
))  # fmt: skip
"""Programs that do not print the content of the files in their arguments."""
_READS_FOLDERS = frozenset(
    ("rg", "ag", "ack", "tar", "zip", "rsync", "scp", "7z", "cpio", "diff", "bsdtar", "pax")
)
_GIT_READS = re.compile(r"grep|archive|show|diff|stash|format-patch|bundle|whatchanged")
_GREPS = re.compile(r"[ef]?grep")


class HiddenFiles:
    """The files whose content must not be read, because of deny rules."""

    def __init__(self, rules: Sequence[Rule], workspace: Workspace) -> None:
        self._rules = tuple(rules)
        self._workspace = workspace

    def __bool__(self) -> bool:
        return bool(self._rules)

    def rule_for(self, paths: Sequence[str]) -> Rule | None:
        """Return the rule that hides one of the paths, or None."""
        hits = partial(path_rules.hits, workspace=self._workspace)
        return next((rule for rule in self._rules for path in paths if hits(rule.pattern or "", path)), None)

    def rule_below(self, paths: Sequence[str]) -> Rule | None:
        """Return a rule that hides a file below one of the folders, or None."""
        for path in paths:
            folder = self._workspace.real(path)
            for count, entry in enumerate(walk_below(folder)):
                rule = next((one for one in self._rules if self._is_hidden(one, entry.path)), None)
                if rule is not None or count > _MAX_ENTRIES:
                    return rule or self._rules[0]
        return None

    def _is_hidden(self, rule: Rule, place: str) -> bool:
        return path_rules.means(rule.pattern or "", place, self._workspace)

    def rule_for_command(self, sight: Sight, cwd: str) -> tuple[Rule | None, Rule | None]:
        """Return a rule that hides a path of a command, and one that hides a file which the command may
        read."""
        near: Rule | None = None
        here = cwd
        for seen in sight.commands:
            if seen.program == "cd" and len(seen.words) == 2:
                here = realpath(join(here, expanduser(seen.words[1])))
            named = [join(here, expanduser(path)) for path in _find_file_words(seen)]
            if rule := self.rule_for([place for path in named for place in _expand_glob(path)]):
                return rule, None
            if near is None and _reads_folders(seen):
                folders = [path for path in named if Path(path).is_dir()] or [here]
                near = self.rule_below(folders)
        return None, near


def _find_file_words(seen: SeenCommand) -> Iterator[str]:
    """Yield the words of a command that may be names of files."""
    if seen.program in _MENTIONS:
        return
    yield from (one.target for one in seen.redirections if one.operator in ("<", "<>"))
    for word in seen.words[1:]:
        if not word.startswith("-"):
            yield word
            if ":" in word and not isabs(word):
                yield word.partition(":")[2]
        if "=" in word:
            yield word.partition("=")[2]
        if word.startswith("@"):
            yield word[1:]


def _expand_glob(path: str) -> list[str]:
    if not re.search(r"[*?\[]", path):
        return [path]
    return list(islice(glob.iglob(path), _MAX_MATCHES)) or [path]  # noqa: PTH207 -- as text


def _reads_folders(seen: SeenCommand) -> bool:
    letters = "".join(word[1:] for word in seen.words[1:] if word[:1] == "-" and word[:2] != "--")
    recursive = "r" in letters or "R" in letters or any(word.startswith("--rec") for word in seen.words[1:])
    if _GREPS.fullmatch(seen.program):
        return recursive
    if seen.program == "cp":
        return recursive or "a" in letters
    if seen.program == "git":
        return any(map(_GIT_READS.fullmatch, seen.words[1:])) or ("log" in seen.words and "p" in letters)
    if seen.program == "find":
        return any(word.startswith(("-exec", "-ok")) for word in seen.words)
    return seen.program in _READS_FOLDERS or seen.program == "xargs"


def find_hiding_rules_off_disk(rules: Sequence[Rule], call: Call) -> tuple[Rule | None, Rule | None]:
    """Return the same as `Policy._find_hiding_rules`, for a path on a virtual back end."""
    patterns = [(rule, rule.pattern or "") for rule in rules]
    denying = next((rule for rule, pattern in patterns if fnmatchcase(call.subject, pattern)), None)
    if denying is not None or not implements(call.source, Searching):
        return denying, None
    folder = f"{call.subject.rstrip('/')}/"
    for rule, pattern in patterns:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        if fixed.startswith(folder) or folder.startswith(fixed):
            return None, rule
    return None, None
