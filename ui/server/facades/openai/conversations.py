"""Finds the session of a conversation that a client sends again as a whole, and stores its new message there.

Each answer is stored as a tag of its session, a digest of the conversation up to it: one look-up finds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from .....agent.history.time_travel.branches import branch
from .....state.conversation.messages import UserContent
from .....state.databases.database import Statement
from .....state.errors import SessionNotFound, StoreError
from .....state.lazy_dataclass import dataclass
from .....state.store.sessions.conversation_ends import (
    ConversationEnd,
    find_earlier_ends,
    find_newest_ends,
    list_working,
)
from .....state.store.store import Store
from ...routes.route import ApiRequest
from .contents import SentConversation
from .conversation_digests import DigestedConversation, digest_conversation
from .stored_histories import (
    APP,
    ENDED,
    MOST_CANDIDATES,
    Candidate,
    list_candidates,
    load_candidates,
    make_foreign_tags,
)
from .turns import StoredTurn, count_rows, read_turns_after, read_waiting_turns

_RETRIED_WITHIN = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where the answer of a request comes."""

    session_id: str
    after_row: int
    """The answer is the first turn after this row."""


class ClientConversation:
    """A conversation that a client sends as a whole with a new message."""

    def __init__(
        self, request: ApiRequest, agent: str, user: str, tags: tuple[str, ...], sent: SentConversation
    ) -> None:
        """`tags` are for a session that begins with it."""
        self._request, self._store = request, request.store
        self._agent, self._user, self._tags, self._sent = agent, user, tags, sent
        self._digested: DigestedConversation | None = None

    async def pin(self) -> AnswerPlace:
        """Store the new message in the session of the conversation; return where its answer comes.

        A session with exactly these turns goes on. A session that went on in another way is forked. If there
        is none, a session begins. A message that a session has already, and whose client is gone, is not
        stored again: the answer that is or was made comes.
        """
        self._digested = sent = await self._digest("chat")
        if (joined := await self._join(sent)) is not None:
            return joined
        if sent.answers and (place := await self._continue(sent)) is not None:
            return place
        return await self._begin(sent)

    async def begin(self) -> AnswerPlace:
        """Begin a session with the message, unless the client sends again what a session of it has
        already."""
        sent = await self._digest("responses")
        return await self._join(sent) or await self._begin(sent)

    async def note_answer(self, turn: StoredTurn, answer: str) -> None:
        """Store that the session has this conversation, with the answer as the client gets it."""
        assert self._digested is not None, "the conversation was not pinned"
        step = turn.last_step if turn.status in ENDED else -1
        digest = self._digested.digest_answered(answer)
        end = ConversationEnd(turn.session_id, digest, turn.last_row, step)
        # Without it the histories of sessions are compared with the conversation.
        with suppress(StoreError):
            await self._store.database.acommit(end.note())

    async def _digest(self, kind: str) -> DigestedConversation:
        cwd = self._request.service.cwd
        digest = partial(digest_conversation, cwd, self._agent, self._user, self._sent, kind)
        return await self._store.database.offload(digest)

    async def _join(self, sent: DigestedConversation) -> AnswerPlace | None:
        """Return the place of a turn that has the new message already, if the client asks for it again."""
        store, feeds = self._store, self._request.service.feeds
        if _is_retry(self._request):
            return await self._find_asked([one async for one in list_candidates(store, sent)], sent)
        list_ids = partial(list_working, store.database, store.tenant, sent.opening)
        ids = [one for one in await store.database.offload(list_ids) if not feeds.is_followed(one)]
        found = load_candidates(store, ids[:MOST_CANDIDATES], sent)
        return await self._find_asked([one async for one in found], sent)

    async def _find_asked(
        self, candidates: Sequence[Candidate], sent: DigestedConversation
    ) -> AnswerPlace | None:
        for candidate in candidates:
            turn = candidate.find_asked_turn(sent)
            if turn is not None and await is_sent_again(
                self._request, candidate.session_id, turn, sent.asked[-1]
            ):
                return AnswerPlace(candidate.session_id, turn.before_row)
        return None

    async def _continue(self, sent: DigestedConversation) -> AnswerPlace | None:
        """Store the message in the session with exactly these turns, or in a fork; None: there is none."""
        store, message = self._store, self._sent.message
        newest = await store.database.offload(
            partial(find_newest_ends, store.database, store.tenant, sent.past)
        )
        outdated: list[ConversationEnd] = []
        for end in newest:
            if await store.database.offload(partial(_is_newest, store, end)):
                return await send(self._request, end.session_id, message, end.note_continued())
            outdated.append(end)
        find = partial(find_earlier_ends, store.database, store.tenant, sent.past)
        for end in (*outdated, *await store.database.offload(find)):
            if end.step >= 0:
                return await send(self._request, await branch(store, end.session_id, end.step), message)
        return await self._continue_by_history(sent)

    async def _continue_by_history(self, sent: DigestedConversation) -> AnswerPlace | None:
        """Do what `_continue` does by the histories of sessions.

        A client may have only a part of an answer, or a process died before it stored the answer as a tag.
        """
        candidates = [one async for one in list_candidates(self._store, sent)]
        if (joined := await self._find_asked(candidates, sent)) is not None:
            return joined
        session_id = await _find_session(self._store, candidates, sent)
        return None if session_id is None else await send(self._request, session_id, self._sent.message)

    async def _begin(self, sent: DigestedConversation) -> AnswerPlace:
        session_id = str(uuid.uuid4())
        tags = (sent.opening, *make_foreign_tags(sent), *self._tags)
        labels = {"app": APP, "user": self._user, "tags": tags}
        runner, instructions = self._request.service.runner, write_instructions(self._sent)
        await runner.create(self._store, self._agent, session_id, labels, instructions)
        return await send(self._request, session_id, self._sent.message)


async def send(
    request: ApiRequest, session_id: str, message: UserContent, also: Sequence[Statement] = ()
) -> AnswerPlace:
    """Store a message in a session that no other request changes now; return where its answer comes.

    The statements `also` are in the same commit.
    """
    after_row = count_rows(request.store, session_id) - 1
    await request.service.runner.send(request.store, session_id, message, also)
    return AnswerPlace(session_id, after_row)


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


def _is_newest(store: Store, end: ConversationEnd) -> bool:
    """Return whether nothing has come after the end of a conversation."""
    try:
        is_further = count_rows(store, end.session_id) - 1 > end.row
        if is_further and read_turns_after(store, end.session_id, end.row):
            return False
        return not read_waiting_turns(store, end.session_id)
    except SessionNotFound:
        return False


def _is_retry(request: ApiRequest) -> bool:
    """Return whether the client says that it sends a request again."""
    return request.headers.get("x-stainless-retry-count", "0") not in ("", "0")


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
    return works or (_is_retry(request) and not is_late)


async def _find_session(
    store: Store, candidates: Sequence[Candidate], sent: DigestedConversation
) -> str | None:
    """Return the session that goes on with the conversation, or a new fork of it; None: there is none."""
    branching: tuple[str, int] | None = None
    for candidate in candidates:
        count = len(sent.answers) - candidate.foreign
        if count == 0 or not candidate.has_turns_before_message(sent):
            continue
        if len(candidate.turns) == count:
            return candidate.session_id
        turn = candidate.turns[count - 1]
        if branching is None and turn.status in ENDED:
            branching = candidate.session_id, turn.last_step
    return None if branching is None else await branch(store, *branching)
