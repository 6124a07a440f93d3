"""Finds the facts in one session, chunk by chunk, and proposes or keeps them. A kill repeats nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....state.errors import UsageError
from ....state.memory.extractions import Extractions
from ....state.memory.fact_changes import Author
from ....state.memory.fact_store import NewFact, find_similar
from ....state.memory.facts import Fact, Provenance
from ....state.memory.proposals import Proposals
from ....state.process.crashpoints import reach
from ....state.session import SessionSettings
from ....state.store.recording import find_step_after_row
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ProcessContext
from ...session.secrets import masker_for
from ..memory.memories import Memories, open_facts
from ..memory.scopes import find_scopes
from .asking import ExtractionRequest, ExtractionSession
from .excerpts import Excerpt, ExcerptChunk, read_excerpts, split_chunks
from .extracted_facts import MOST_FOUND, ExtractedFact, ExtractedFacts, find_source, make_request

_CHARS_PER_TOKEN = 3
_WINDOW_SHARE, _BUDGET_SHARE = 0.5, 0.5
"""The shares of the model's window, and of the budget, that the excerpts of one chunk may take."""
_MOST_CHUNK_CHARS = 60_000
_MOST_KNOWN, _KNOWN_PER_EXCERPT, _MOST_QUERY_CHARS = 16, 4, 2_000


class ExtractionReport(NamedTuple):
    """What was found in sessions."""

    proposed: int = 0
    kept: int = 0
    confirmed: int = 0
    problems: tuple[str, ...] = ()
    """A sentence for each session that failed."""

    def add(self, other: ExtractionReport) -> ExtractionReport:
        return ExtractionReport(
            self.proposed + other.proposed,
            self.kept + other.kept,
            self.confirmed + other.confirmed,
            (*self.problems, *other.problems),
        )


class ExtractionJob:
    """Searches the messages of one session that were not read yet."""

    def __init__(
        self,
        process: ProcessContext,
        definition: Definition,
        extractions: Extractions,
        session_id: str,
        keeps: bool,
    ) -> None:
        """With `keeps`, facts that the person wrote are kept without a question."""
        self._process = process
        self._definition = definition
        self._extractions = extractions
        self._id = session_id
        self._keeps = keeps

    async def run(self) -> ExtractionReport:
        """Read the session until its end, or until the budget is used up. Raises `SandburError`."""
        database, report = self._process.store.database, ExtractionReport()
        source = await database.offload(lambda: self._process.store.index.settings(self._id))
        end = self._extractions.count_records(self._id)
        budget: int = self._process.settings.of("extraction_tokens")
        used, first = 0, self._find_first()
        while first < end:
            chunk, found, tokens = await self._read_next(source, first, end, budget - used)
            if chunk is None:
                break
            applied = await database.offload(
                lambda first=first, chunk=chunk, found=found: self._apply(source, first, chunk, found)
            )
            report, used, first = report.add(applied), used + tokens, chunk.end
        return report

    def _find_first(self) -> int:
        state = self._extractions.load(self._id)
        return 0 if state is None else state.records

    async def _read_next(
        self, source: SessionSettings, first: int, end: int, budget: int
    ) -> tuple[ExcerptChunk | None, ExtractedFacts, int]:
        """Return the next chunk, the facts in it and the tokens used; no chunk if the budget is too small.

        A chunk without excerpts needs no model.
        """
        database = self._process.store.database
        asking = ExtractionSession(self._process, self._definition, source, self._id, first)
        memories = self._open_memories(source)
        begun_until = await database.offload(asking.find_end)
        excerpts = await database.offload(
            lambda: read_excerpts(database, self._id, first, begun_until or end, memories.mask)
        )
        if not excerpts:
            return ExcerptChunk((), end), ExtractedFacts(), 0
        session = await asking.open()
        try:
            if begun_until is not None:
                chunk = ExcerptChunk(tuple(excerpts), begun_until)
            else:
                most = _count_chunk_chars(session.ports.model.context_window, budget)
                chunk = next(split_chunks(excerpts, most, end))
                if sum(len(one.text) for one in chunk.excerpts) > budget * _CHARS_PER_TOKEN:
                    return None, ExtractedFacts(), 0
            known = await database.offload(lambda: _list_known(memories, chunk.excerpts))
            step = find_step_after_row(database, self._id, chunk.excerpts[-1].row) or 0
            request = ExtractionRequest(make_request(chunk.excerpts, known), chunk.end, step)
            answer = await asking.ask(session, request)
        finally:
            await asking.close(session)
        reach("extraction_answered")
        return chunk, answer.facts, answer.tokens

    def _open_memories(self, source: SessionSettings) -> Memories:
        cwd = Path(source.cwd)
        # A finding about one user of a program is not for all of them, unless the agent names the project.
        kinds = self._definition.overrides.get("memory_scopes") or (("user",) if source.user else ())
        scopes = find_scopes(cwd, source.user, self._definition.name if "agent" in kinds else "", kinds)
        mask = masker_for(self._process.env, cwd).text
        return Memories(open_facts(self._process.store), scopes, mask, f"extraction {source.model}"[:255])

    def _apply(
        self, source: SessionSettings, first: int, chunk: ExcerptChunk, found: ExtractedFacts
    ) -> ExtractionReport:
        """Propose, keep and confirm facts, then record that the chunk was read.

        The ids of new facts follow from the place of the chunk, so that a second time changes nothing.
        """
        keeper = _Keeper(self._open_memories(source), self._id, self._keeps)
        report = ExtractionReport()
        for number, fact in enumerate(found.facts[:MOST_FOUND]):
            fact_id = uuid.uuid5(uuid.UUID(int=0), f"{self._id}:{first}:{number}").hex
            step = self._find_step(find_source(fact, chunk.excerpts).excerpt)
            report = report.add(keeper.take(fact, fact_id, chunk.excerpts, step))
            reach("extraction_fact_written")
        self._extractions.save([self._extractions.mark(self._id, chunk.end)])
        reach("extraction_marked")
        return report

    def _find_step(self, excerpt: Excerpt | None) -> int | None:
        if excerpt is None:
            return None
        return find_step_after_row(self._process.store.database, self._id, excerpt.row)


class _Keeper:
    """Writes the facts that were found in one session."""

    def __init__(self, memories: Memories, session_id: str, keeps: bool) -> None:
        self._memories = memories
        self._facts = memories.facts
        self._proposals = Proposals(memories.facts)
        self._author = Author(memories.actor)
        self._session_id = session_id
        self._keeps = keeps

    def take(
        self, found: ExtractedFact, fact_id: str, excerpts: Sequence[Excerpt], step: int | None
    ) -> ExtractionReport:
        """Propose, keep or confirm one fact. A fact that is not valid, or has a secret, is left out."""
        known = self._find_known(found)
        source = find_source(found, excerpts)
        if found.relation == "same" and known is not None:
            self._facts.confirm(known.id, self._author)
            return ExtractionReport(confirmed=1)
        provenance = Provenance(
            origin="tool" if source.is_from_tool else "model",
            session_id=self._session_id,
            step=step,
            call_id="" if source.excerpt is None else source.excerpt.origin,
        )
        scopes = self._memories.scopes
        wanted = found.scope if known is None else known.scope.kind
        scope = next((one for one in scopes.all if one.kind == wanted), scopes.usual)
        # A text of a tool never becomes a rule.
        kind = "fact" if source.is_from_tool else found.kind
        corrects = known.id if known is not None and found.relation == "corrects" else None
        try:
            self._memories.require_no_secret(found.text)
            proposal = self._proposals.propose(
                NewFact(found.text, scope, kind, provenance=provenance), fact_id, corrects, self._author
            )
        except UsageError:
            return ExtractionReport()
        if proposal is None:
            return ExtractionReport()
        if proposal.state == "proposed" and source.is_of_person and self._may_keep(proposal, known):
            self._proposals.accept(proposal.id, Author(self._author.actor, "the person wrote it"))
            return ExtractionReport(kept=1)
        return ExtractionReport(proposed=1)

    def _may_keep(self, proposal: Fact, known: Fact | None) -> bool:
        """Return whether a rule may decide: not about what a person wrote or forgot as a fact, and not about
        a fact that may contradict another one."""
        if not self._keeps or self._proposals.was_forgotten(proposal.scope, proposal.text):
            return False
        target = known if proposal.corrects else None
        if target is not None and target.provenance.origin == "person":
            return False
        similar = find_similar(self._facts, proposal)
        return all(target is not None and one.id == target.id for one in similar)

    def _find_known(self, found: ExtractedFact) -> Fact | None:
        """Return the valid fact of the scopes that the model names, or None."""
        if not found.known or found.relation == "new":
            return None
        try:
            fact = self._facts.find(found.known)
        except UsageError:
            return None
        return fact if fact.state == "valid" and fact.scope in self._memories.scopes.all else None


def _count_chunk_chars(window_tokens: int, budget_tokens: int) -> int:
    """Return how many characters the excerpts of a chunk may have."""
    tokens = min(window_tokens * _WINDOW_SHARE, budget_tokens * _BUDGET_SHARE)
    return max(1, min(_MOST_CHUNK_CHARS, int(tokens * _CHARS_PER_TOKEN)))


def _list_known(memories: Memories, excerpts: Sequence[Excerpt]) -> list[Fact]:
    """Return the facts that may be about the same as excerpts which the person or the model wrote."""
    found: dict[str, Fact] = {}
    for excerpt in excerpts:
        if excerpt.kind != "tool" and len(found) < _MOST_KNOWN:
            hits = memories.search(excerpt.text[:_MOST_QUERY_CHARS], limit=_KNOWN_PER_EXCERPT)
            found |= {hit.fact.id: hit.fact for hit in hits}
    return list(found.values())[:_MOST_KNOWN]
