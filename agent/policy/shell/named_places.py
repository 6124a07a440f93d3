"""What the words of commands may name, as the disk and the environment are now."""

import glob
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from os.path import expandvars

from .seen_commands import SeenCommand

_MAX_MATCHES = 1000
_PATTERN = re.compile(r"[*?\[]")
_IN_A_FOLDER = re.compile(r"\$\{?\w+\}?/|\$\{?HOME\}?$")
"""A variable that stands for a folder; of what others stand for, nothing is known."""


def find_places(commands: Sequence[SeenCommand], cwd: str) -> Iterator[str]:
    """Yield paths that commands name in words, behind `=` and as what they read; not all of them exist."""
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
