"""Facts as lines for people, and as objects for programs. Front ends share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .....agent.knowledge.memory.scopes import name_path
from .....state.memory.fact_store import Cascade, Correction, EndedFact
from .....state.memory.facts import Fact, FactChange, parse_message_id, shorten_id
from .....state.memory.origins import OriginCascade
from .....state.memory.proposals import Acceptance
from .....state.memory.reversal import Reversal
from ....terminal.text.sanitize import one_line, plain
from ....terminal.text.times import local_time

_MOST_TEXT_CHARS = 100
_ENDINGS = {"superseded": "corrected", "forgotten": "forgotten"}


COMMAND, SLASH_COMMAND = "sandbur memory", "/memory"


def list_rows(facts: Iterable[Fact], with_state: bool = True) -> Iterator[str]:
    """Yield a line for each fact: id, scope, day, text, and its state if it is not valid."""
    for fact in facts:
        scope = fact.scope.kind if fact.scope.kind != "agent" else f"agent:{fact.scope.key}"
        state = "" if fact.state == "valid" or not with_state else f"[{fact.state}] "
        mark = "[from a tool] " if fact.provenance.origin == "tool" else ""
        text = one_line(fact.text)
        text = text if len(text) <= _MOST_TEXT_CHARS else f"{text[: _MOST_TEXT_CHARS - 3]}..."
        yield f"{shorten_id(fact.id)}  {one_line(scope):<8} {fact.created_at[:10]}  {state}{mark}{text}"


def make_object(fact: Fact) -> dict[str, Any]:
    """Return a fact as a JSON object."""
    return {
        "id": fact.id,
        "text": fact.text,
        "scope": fact.scope.kind,
        "scope_key": fact.scope.key,
        "state": fact.state,
        "kind": fact.kind,
        "path": name_path(fact),
        "created_at": fact.created_at,
        "confirmed_at": fact.confirmed_at,
        "provenance": fact.provenance.model_dump(),
        "derived_from": list(fact.derived_from),
        "superseded_by": fact.superseded_by,
    }


def describe_fact(
    fact: Fact, history: Sequence[FactChange], derived: Sequence[Fact], derived_elsewhere: int
) -> Iterator[str]:
    """Yield a fact as lines: its text, where it comes from, and what happened to it.

    `derived_elsewhere` is how many facts of other places were derived from it.
    """
    yield from plain(fact.text).split("\n")
    yield ""
    yield f"id         {fact.id}"
    yield f"state      {fact.state}{_describe_successor(fact)}"
    yield f"kind       {fact.kind}"
    yield f"scope      {fact.scope.kind} {one_line(fact.scope.key)}".rstrip()
    yield f"path       {one_line(name_path(fact))}"
    yield f"from       {describe_origin(fact)}"
    yield f"created    {local_time(fact.created_at)}, last confirmed {local_time(fact.confirmed_at)}"
    if fact.derived_from:
        yield f"derived    from {', '.join(fact.derived_from)}"
    for one in derived:
        yield f"source of  {shorten_id(one.id)} {one_line(one.text)[:_MOST_TEXT_CHARS]}"
    if derived_elsewhere:
        yield f"source of  {derived_elsewhere} of other projects or agents"
    for change in history:
        why = f": {one_line(change.reason)}" if change.reason else ""
        by = f" by {one_line(change.actor)}" if change.actor else ""
        cause = f", because of {shorten_id(change.cause)}" if change.cause != fact.id else ""
        yield f"{local_time(change.at)}  {change.what}{by}{cause}{why}"


def _describe_successor(fact: Fact) -> str:
    return f" by {fact.superseded_by}" if fact.superseded_by else ""


def describe_origin(fact: Fact) -> str:
    """Return where a fact comes from, on one line."""
    origin = {"person": "a person", "model": "a model", "tool": "the output of a tool"}
    found = fact.provenance
    parts = [origin[found.origin]]
    parts += [f"session {one_line(found.session_id)}"] if found.session_id else []
    parts += [f"step {found.step}"] if found.step is not None else []
    if found.call_id:
        message = parse_message_id(found.call_id)
        parts.append(f"call {one_line(found.call_id)}" if message is None else f"message {message[1] + 1}")
    return ", ".join(parts)


def describe_cascade(cascade: Cascade) -> Iterator[str]:
    """Yield what a forgotten fact takes along."""
    yield from list_rows([cascade.fact])
    if cascade.derived:
        yield f"What was derived from it ({len(cascade.derived)}) goes along:"
        yield from list_rows(cascade.derived)


def describe_origin_cascade(cascade: OriginCascade) -> Iterator[str]:
    """Yield what is forgotten with a call or a session."""
    yield from list_rows(cascade.facts)
    heads = ("What was derived from it", "Proposals from there, which are rejected")
    for head, facts in zip(heads, (cascade.derived, cascade.proposals), strict=True):
        if facts:
            yield f"{head} ({len(facts)}):"
            yield from list_rows(facts)
    if cascade.replaced:
        yield f"It had replaced these facts ({len(cascade.replaced)}), which you can restore:"
        yield from list_rows(cascade.replaced)


def describe_proposal(proposal: Fact, target: Fact | None, similar: Sequence[Fact]) -> Iterator[str]:
    """Yield a proposal for the person who decides: text, origin, what it corrects, and what is like it."""
    scope = "for all projects" if proposal.scope.kind == "user" else "for this project"
    mark = "  [from a tool]" if proposal.provenance.origin == "tool" else ""
    yield f"{shorten_id(proposal.id)}  {proposal.kind} {scope}{mark}"
    yield from (f"  {line}" for line in plain(proposal.text).split("\n"))
    yield f"  from {describe_origin(proposal)}"
    if target is not None:
        yield f"  corrects {shorten_id(target.id)}: {one_line(target.text)[:_MOST_TEXT_CHARS]}"
    others = [fact for fact in similar if target is None or fact.id != target.id]
    if others:
        yield "  nearly the same:"
        yield from (f"    {row}" for row in list_rows(others))


def describe_acceptance(accepted: Acceptance, verb: str) -> Iterator[str]:
    """Yield what the acceptance of a proposal changed. `verb` is the command in whose words it is undone."""
    fact = shorten_id(accepted.fact.id)
    is_same = fact != shorten_id(accepted.proposal.id) and accepted.fact.text == accepted.proposal.text
    yield f"It is known as fact {fact}, which is confirmed." if is_same else f"Accepted: fact {fact}."
    if accepted.old is not None:
        old = shorten_id(accepted.old.id)
        yield f"It corrects {old}. Undo it with: {verb} restore {old}"
    if accepted.derived:
        yield f"What was derived from the old text ({len(accepted.derived)}) is forgotten:"
        yield from list_rows(accepted.derived)


def describe_correction(correction: Correction, verb: str) -> Iterator[str]:
    """Yield what a correction changed. `verb` is the command in whose words it is undone."""
    old, new = shorten_id(correction.old.id), shorten_id(correction.new.id)
    yield f"Corrected {old}: its text is fact {new} now."
    if correction.derived:
        yield f"What was derived from the old text ({len(correction.derived)}) is forgotten:"
        yield from list_rows(correction.derived)
    yield f"Undo it with: {verb} restore {old}"


def describe_ended(ended: EndedFact, added: Fact, verb: str) -> Iterator[str]:
    """Yield that the text of an added fact had been corrected or forgotten, and why."""
    change = ended.change
    by = f" by {one_line(change.actor)}" if change.actor else ""
    why = f": {one_line(change.reason)}" if change.reason else "."
    yield f"This text was {_ENDINGS[ended.fact.state]} on {local_time(change.at)[:10]}{by}{why}"
    if ended.successor is not None:
        yield "The fact that replaced it is still valid, so that there are two now:"
        yield from list_rows([ended.successor])
    yield f"Take the new one back with: {verb} forget {shorten_id(added.id)}"


def describe_reversal(reversal: Reversal) -> Iterator[str]:
    """Yield what a restoration changed."""
    heads = ("Restored:", "Forgotten:", "Superseded again:", "Proposed again:")
    for what, facts in zip(heads, reversal, strict=True):
        if facts:
            yield what
            # The facts are as they were before the restoration.
            yield from list_rows(facts, with_state=False)
