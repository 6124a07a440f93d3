"""The route of AG-UI: one request is one run of a session, whose id is that of the thread."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from .....agent.session.decisions import make_decision
from .....state.calls import CallDecision
from .....state.conversation.attachments import AttachedFile, attachment_from_bytes
from .....state.conversation.messages import UserContent
from .....state.errors import UsageError
from ....headless.json_output import Object, encode
from ...answers import RequestRefused
from ...routes.route import MOST_FILES_BYTES, ApiRequest, ApiRoute
from ...streams.session_feed import PING
from ..session_events import LAST_EVENTS
from ..session_turn import SessionStatus, SessionTurn, SessionTurnResponse
from .translator import Translator
from .wire import AgUiAnswer, AgUiContent, AgUiResume, AgUiRun, AgUiText

_CONTENT: TypeAdapter[AgUiContent] = TypeAdapter(AgUiContent)


async def run_thread(request: ApiRequest) -> Response:
    """Answer with the events of a run: of the last message, of decisions, or of what is open."""
    wanted = request.read_body(AgUiRun)
    content = await asyncio.to_thread(_read_message, wanted)
    turn = SessionTurn(request, wanted.thread_id)
    try:
        status = await _start(turn, request.path["agent"], wanted, content)
        own_message = content if isinstance(content, str) else None
        translator = Translator(wanted.thread_id, wanted.run_id, own_message)
        return SessionTurnResponse(turn, _make_frames(turn, translator, status))
    except BaseException:
        await turn.close()
        raise


async def _start(
    turn: SessionTurn, agent: str, wanted: AgUiRun, content: UserContent | None
) -> SessionStatus | None:
    """Start what a client wants; return None if a run has events, else the state of the session."""
    if wanted.resume:
        status = await turn.open(agent)
        is_going_on = await turn.decide([_read_decision(entry, status) for entry in wanted.resume])
        return None if is_going_on else await turn.read_status()
    if content is None:
        return await _follow(turn, agent)
    status = await turn.open(agent)
    if status.pending:
        raise RequestRefused(
            409, "needs_decision", "Calls of this thread wait for a decision.", "Send it in `resume`."
        )
    await turn.send(content)
    return None


async def _follow(turn: SessionTurn, agent: str) -> SessionStatus | None:
    """Follow a run that works, or let one that was interrupted go on."""
    status = await turn.join(agent)
    if status.is_active:
        return None
    if status.pending or status.status != "interrupted":
        return status
    await turn.go_on()
    return None


async def _make_frames(
    turn: SessionTurn, translator: Translator, status: SessionStatus | None
) -> AsyncGenerator[bytes]:
    yield _encode(translator.begin())
    async for event in turn.events() if status is None else _yield_one(status):
        if event is None:
            yield PING
            continue
        if isinstance(event, SessionStatus):
            made = translator.finish_idle(event.status, event.pending)
        elif event["type"] in LAST_EVENTS:
            made = translator.finish(event)
        else:
            made = translator.translate(event)
        for one in made:
            yield _encode(one)


async def _yield_one(status: SessionStatus) -> AsyncGenerator[SessionStatus]:
    yield status


def _encode(event: Object) -> bytes:
    return f"data: {encode(event)}\n\n".encode("ascii")


def _read_message(wanted: AgUiRun) -> UserContent | None:
    """Return the new message, which is the last one if it is of the user; None: there is none."""
    if wanted.resume or not wanted.messages or wanted.messages[-1].role != "user":
        return None
    try:
        content = _CONTENT.validate_python(wanted.messages[-1].content)
    except ValidationError:
        raise UsageError(
            "The last message is not a text, or a list of texts and files as `data`.",
            "The server fetches no addresses.",
        ) from None
    parts = [AgUiText(type="text", text=content)] if isinstance(content, str) else content
    texts = [part.text for part in parts if isinstance(part, AgUiText)]
    if len(texts) < len(parts):
        return tuple(part.text if isinstance(part, AgUiText) else _read_file(part) for part in parts)
    if not (text := "\n\n".join(texts)).strip():
        raise UsageError("There is nothing in this message.")
    return text


def _read_file(part: Any) -> AttachedFile:
    try:
        content = base64.b64decode(part.source.value, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("The `value` of a file is not valid base64.") from None
    return attachment_from_bytes(content, part.type)


def _read_decision(entry: AgUiResume, status: SessionStatus) -> CallDecision:
    """Return an answer to an interrupt as a decision; raises `UsageError` if it does not fit."""
    call = next((one for one in status.pending if one["call_id"] == entry.interrupt_id), None)
    if call is None:
        message = f"No interrupt {entry.interrupt_id[:80]!r} waits."
        raise RequestRefused(409, "not_waiting", message, "Read the thread again.")
    try:
        answer = AgUiAnswer.model_validate(entry.payload or {})
    except ValidationError:
        raise UsageError("The payload of an answer does not fit the `responseSchema`.") from None
    if call["kind"] != "approval":
        if entry.status == "cancelled" or answer.outcome is None:
            raise UsageError("This interrupt asks for the `outcome` of a call.", "See its `responseSchema`.")
        return make_decision(entry.interrupt_id, answer.outcome, answer.result)
    if entry.status == "cancelled" or not answer.approved:
        return make_decision(entry.interrupt_id, "deny", answer.reason)
    edited = None if answer.edited_args is None else json.dumps(answer.edited_args)
    return make_decision(entry.interrupt_id, "approve", arguments=edited)


AG_UI_ROUTES = (
    ApiRoute("POST", "/ag-ui/{agent}", "run_thread", "AG-UI: run a thread, and stream its events", "run",
          run_thread, body=AgUiRun, media="text/event-stream", most_bytes=MOST_FILES_BYTES,
          protocol="AG-UI"),
)  # fmt: skip
