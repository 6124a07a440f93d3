"""The port for a memory that a program keeps itself, such as a service or a vector database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from ...actions.ports.capabilities import Verified
from ...state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RecalledFact:
    """A fact that a search found."""

    id: str
    """What `update` and `delete` take: 1 to 200 characters without spaces and control characters."""
    text: str
    written_at: str = ""
    """When it was written or changed last, in ISO 8601; empty if that is not known."""
    source: str = ""
    """Where it comes from, in a few words for the model; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change that a model asked for and whose outcome is not known, because the process died."""

    command: Literal["add", "update", "delete"]
    id: str = ""
    """The fact to update or to delete; empty for `add`."""
    text: str = ""
    """The new text; empty for `delete`."""


@runtime_checkable
class MemoryStore(Protocol):
    """A memory for `Agent(memory=...)`, which its model uses by the tool `memory`.

    The texts are untrusted: a model wrote them. They contain no secret that Sandbur knows. A method may
    raise any exception: the model reads its type and message, and the run goes on. A call that takes
    longer than 60 seconds is cancelled. Several sessions may call one object at the same time.

    If a process dies during `add`, `update` or `delete`, the outcome is unknown. An object that can find it
    out also has the method of `VerifiableMemoryStore`.
    """

    async def search(self, query: str, limit: int) -> Sequence[RecalledFact]:
        """Return at most `limit` facts (1 to 20) that match a text, the best one first."""
        ...

    async def add(self, text: str) -> str:
        """Store a fact of 1 to 4,000 characters and return its id."""
        ...

    async def update(self, id: str, text: str) -> None:
        """Replace the text of a fact. Raise an exception if there is no fact with this id."""
        ...

    async def delete(self, id: str) -> None:
        """Delete a fact. Raise an exception if there is no fact with this id."""
        ...


@runtime_checkable
class VerifiableMemoryStore(MemoryStore, Protocol):
    """A memory that can tell whether a change took effect before the process died."""

    async def verify(self, change: MemoryChange) -> Verified:
        """Return `done`, `not_done` (the change is made now) or `unknown` (a person decides)."""
        ...
