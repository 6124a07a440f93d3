"""`Memory`: the facts that agents remember, for a program."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from ....state.errors import UsageError
from ....state.memory.facts import MEMORIES, Fact
from ....state.memory.origins import FactOrigin
from ...runtime.agent_definition import Definition
from ...sdk.agent import Agent
from ...sdk.agent_sessions import open_sessions_of
from ...sdk.open_sessions import OpenSessions
from ...session.secrets import masker_for
from .memories import ALL_STATES, Memories, open_facts
from .scopes import find_scopes

ResultT = TypeVar("ResultT")


class ExtractionCounts(Protocol):
    """What an extraction found."""

    @property
    def proposed(self) -> int: ...
    @property
    def kept(self) -> int: ...
    @property
    def confirmed(self) -> int: ...
    @property
    def problems(self) -> tuple[str, ...]: ...


class ExtractsFacts(Protocol):
    """The runtime of the extension that finds facts."""

    async def extract(self, definition: Definition, cwd: Path) -> ExtractionCounts: ...


Scope = Literal["user", "project", "agent"]
_ACTOR = "a program"


class Memory:
    """The facts of a user, of a project and of an agent, which outlive sessions.

    Args:
        store: `sqlite:///PATH`, `postgresql://...`, `mysql://...` or `memory:`. None: the command's store.
        cwd: A folder of the project; None: the current folder.
        user: Whose facts the scope `user` has; empty for the person at this machine.
        agent: The name of the agent whose facts the scope `agent` has.
        env: The environment variables to use instead of those of the process.

    `Memory.of_agent(agent)` is the memory of an agent, in its store. Every method raises `UsageError` for
    what is not valid, such as a text with a secret, and `StoreError`.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        cwd: str | Path | None = None,
        user: str = "",
        agent: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        opener = Agent(name=agent, store=store, cwd=cwd, env=env, planning="off")
        self._open = OpenSessions(lambda: opener.definition, env)
        self._user, self._agent = user, agent
        self._kinds: Sequence[str] = ()

    @classmethod
    def of_agent(cls, agent: Agent[Any], user: str = "") -> Memory:
        """Return the memory of an agent, in its store. `user` is that of its sessions with `user=`.

        Raises `UsageError` for an agent with a memory of the program's own.
        """
        if agent.definition.memory_store is not None:
            raise UsageError(
                "The facts of this agent are in the object that Agent(memory=...) got.",
                "Call the methods of that object.",
            )
        made = cls.__new__(cls)
        made._open, made._user, made._agent = open_sessions_of(agent), user, agent.name
        made._kinds = agent.definition.overrides.get("memory_scopes") or ()
        return made

    async def add(
        self,
        text: str,
        *,
        scope: Scope | None = None,
        kind: str = "fact",
        path: str = "",
        derived_from: Sequence[str] = (),
    ) -> Fact:
        """Remember a text, or confirm the fact with the same text.

        Without a `scope` it is a fact of the user, if this memory has one, or else of the project.
        `path` is the name of its file for a model, such as `tests.md`. `derived_from` has the ids of facts
        with which it is forgotten.
        """
        place = f"{MEMORIES}{path}" if path else ""

        def work(memories: Memories) -> Fact:
            where = memories.scopes.usual if scope is None else memories.scopes.get(scope)
            return memories.add(text, where, kind=kind, path=place, derived_from=derived_from).fact

        return await self._run(work)

    async def search(self, text: str, *, limit: int = 10, scope: Scope | None = None) -> Sequence[Fact]:
        """Return the valid facts that match a text, the best one first."""

        def work(memories: Memories) -> Sequence[Fact]:
            scopes = () if scope is None else (memories.scopes.get(scope),)
            return [hit.fact for hit in memories.search(text, scopes, limit)]

        return await self._run(work)

    async def list(
        self, *, scope: Scope | None = None, all: bool = False, limit: int = 1000
    ) -> Sequence[Fact]:
        """Return facts, the newest one first; with `all`, those that were corrected or forgotten, too."""

        def work(memories: Memories) -> Sequence[Fact]:
            scopes = () if scope is None else (memories.scopes.get(scope),)
            return memories.list_facts(scopes, ALL_STATES if all else ("valid",), limit)

        return await self._run(work)

    async def correct(self, fact_id: str, text: str, *, reason: str = "") -> Fact:
        """Replace a fact by another text and return the new one. What was derived from it is forgotten."""
        return await self._run(lambda memories: memories.correct(fact_id, text, reason).new)

    async def forget(self, fact_id: str, *, reason: str = "") -> Sequence[Fact]:
        """Forget a fact, and return it with everything that was derived from it and is forgotten, too."""

        def work(memories: Memories) -> Sequence[Fact]:
            cascade = memories.forget(fact_id, reason)
            return [cascade.fact, *filter(memories.holds, cascade.derived)]

        return await self._run(work)

    async def proposals(self, *, scope: Scope | None = None) -> Sequence[Fact]:
        """Return the facts that were found in sessions and wait for a decision, the oldest one first."""

        def work(memories: Memories) -> Sequence[Fact]:
            return memories.list_proposals(() if scope is None else (memories.scopes.get(scope),))

        return await self._run(work)

    async def accept(self, fact_id: str, text: str = "") -> Fact:
        """Make a proposal valid, with another `text` if one is given, and return the fact that is valid."""
        return await self._run(lambda memories: memories.accept(fact_id, text).fact)

    async def reject(self, fact_id: str, *, reason: str = "") -> Fact:
        """Reject a proposal. The same text is not proposed again."""
        return await self._run(lambda memories: memories.reject([fact_id], reason)[0])

    async def forget_origin(
        self, *, session_id: str = "", call_id: str = "", reason: str = ""
    ) -> Sequence[Fact]:
        """Forget all that came from a session or a tool call, with everything derived, and return it.

        Proposals from there are rejected. The restoration of one of these facts undoes the whole.
        """

        def work(memories: Memories) -> Sequence[Fact]:
            cascade = memories.forget_origin(FactOrigin(session_id, call_id), reason)
            return [*cascade.facts, *filter(memories.holds, cascade.derived), *cascade.proposals]

        return await self._run(work)

    async def extract(self) -> ExtractionCounts:
        """Find facts now in the sessions of the agent that were not read yet, as `memory_extraction` says.

        Returns how many facts were `proposed`, `kept` and `confirmed`, and a sentence for each session that
        failed as `problems`.
        """
        await self._open.enter()
        try:
            runtime = self._open.runtime
            found = runtime.start_extension("extraction")
            if found is None:
                raise UsageError("The extension that finds facts is not installed.")
            report = await cast("ExtractsFacts", found).extract(self._open.definition, runtime.settings.cwd)
        finally:
            await self._open.exit()
        return report

    async def restore(self, fact_id: str, *, reason: str = "") -> Sequence[Fact]:
        """Undo what corrected or forgot a fact, and return the facts that are valid again."""

        def work(memories: Memories) -> Sequence[Fact]:
            restored = memories.restore(fact_id, reason).restored
            return [*memories.facts.rows.load([fact.id for fact in restored]).values()]

        return await self._run(work)

    async def _run(self, work: Callable[[Memories], ResultT]) -> ResultT:
        async with self._opened() as memories:
            return await self._open.store.database.offload(lambda: work(memories))

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Memories]:
        await self._open.enter()
        try:
            runtime = self._open.runtime
            cwd = runtime.settings.cwd
            scopes = find_scopes(cwd, self._user, self._agent, self._kinds)
            yield Memories(open_facts(runtime.store), scopes, masker_for(runtime.env, cwd).text, _ACTOR)
        finally:
            await self._open.exit()
