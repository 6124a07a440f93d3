"""Finds the session of a conversation that a client sends again as a whole, and stores its new message there.

No table maps conversations to sessions: the histories in the store are compared with what the client sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from .....agent.history.time_travel.branches import branch
from .....agent.sdk.stored_sessions import SessionInfo, SessionQuery, list_sessions
from .....agent.session.secrets import masker_for
from .....state.conversation.messages import UserContent, encodable
from .....state.lazy_dataclass import dataclass
from .....state.store.store import Store
from ...routes.route import ApiRequest
from .contents import SentConversation
from .turns import StoredTurn, count_rows, digest_content, read_turns, squeeze

APP = "openai"
"""The label `app` of the sessions of this facade."""
_MOST_CANDIDATES = 50
_RETRIED_WITHIN = timedelta(minutes=15)
ENDED = ("done", "goal_not_reached", "repeated", "turn_limit", "timeout", "budget_limit", "denied")
"""After a turn with one of these statuses another session can go on."""


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where the answer of a request comes."""

    session_id: str
    after_row: int
    """The answer is the first turn after this row."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A conversation by its digests, as sessions are compared with it."""

    opening: str
    """The tag of all sessions whose conversations have this beginning."""
    asked: tuple[str, ...]
    """The digests of the messages of the user, the new one last."""
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    info: SessionInfo
    turns: Sequence[StoredTurn]
    foreign: int
    """How many turns of the conversation came before the session."""


async def pin(
    request: ApiRequest, agent: str, user: str, tags: tuple[str, ...], sent: SentConversation
) -> AnswerPlace:
    """Store the new message of a conversation in its session; return where its answer comes.

    A session with exactly these turns goes on. A session that went on in another way is forked. If there is
    none, a session begins. A message that a session has already, and whose client is gone, is not stored
    again: the answer that is or was made comes.
    """
    store = request.store
    prefix = await store.database.offload(lambda: _digest(request.service.cwd, agent, user, sent, "chat"))
    found = [one async for one in _list_candidates(store, prefix)]
    if (joined := await _find_same_message(request, found, prefix)) is not None:
        return joined
    session_id = await _find_session(store, found, prefix)
    if session_id is None:
        session_id = await _create(request, agent, user, tags, sent, prefix)
    return await send(request, session_id, sent.message)


async def begin(
    request: ApiRequest, agent: str, user: str, tags: tuple[str, ...], sent: SentConversation
) -> AnswerPlace:
    """Begin a session with a message, unless the client sends again what a session of it has already."""
    offload = request.store.database.offload
    prefix = await offload(lambda: _digest(request.service.cwd, agent, user, sent, "responses"))
    found = [one async for one in _list_candidates(request.store, prefix)]
    if (joined := await _find_same_message(request, found, prefix)) is not None:
        return joined
    session_id = await _create(request, agent, user, tags, sent, prefix)
    return await send(request, session_id, sent.message)


async def send(request: ApiRequest, session_id: str, message: UserContent) -> AnswerPlace:
    """Store a message in a session that no other request changes now; return where its answer comes."""
    after_row = count_rows(request.store, session_id) - 1
    await request.service.runner.send(request.store, session_id, message)
    return AnswerPlace(session_id, after_row)


async def _create(
    request: ApiRequest, agent: str, user: str, tags: tuple[str, ...], sent: SentConversation, prefix: Prefix
) -> str:
    session_id, count = str(uuid.uuid4()), len(sent.turns)
    foreign = (f"before:{count}:{_digest_turns(prefix, count)}",) if count else ()
    labels = {"app": APP, "user": user, "tags": (prefix.opening, *foreign, *tags)}
    runner, instructions = request.service.runner, write_instructions(sent)
    await runner.create(request.store, agent, session_id, labels, instructions)
    return session_id


def write_instructions(sent: SentConversation) -> str:
    """Return what the system prompt of a new session has besides that of the agent."""
    if not sent.turns:
        return sent.instructions
    lines = ["The conversation before this session, as the client sent it:"]
    for turn in sent.turns:
        asked = turn.content if isinstance(turn.content, str) else "".join(
            part if isinstance(part, str) else part.label for part in turn.content
        )  # fmt: skip
        lines += [f"User: {asked}", f"Assistant: {turn.answer}"]
    return "\n\n".join(filter(None, [sent.instructions, *lines]))


def make_digester(cwd: str) -> Callable[[UserContent], str]:
    """Return a function that digests a message as the store has it: without secrets."""
    masker = masker_for(os.environ, Path(cwd))

    def digest(content: UserContent) -> str:
        parts = (content,) if isinstance(content, str) else content
        return digest_content(
            [masker.text(encodable(part)) if isinstance(part, str) else part for part in parts]
        )

    return digest


def _digest(cwd: str, agent: str, user: str, sent: SentConversation, kind: str) -> Prefix:
    masker, digest = masker_for(os.environ, Path(cwd)), make_digester(cwd)
    asked = (*(digest(turn.content) for turn in sent.turns), digest(sent.message))
    first = json.dumps([kind, agent, user, sent.instructions, asked[0]])
    opening = f"opening:{hashlib.sha256(first.encode()).hexdigest()[:32]}"
    return Prefix(opening, asked, tuple(squeeze(masker.text(encodable(turn.answer))) for turn in sent.turns))


def _digest_turns(prefix: Prefix, count: int) -> str:
    texts = [*prefix.asked[:count], *prefix.answers[:count]]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


async def _list_candidates(store: Store, prefix: Prefix) -> AsyncGenerator[_Candidate]:
    """Yield the newest sessions that begin as the conversation, and so far do not contradict it."""
    query = SessionQuery(app=APP, tags=(prefix.opening,), limit=_MOST_CANDIDATES)
    async for info in list_sessions(store, query):
        turns = await store.database.offload(partial(read_turns, store, info.id))
        foreign = _count_foreign(info.tags, prefix)
        if foreign is not None:
            yield _Candidate(info, turns, foreign)


def _count_foreign(tags: Sequence[str], prefix: Prefix) -> int | None:
    """Return how many turns came before a session; None if they are not those of the conversation."""
    for tag in tags:
        if tag.startswith("before:"):
            count = int(tag.split(":")[1])
            fits = count <= len(prefix.answers) and tag == f"before:{count}:{_digest_turns(prefix, count)}"
            return count if fits else None
    return 0


def _has_turns(candidate: _Candidate, prefix: Prefix) -> bool:
    """Return whether a session has all turns before the new message."""
    count = len(prefix.answers) - candidate.foreign
    own = candidate.turns[:count]
    owners = {turn.session_id for turn in candidate.turns} | {candidate.info.id}
    return len(own) == count and all(
        turn.asked_digest == digest and _is_answer(turn, answer, owners)
        for turn, digest, answer in zip(
            own, prefix.asked[candidate.foreign :], prefix.answers[candidate.foreign :], strict=False
        )
    )


def _is_answer(turn: StoredTurn, text: str, owners: set[str]) -> bool:
    """Return whether a client was given this text for a turn: all of the answer, its beginning if the client
    left before its end, or a text that names the session because something waited there."""
    return squeeze(turn.answer).startswith(text) or any(owner in text for owner in owners)


async def _find_same_message(
    request: ApiRequest, candidates: Sequence[_Candidate], prefix: Prefix
) -> AnswerPlace | None:
    """Return the place of a turn that has the new message already, if the client asks for it again."""
    for candidate in candidates:
        count = len(prefix.answers) - candidate.foreign
        if len(candidate.turns) != count + 1 or not _has_turns(candidate, prefix):
            continue
        turn, info = candidate.turns[-1], candidate.info
        if turn.session_id == info.id and await is_sent_again(request, info.id, turn, prefix.asked[-1]):
            return AnswerPlace(info.id, turn.before_row)
    return None


async def is_sent_again(request: ApiRequest, session_id: str, turn: StoredTurn, digest: str) -> bool:
    """Return whether a client asks again for the answer of a turn that it did not get.

    It does if the turn still works and no client follows the session, or if the client says that it retries.
    """
    if turn.asked_digest != digest or request.service.feeds.is_followed(session_id):
        return False
    store = request.store
    summary = await store.database.offload(lambda: store.index.summary(session_id))
    works = not turn.status or (turn.status == "interrupted" and summary.status == "running")
    is_late = datetime.now(UTC) - datetime.fromisoformat(summary.updated_at) > _RETRIED_WITHIN
    is_retry = request.headers.get("x-stainless-retry-count", "0") not in ("", "0")
    return works or (is_retry and not is_late)


async def _find_session(store: Store, candidates: Sequence[_Candidate], prefix: Prefix) -> str | None:
    """Return the session that goes on with the conversation, or a new fork of it; None: there is none."""
    branching: tuple[str, int] | None = None
    for candidate in candidates:
        count = len(prefix.answers) - candidate.foreign
        if count == 0 or not _has_turns(candidate, prefix):
            continue
        if len(candidate.turns) == count:
            return candidate.info.id
        turn = candidate.turns[count - 1]
        if branching is None and turn.status in ENDED:
            branching = candidate.info.id, turn.last_step
    return None if branching is None else await branch(store, *branching)
