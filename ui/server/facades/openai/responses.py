"""Responses: each is a turn of a session, and another response can follow it at any later time."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from starlette.responses import Response

from .....agent.history.time_travel.branches import branch
from .....state.errors import SessionNotFound, UsageError
from .....state.session import SessionSettings
from ...answers import JsonAnswer, RequestRefused
from ...routes.route import ApiRequest
from .chat_completions import make_tags, require_model
from .contents import SentConversation, read_conversation
from .conversation_digests import digest_message
from .conversations import AnswerPlace, ClientConversation, is_sent_again, send
from .forms import InputMessage, ResponseBody
from .outcomes import make_outcome
from .response_form import ResponseForm, parse_response_id
from .stored_histories import ENDED
from .turn_follower import WAITING, TurnFollower
from .turn_response import TurnResponse
from .turns import StoredTurn, read_turns_after, read_waiting_turns

_INSTRUCTIONS = "instructions:"
_CANCELLED_WITHIN_S, _LOOK_S = 5.0, 0.05


async def create_response(request: ApiRequest) -> Response:
    """Store a message, in the session of the previous response or in a new one, and answer it."""
    body, service = request.read_body(ResponseBody), request.service
    agent = require_model(request, body.model)
    sent = _read_input(body)
    service.require_stream_place()
    async with service.lock_conversations(request.who.tenant):
        if body.previous_response_id is None:
            tags = (f"{_INSTRUCTIONS}{_digest(sent.instructions)}", *make_tags(body.metadata))
            place = await ClientConversation(request, agent, body.user or "", tags, sent).begin()
        else:
            place = await _continue(request, body.previous_response_id, agent, sent)
        follower = None if body.background and not body.stream else TurnFollower(request, place)
    form = ResponseForm(
        place, agent, time.time(), body.previous_response_id, body.instructions, body.metadata or {}
    )
    if follower is None:
        return JsonAnswer({**form.make("queued"), "background": True})
    return TurnResponse(follower, form, request.base_url, bool(body.stream))


async def show_response(request: ApiRequest) -> Response:
    """Answer with a response as it is now."""
    place = await _require_place(request, request.path["response_id"])
    return await _describe(request, place)


async def cancel_response(request: ApiRequest) -> Response:
    """Interrupt the run of a response, if it works, and answer with the response."""
    place = await _require_place(request, request.path["response_id"])
    turns = await _read_turns(request, place)
    if not turns:
        raise RequestRefused(409, "not_running", "This response has not begun; a call before it waits.")
    if len(turns) == 1 and not turns[0].status:
        await request.service.runner.cancel(request.store, place.session_id)
        await _wait_until_ended(request, place)
    return await _describe(request, place)


def _read_input(body: ResponseBody) -> SentConversation:
    messages = body.input
    if isinstance(messages, str):
        messages = [InputMessage(role="user", content=messages)]
    sent = read_conversation(messages)
    if body.previous_response_id is not None and sent.turns:
        raise UsageError("With previous_response_id the input has only new messages of the user.")
    return replace(sent, instructions="\n\n".join(filter(None, (body.instructions, sent.instructions))))


def _digest(instructions: str) -> str:
    return hashlib.sha256(instructions.encode("utf-8", "replace")).hexdigest()[:32]


async def _require_place(request: ApiRequest, response_id: str) -> AnswerPlace:
    """Return the place of a response of the caller's tenant; raises `RequestRefused` if there is none."""
    missing = RequestRefused(404, "response_not_found", f"There is no response {response_id[:100]!r}.")
    place = parse_response_id(response_id)
    if place is None:
        raise missing
    try:
        await request.store.database.offload(lambda: request.store.index.summary(place.session_id))
    except SessionNotFound:
        raise missing from None
    return place


async def _read_turns(request: ApiRequest, place: AnswerPlace) -> list[StoredTurn]:
    store = request.store
    return await store.database.offload(lambda: read_turns_after(store, place.session_id, place.after_row))


async def _continue(request: ApiRequest, previous: str, agent: str, sent: SentConversation) -> AnswerPlace:
    """Store a message after a response: in its session, or in a fork if that went on in another way."""
    try:
        place = await _require_place(request, previous)
    except RequestRefused as refused:
        raise RequestRefused(400, "previous_response_not_found", refused.message) from None
    await _require_same_session(request, place, agent, sent)
    turns = await _read_turns(request, place)
    if not turns:
        raise RequestRefused(409, "not_ended", "The previous response has not begun.")
    if len(turns) == 1:
        read = partial(read_waiting_turns, request.store, place.session_id)
        turns += await request.store.database.offload(read)
    turn, *others = turns
    if others:
        digest = digest_message(request.service.cwd, sent.message)
        if await is_sent_again(request, place.session_id, others[0], digest):
            return AnswerPlace(place.session_id, others[0].before_row)
        if turn.status not in ENDED:
            raise RequestRefused(409, "not_ended", "The session went on after the previous response.")
        forked = await branch(request.store, place.session_id, turn.last_step)
        return await send(request, forked, sent.message)
    if not turn.status:
        raise RequestRefused(409, "not_ended", "The previous response is still in progress.")
    return await send(request, place.session_id, sent.message)


async def _require_same_session(
    request: ApiRequest, place: AnswerPlace, agent: str, sent: SentConversation
) -> None:
    """Raise `UsageError` if a message asks for another model or other instructions than its session has."""
    settings = await _load_settings(request, place)
    if settings.agent != agent:
        raise UsageError(f"The previous response is of the model {settings.agent!r}: name this model.")
    if sent.instructions and f"{_INSTRUCTIONS}{_digest(sent.instructions)}" not in settings.tags:
        raise UsageError(
            "The instructions of a session stay those of its first response: send the same ones or none."
        )


async def _load_settings(request: ApiRequest, place: AnswerPlace) -> SessionSettings:
    store = request.store
    return await store.database.offload(lambda: store.index.settings(place.session_id))


async def _describe(request: ApiRequest, place: AnswerPlace) -> Response:
    turns = await _read_turns(request, place)
    settings = await _load_settings(request, place)
    turn = turns[0] if turns else None
    created = datetime.fromisoformat(turn.at).timestamp() if turn is not None else 0.0
    form = ResponseForm(place, settings.agent, created, metadata=_find_metadata(settings.tags))
    if turn is None:
        read = partial(request.store.index.summary, place.session_id)
        if (await request.store.database.offload(read)).status not in WAITING:
            return JsonAnswer(form.make("queued"))
    if turn is not None and not turn.status:
        return JsonAnswer(form.make("in_progress"))
    try:
        return JsonAnswer(form.make_whole(make_outcome(turn, place.session_id, request.base_url)))
    except RequestRefused as refused:
        return JsonAnswer(form.make_failed(refused))


def _find_metadata(tags: tuple[str, ...]) -> Mapping[str, str]:
    pairs = (tag.partition("=") for tag in tags)
    return {name: value for name, is_pair, value in pairs if is_pair}


async def _wait_until_ended(request: ApiRequest, place: AnswerPlace) -> None:
    """Wait until the run that was interrupted has recorded its end."""
    ends_at = time.monotonic() + _CANCELLED_WITHIN_S
    # The worker sends no event when it has recorded the end.
    while not (await _read_turns(request, place))[0].status and time.monotonic() < ends_at:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
