"""Checks the citations of answers: the source exists and is unchanged, and the cited lines were found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ....actions.workspace.paths import format_count, make_absolute
from ....state.conversation.messages import Message
from ....state.session import SessionSettings
from ...extensions.extension import CitedFile
from .cited_files import CITATION, Citation, CitedFiles, find_citations, is_file, read_citation
from .indexing.source_reader import FileContent, find_version, read_file_content
from .retrieve_tool import NAME

_PASSAGE = re.compile(rf"^{CITATION.pattern}.*\(sha256 (?P<digest>[0-9a-f]{{12}})\)$", re.MULTILINE)
_MOST_CHECKED = 1000


class CitationReport(NamedTuple):
    checked: int
    problems: tuple[str, ...]
    """A sentence for each citation that does not hold."""
    files: Mapping[str, CitedFile]
    """Citation -> its file, with what is wrong."""


def check_citations(settings: SessionSettings, messages: Iterable[Message | None]) -> CitationReport | None:
    """Check the citations in the answers of a session; None if it has no knowledge base.

    `messages` are all messages of the session, in their order; None is a damaged one.
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
                place = read_citation(found)
                passages.setdefault(place.name, []).append((place, found["digest"]))
        if message.role == "assistant" and message.origin == "model":
            cited |= {one.text: one for one in find_citations(message.text)}
    some = list(cited.values())[:_MOST_CHECKED]
    checker = _Checker(Path(settings.cwd), passages)
    findings = {one.text: checker.check(one) for one in some}
    problems = tuple(finding.problem for finding in findings.values() if finding.problem)
    return CitationReport(len(some), problems, {text: one.file for text, one in findings.items()})


class _Finding(NamedTuple):
    file: CitedFile
    problem: str = ""
    """Why the citation does not hold, as a sentence; empty if it does."""


class _Checker:
    def __init__(self, cwd: Path, passages: Mapping[str, Sequence[tuple[Citation, str]]]) -> None:
        """`passages` maps a source to the places that the tool returned, with the starts of the digests."""
        self._cwd = cwd
        self._passages = passages
        self._contents: dict[str, FileContent] = {}
        # A search returns files of the bases, which may be outside of the folder.
        returned = [str(make_absolute(name, cwd)) for name in passages if is_file(name)]
        self._links = CitedFiles(cwd, returned)

    def check(self, cited: Citation) -> _Finding:
        file = self._links.find_one(cited) or CitedFile("")
        of_source = self._passages.get(cited.name, ())
        digests = {digest for place, digest in of_source if _contains(place, cited)}
        if not of_source:
            note = "not found by a search"
            return _Finding(file._replace(note=note), f"{cited.text} was {note}: its source was not.")
        path = str(make_absolute(cited.name, self._cwd)) if is_file(cited.name) else ""
        if path and find_version(path) is None:
            return _Finding(CitedFile("", note="gone"), f"{cited.text}: the file is gone.")
        if path and not cited.unit and (short := self._find_end(path, cited)):
            return _Finding(file._replace(note=short), f"{cited.text}: {short}.")
        if not digests:
            note = "not found by a search"
            why = "other parts of the source were"
            return _Finding(file._replace(note=note), f"{cited.text} was {note}: {why}.")
        if path and not any(self._read(path).digest.startswith(digest) for digest in digests):
            problem = f"{cited.text}: the file has changed since the answer."
            return _Finding(file._replace(note="changed since"), problem)
        return _Finding(file)

    def _find_end(self, path: str, cited: Citation) -> str:
        """Return that a file ends before the cited lines, as a clause; empty if it does not."""
        count = self._read(path).lines
        ends_before = count is not None and not 1 <= cited.first <= cited.last <= count
        return f"the file has {format_count(count or 0, 'line')}" if ends_before else ""

    def _read(self, path: str) -> FileContent:
        if path not in self._contents:
            self._contents[path] = read_file_content(path)
        return self._contents[path]


def _contains(place: Citation, cited: Citation) -> bool:
    """Return whether a place that was found contains a cited one."""
    return place.unit == cited.unit and place.first <= cited.first <= cited.last <= place.last
