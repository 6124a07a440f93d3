"""Checks the citations of answers: the source exists and is unchanged, and the cited lines were found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ....actions.workspace.paths import make_absolute
from ....state.conversation.messages import Message
from ....state.session import SessionSettings
from .indexing.page_fetcher import is_address
from .indexing.source_reader import find_version
from .passages import TEXT_PREFIX, read_digest
from .retrieve_tool import NAME

_CITATION = re.compile(
    r"\[(?P<name>[^\[\]\n]{1,1000}?):(?P<unit>p?)(?P<first>\d{1,9})(?:-p?(?P<last>\d{1,9}))?\]"
)
_PASSAGE = re.compile(rf"^{_CITATION.pattern}.*\(sha256 (?P<digest>[0-9a-f]{{12}})\)$", re.MULTILINE)
_MOST_CHECKED = 1000


class Citation(NamedTuple):
    """A place that an answer names, such as `[docs/install.md:12-30]`."""

    name: str
    """A path, relative to the folder of the session or absolute, an address, or `text:NAME`."""
    unit: str
    """`p` for pages; empty for lines."""
    first: int
    last: int
    text: str
    """The citation as the answer has it."""


class CitationReport(NamedTuple):
    checked: int
    problems: tuple[str, ...]
    """A sentence for each citation that does not hold."""


def find_citations(text: str) -> Iterator[Citation]:
    """Yield the citations in a text. Other brackets, such as `[a:1]` without a file name, are none."""
    for found in _CITATION.finditer(text):
        if "." in found["name"] or "/" in found["name"]:
            yield _read(found)


def check_citations(settings: SessionSettings, messages: Iterable[Message | None]) -> CitationReport | None:
    """Check the citations in the answers of a session; None if it has no knowledge base.

    `messages` are all messages of the session, in their order; None stands for a damaged one.
    """
    if not settings.knowledge:
        return None
    passages: dict[str, list[tuple[Citation, str]]] = {}
    cited: dict[str, Citation] = {}
    searches: set[str] = set()
    for message in filter(None, messages):
        searches |= {use.call_id for use in message.tool_uses if use.tool == NAME}
        for result in message.tool_results:
            if result.call_id not in searches:
                continue
            for found in _PASSAGE.finditer(result.content):
                passages.setdefault(found["name"], []).append((_read(found), found["digest"]))
        if message.role == "assistant" and message.origin == "model":
            cited |= {one.text: one for one in find_citations(message.text)}
    some = list(cited.values())[:_MOST_CHECKED]
    checker = _Checker(Path(settings.cwd), passages)
    problems = (checker.find_problem(one) for one in some)
    return CitationReport(len(some), tuple(problem for problem in problems if problem))


class _Checker:
    def __init__(self, cwd: Path, passages: Mapping[str, Sequence[tuple[Citation, str]]]) -> None:
        """`passages` maps a source to the places that the tool returned, with the starts of the digests."""
        self._cwd = cwd
        self._passages = passages
        self._digests: dict[str, str] = {}

    def find_problem(self, cited: Citation) -> str:
        """Return why a citation does not hold, as a sentence; empty if it does."""
        of_source = self._passages.get(cited.name, ())
        digests = {digest for place, digest in of_source if _contains(place, cited)}
        if not digests:
            why = "other parts of the source were" if of_source else "its source was not"
            return f"{cited.text} was not found by a search: {why}."
        if is_address(cited.name) or cited.name.startswith(TEXT_PREFIX):
            return ""
        path = str(make_absolute(cited.name, self._cwd))
        if find_version(path) is None:
            return f"{cited.text}: the file is gone."
        if not any(self._read_digest(path).startswith(digest) for digest in digests):
            return f"{cited.text}: the file has changed since the answer."
        return ""

    def _read_digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = read_digest(path)
        return self._digests[path]


def _read(found: re.Match[str]) -> Citation:
    first = int(found["first"])
    last = int(found["last"] or first)
    text = f"[{found['name']}:{found['unit']}{first}" + (f"-{last}]" if found["last"] else "]")
    return Citation(found["name"], found["unit"], first, last, text)


def _contains(place: Citation, cited: Citation) -> bool:
    """Return whether a place that was found contains a cited one."""
    return place.unit == cited.unit and place.first <= cited.first <= cited.last <= place.last
