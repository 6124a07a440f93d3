"""`sandbur memory list`, `search` and `show`, and what all actions of the command open."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from .....agent.knowledge.memory.memories import ALL_STATES, Memories, open_facts
from .....agent.knowledge.memory.scopes import find_scopes, widen_scopes
from .....agent.session.decisions import whoami
from .....agent.session.secrets import masker_for
from .....state.memory.facts import Fact, FactScope
from .....state.store.store import Store
from ....cli.open_session import open_runtime
from ....terminal.terminal import encode, put, say
from ....terminal.text.sanitize import plain
from ....terminal.text.wrap import put_wrapped
from .command import MOST_FOUND, MOST_LISTED, MemoryCommand
from .fact_lines import describe_fact, list_rows, make_object


def select_scopes(memories: Memories, scope: str) -> tuple[FactScope, ...]:
    """Return the scope of a flag, or all scopes of the folder. Raises `UsageError`."""
    return (select_scope(memories, scope),) if scope else memories.scopes.all


def select_scope(memories: Memories, scope: str) -> FactScope:
    """Return the scope of a flag, such as `project:DIR`, which was opened before. Raises `UsageError`."""
    return memories.scopes.get("project" if scope.startswith("project:") else scope)


@asynccontextmanager
async def open_memory(command: MemoryCommand) -> AsyncGenerator[Memories]:
    """Open the memory of the folder of a command; a person is the author of changes."""
    async with open_memory_and_store(command) as (memories, _):
        yield memories


@asynccontextmanager
async def open_memory_and_store(command: MemoryCommand) -> AsyncGenerator[tuple[Memories, Store]]:
    """Open the memory of the folder of a command, and the store in which it is."""
    async with open_runtime(command) as runtime:
        cwd = runtime.settings.cwd
        mask = masker_for(os.environ, cwd).text
        facts = open_facts(runtime.store)
        scopes = widen_scopes(find_scopes(cwd), command.scope, cwd)
        memories = Memories(facts, scopes, mask, whoami(os.environ))
        if command.scope:
            select_scope(memories, command.scope)
        yield memories, runtime.store


async def list_facts(command: MemoryCommand) -> int:
    """Print a line for each fact."""
    async with open_memory(command) as memories:
        states = ALL_STATES if command.all else ("valid",)
        limit = command.limit or MOST_LISTED
        found = memories.list_facts(select_scopes(memories, command.scope), states, limit + 1)
    print_facts(found[:limit], command.json)
    if not found and not command.json:
        say('Nothing is remembered here. Add a fact: sandbur memory add "TEXT"')
    if len(found) > limit and not command.json:
        say(f"There are more than {limit}. --limit N lists more, `sandbur memory search` finds some.")
    return 0


async def search_facts(command: MemoryCommand) -> int:
    """Print the facts that match; exit code 1 if there are none."""
    async with open_memory(command) as memories:
        scopes = select_scopes(memories, command.scope)
        hits = memories.search(" ".join(command.words), scopes, command.limit or MOST_FOUND)
    print_facts([hit.fact for hit in hits], command.json)
    if not hits and not command.json:
        say("No fact matches.")
    return 0 if hits else 1


async def show_fact(command: MemoryCommand) -> int:
    """Print one fact with its origin and its history."""
    async with open_memory(command) as memories:
        fact = memories.find(command.words[0])
        history = memories.facts.history(fact.id)
        every = memories.list_derived(fact)
        derived = [*filter(memories.holds, every)]
    if command.json:
        more = {"history": [one.model_dump() for one in history], "derived": [one.id for one in derived]}
        put(encode({**make_object(fact), **more}))
        return 0
    for line in describe_fact(fact, history, derived, len(every) - len(derived)):
        put(line)
    return 0


def print_facts(facts: Sequence[Fact], as_json: bool) -> None:
    """Print facts on stdout, one a line: as text or as JSON objects."""
    for line in () if as_json else list_rows(facts):
        put_wrapped(plain(line))
    for fact in facts if as_json else ():
        put(encode(make_object(fact)))
