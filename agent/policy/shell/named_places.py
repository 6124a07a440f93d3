"""Finds the paths that the words of commands may mean, with the current files and environment."""

import glob
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from os.path import expandvars

from .seen_commands import SeenCommand

_MAX_MATCHES = 1000
_PATTERN = re.compile(r"[*?\[]")
_IN_A_FOLDER = re.compile(r"\$\{?\w+\}?/|\$\{?HOME\}?$")
"""A variable that is used as a folder. The values of other variables are unknown."""


def find_places(commands: Sequence[SeenCommand], cwd: str) -> Iterator[str]:
    """Yield the paths in the words of commands, after `=`, and in redirections. The paths may not exist."""
    for seen in commands:
        opened = (one.target for one in seen.redirections if one.operator in ("<", "<>"))
        for word in (*seen.words[1:], *opened):
            for part in filter(None, (word, word.partition("=")[2])):
                yield part
                meant = expandvars(part) if _IN_A_FOLDER.search(part) else part
                if meant != part:
                    yield meant
                if _PATTERN.search(meant):
                    yield from islice(glob.iglob(meant, root_dir=cwd), _MAX_MATCHES)  # noqa: PTH207 -- as text
