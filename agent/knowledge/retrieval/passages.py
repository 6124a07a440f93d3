"""The passages that a search in knowledge bases returns, with what an answer needs to cite them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from ....actions.workspace.paths import format_path_from
from ....state.lazy_dataclass import dataclass
from ....state.search.knowledge_rows import FoundChunk, StoredSource, Unit
from .indexing.page_fetcher import is_address
from .indexing.source_reader import find_version, read_content

SourceState = Literal["unchanged", "changed", "gone"]
TEXT_PREFIX = "text:"
"""The start of the location of a text that a program added, which no file contains."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a source that matches a query."""

    base: str
    """The name of the knowledge base."""
    path: str
    """An absolute path, an address, or `text:NAME` for a text that a program added."""
    unit: Unit
    """What `first` and `last` count."""
    first: int
    """The first line or page, counted from 1; 0 for a picture."""
    last: int
    title: str
    """The headings above the passage, the qualified name of the definition, or who described the picture;
    may be empty."""
    text: str
    digest: str
    """The SHA-256 of the source as it was indexed."""
    score: float
    """How much of the query it matches, from 0 to 1: by rare words, or by vectors if that is more."""
    state: SourceState = "unchanged"
    """Whether the source has changed since it was indexed. Addresses are not fetched again for this."""

    def cite(self, cwd: Path) -> str:
        """Return the citation, such as `[docs/install.md:12-30]`. Paths below `cwd` are relative."""
        return f"[{self.describe_place(cwd)}]"

    def describe_place(self, cwd: Path) -> str:
        return format_place(name_source(self.path, cwd), self.unit, self.first, self.last)


def format_place(name: str, unit: Unit, first: int, last: int) -> str:
    if unit == "picture":
        return name
    mark = "p" if unit == "page" else ""
    return f"{name}:{mark}{first}" + (f"-{last}" if last != first else "")


def name_source(path: str, cwd: Path) -> str:
    """Return a source as citations name it."""
    return format_path_from(path, cwd) if path.startswith("/") else path


def make_passage(found: FoundChunk, score: float) -> Passage:
    chunk, source = found.chunk, found.source
    return Passage(found.base.name, source.path, chunk.unit, chunk.first, chunk.last, chunk.title, chunk.text,
                   source.digest, score, find_state(source))  # fmt: skip


def find_state(source: StoredSource) -> SourceState:
    """Return whether a source has changed since it was indexed. Files with another time are read."""
    if source.path.startswith(TEXT_PREFIX) or is_address(source.path):
        return "unchanged"
    version = find_version(source.path)
    if version is None:
        return "gone"
    if version == (source.size, source.modified_ns):
        return "unchanged"
    return "unchanged" if read_digest(source.path) == source.digest else "changed"


def read_digest(path: str) -> str:
    """Return the SHA-256 of a file as it is indexed; empty if it cannot be read."""
    return read_content(path, 0)[1].digest


def select_passages(
    passages: Iterable[Passage], limit: int, threshold: float, may_show: Callable[[str], bool] | None = None
) -> Sequence[Passage]:
    """Return the first passages that match well enough and that may be shown."""
    found: list[Passage] = []
    for one in passages:
        if len(found) == limit:
            break
        if one.score >= threshold and (may_show is None or may_show(one.path)):
            found.append(one)
    return found
