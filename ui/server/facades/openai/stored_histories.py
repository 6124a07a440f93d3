"""Compares the histories of stored sessions with a conversation: for a client that has only a part of an
answer, or that asks for it again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial

from .....agent.sdk.stored_sessions import SessionQuery, list_sessions
from .....state.errors import SessionNotFound
from .....state.lazy_dataclass import dataclass
from .....state.store.store import Store
from .conversation_digests import DigestedConversation
from .turns import StoredTurn, read_turns, squeeze

APP = "openai"
"""The label `app` of the sessions of this facade."""
ENDED = ("done", "goal_not_reached", "repeated", "turn_limit", "timeout", "budget_limit", "denied")
"""After a turn with one of these statuses another session can go on."""
_BEFORE = "before:"
MOST_CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may have a conversation."""

    session_id: str
    turns: Sequence[StoredTurn]
    foreign: int
    """How many turns of the conversation came before the session."""

    def has_turns_before_message(self, sent: DigestedConversation) -> bool:
        """Return whether the session has all turns before the new message."""
        count = len(sent.answers) - self.foreign
        own = self.turns[:count]
        owners = {turn.session_id for turn in self.turns} | {self.session_id}
        return len(own) == count and all(
            turn.asked_digest == digest and _is_answer(turn, answer, owners)
            for turn, digest, answer in zip(
                own, sent.asked[self.foreign :], sent.answers[self.foreign :], strict=False
            )
        )

    def find_asked_turn(self, sent: DigestedConversation) -> StoredTurn | None:
        """Return the session's own turn with the new message after exactly these turns, or None."""
        count = len(sent.answers) - self.foreign
        if len(self.turns) != count + 1 or not self.has_turns_before_message(sent):
            return None
        turn = self.turns[-1]
        is_same = turn.session_id == self.session_id and turn.asked_digest == sent.asked[-1]
        return turn if is_same else None


def _is_answer(turn: StoredTurn, text: str, owners: set[str]) -> bool:
    """Return whether a client was given this text for a turn: all of the answer, its beginning if the client
    left before its end, or a text that names the session because something waited there."""
    return squeeze(turn.answer).startswith(text) or any(owner in text for owner in owners)


def make_foreign_tags(sent: DigestedConversation) -> tuple[str, ...]:
    """Return the tag of a new session for the turns that came before it."""
    count = len(sent.answers)
    return (f"{_BEFORE}{count}:{sent.digest_turns(count)}",) if count else ()


async def list_candidates(store: Store, sent: DigestedConversation) -> AsyncGenerator[Candidate]:
    """Yield the newest sessions that begin as the conversation, and so far do not contradict it."""
    query = SessionQuery(app=APP, tags=(sent.opening,), limit=MOST_CANDIDATES)
    async for info in list_sessions(store, query):
        if (found := await _read_candidate(store, info.id, info.tags, sent)) is not None:
            yield found


async def load_candidates(
    store: Store, session_ids: Iterable[str], sent: DigestedConversation
) -> AsyncGenerator[Candidate]:
    """Yield those of these sessions that begin as the conversation, as `list_candidates` does."""
    for session_id in session_ids:
        try:
            settings = await store.database.offload(partial(store.index.settings, session_id))
            found = await _read_candidate(store, session_id, settings.tags, sent)
        except SessionNotFound:  # it was deleted meanwhile
            continue
        if found is not None:
            yield found


async def _read_candidate(
    store: Store, session_id: str, tags: Sequence[str], sent: DigestedConversation
) -> Candidate | None:
    if (foreign := _count_foreign(tags, sent)) is None:
        return None
    turns = await store.database.offload(partial(read_turns, store, session_id))
    return Candidate(session_id, turns, foreign)


def _count_foreign(tags: Sequence[str], sent: DigestedConversation) -> int | None:
    """Return how many turns came before a session; None if they are not those of the conversation."""
    for tag in tags:
        if tag.startswith(_BEFORE):
            count = int(tag.split(":")[1])
            fits = count <= len(sent.answers) and tag == f"{_BEFORE}{count}:{sent.digest_turns(count)}"
            return count if fits else None
    return 0
