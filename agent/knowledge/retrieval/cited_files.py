"""Finds the citations in answers and the files that they name, so that a reader can open them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ....actions.workspace.paths import make_absolute
from ....state.search.knowledge_rows import KnowledgeRows
from ....state.session import SessionSettings
from ....state.store.store import Store
from ...extensions.extension import CitedFile
from .indexing.page_fetcher import is_address
from .indexing.picture_reader import SUFFIXES
from .passages import TEXT_PREFIX
from .scopes import list_scopes

_PICTURE_NAME = "|".join(rf"(?<=\{suffix})" for suffix in SUFFIXES)
CITATION = re.compile(
    r"\[(?P<name>[^\[\]\n]{1,1000}?)"
    r"(?::(?P<unit>p?)(?P<first>\d{1,9})(?:-p?(?P<last>\d{1,9}))?\]"
    # Text before a parenthesis is that of a Markdown link.
    rf"|(?i:{_PICTURE_NAME})\](?!\())"
)
_PICTURE = "picture"
_MOST_REMEMBERED = 1000
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class Citation(NamedTuple):
    """A place that an answer names, such as `[docs/install.md:12-30]`."""

    name: str
    """A path, relative to the folder of the session or absolute, an address, or `text:NAME`."""
    unit: str
    """`p` for pages, `picture` for a picture; empty for lines."""
    first: int
    last: int
    text: str
    """The citation as the answer has it."""


def find_citations(text: str) -> Iterator[Citation]:
    """Yield the citations in a text. Other brackets, such as `[a:1]` without a file name, are none."""
    for found in CITATION.finditer(text):
        if "." in found["name"] or "/" in found["name"]:
            yield read_citation(found)


def read_citation(found: re.Match[str]) -> Citation:
    if found["first"] is None:
        return Citation(found["name"], _PICTURE, 0, 0, found[0])
    first = int(found["first"])
    return Citation(found["name"], found["unit"], first, int(found["last"] or first), found[0])


class CitedFiles:
    """Finds the files that citations name inside some folders.

    Files with a permission to execute are left out: a click on a link to one might run it.
    """

    def __init__(self, cwd: Path, locations: Sequence[str]) -> None:
        """`locations` are absolute paths of folders and files; the folder `cwd` belongs to them."""
        self._cwd = cwd
        self._inside = [os.path.realpath(one) for one in (cwd, *locations)]
        self._found: dict[str, CitedFile | None] = {}

    def find(self, text: str) -> Mapping[str, CitedFile]:
        """Return citation -> file for the citations in a text that name a file. Implements
        `FindCitedFiles`."""
        if "[" not in text:
            return {}
        found = {one.text: self._remember(one) for one in find_citations(text)}
        return {citation: file for citation, file in found.items() if file is not None}

    def find_one(self, cited: Citation) -> CitedFile | None:
        """Return the file of a citation, or None if it may not be opened, or if there is none."""
        if not is_file(cited.name):
            return None
        try:
            path = os.path.realpath(make_absolute(cited.name, self._cwd))
            mode = Path(path).stat().st_mode
        except (OSError, ValueError):
            return None
        is_inside = any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in self._inside)
        if not is_inside or not stat.S_ISREG(mode) or mode & _EXECUTABLE:
            return None
        return CitedFile(path, 0 if cited.unit else cited.first)

    def _remember(self, cited: Citation) -> CitedFile | None:
        # The open part of an answer is searched again with each new piece of it.
        if cited.text not in self._found:
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[cited.text] = self.find_one(cited)
        return self._found[cited.text]


def is_file(name: str) -> bool:
    """Return whether a citation of this name means a file, and no page and no text of a program."""
    return not is_address(name) and not name.startswith(TEXT_PREFIX)


def make_link_finder(store: Store, session: SessionSettings) -> CitedFiles:
    """Return what finds the files in the folder and in the knowledge bases of a session."""
    cwd = Path(session.cwd)
    rows = KnowledgeRows(store.database, store.tenant)
    bases = [base for base in rows.list_bases(list_scopes(cwd)) if base.name in session.knowledge]
    roots = [root.location for base in bases for root in rows.list_roots(base)]
    return CitedFiles(cwd, [location for location in roots if location.startswith("/")])
