"""Facts over HTTP: finds, adds and forgets what agents remember beyond a session."""

from pathlib import Path

from ....agent.knowledge.memory.memories import Memories, open_facts
from ....agent.knowledge.memory.scopes import find_scopes
from ....agent.session.secrets import masker_for
from ....state.errors import SessionNotFound
from ....state.memory.facts import Fact
from . import forms
from .route import ApiRequest


async def find_facts(request: ApiRequest) -> forms.FactListAnswer:
    """Answer with the facts of a scope that match a text, or with its newest ones."""
    query = request.read_query(forms.FactQueryForm)

    def find() -> list[Fact]:
        memories = _open(request)
        scopes = [memories.scopes.get(query.scope)]
        if not query.text.strip():
            return memories.list_facts(scopes, limit=query.limit)
        return [hit.fact for hit in memories.search(query.text, scopes, query.limit)]

    found = await request.store.database.offload(find)
    return forms.FactListAnswer(facts=[_describe(fact) for fact in found])


async def add_fact(request: ApiRequest) -> forms.FactEntryAnswer:
    """Add a fact of a person, or confirm the one with the same text."""
    wanted = request.read_body(forms.NewFactForm)

    def add() -> Fact:
        memories = _open(request)
        return memories.add(wanted.text, memories.scopes.get(wanted.scope)).fact

    return _describe(await request.store.database.offload(add))


async def show_fact(request: ApiRequest) -> forms.FactEntryAnswer:
    """Answer with one fact in any state."""
    _, fact = await request.store.database.offload(lambda: _open_with_fact(request))
    return _describe(fact)


async def forget_fact(request: ApiRequest) -> forms.DeletedAnswer:
    """Forget a fact with everything that was derived from it."""

    def forget() -> tuple[str, ...]:
        memories, fact = _open_with_fact(request)
        return memories.forget(fact.id).ids

    return forms.DeletedAnswer(deleted=[*await request.store.database.offload(forget)])


def _open(request: ApiRequest) -> Memories:
    """Return the facts of the caller's tenant for the folder of the server."""
    cwd = Path(request.service.cwd)
    mask = masker_for(request.service.env, cwd).text
    return Memories(open_facts(request.store), find_scopes(cwd), mask, request.who.name)


def _open_with_fact(request: ApiRequest) -> tuple[Memories, Fact]:
    """Return the fact that a request names, with the memory that it belongs to.

    A caller reaches by an id what it can list: its own facts, those of the folder of the server, and those of
    any agent.
    """
    memories, fact_id = _open(request), request.path["fact_id"]
    found = memories.facts.rows.load([fact_id]).get(fact_id)
    if found is not None and found.scope.kind == "agent":
        memories.scopes = memories.scopes._replace(agent=found.scope)
    if found is None or not memories.holds(found):
        raise SessionNotFound("There is no such fact.")
    return memories, found


def _describe(fact: Fact) -> forms.FactEntryAnswer:
    scope = f"agent:{fact.scope.key}" if fact.scope.kind == "agent" else fact.scope.kind
    return forms.FactEntryAnswer(
        id=fact.id,
        text=fact.text,
        kind=fact.kind,
        scope=scope,
        path=fact.path,
        state=fact.state,
        created_at=fact.created_at,
    )
