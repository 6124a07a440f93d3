"""The routes of A2A: the card of an agent, and its methods over JSON-RPC."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from .....agent.session.decisions import make_decision
from .....state.calls import CallDecision
from .....state.conversation.attachments import AttachedFile, attachment_from_bytes
from .....state.conversation.messages import UserContent
from .....state.errors import SandburError, SessionNotFound, UsageError
from .....state.store.sessions.record_feed import load_history_page
from ....headless.json_output import Object, encode
from ...answers import JsonAnswer, RequestRefused
from ...routes.route import MOST_FILES_BYTES, ApiRequest, ApiRoute
from ..session_turn import SessionStatus, SessionTurn, SessionTurnResponse, read_status, wait_until_ended
from . import wire

FormT = TypeVar("FormT", bound=BaseModel)


async def show_card(request: ApiRequest) -> Response:
    """Answer with the card of an agent; raises `UsageError` if the server does not have it."""
    name = request.path["agent"]
    agent = request.service.runner.find_agent(name)
    url = f"{request.base_url}/a2a/{name}"
    description = agent.description or f"The agent {name} of a server of Sandbur."
    return JsonAnswer(wire.make_card(agent.name or name, url, description))


async def answer_a2a(request: ApiRequest) -> Response:
    """Answer one request of JSON-RPC; an error of it is an answer, too."""
    wanted = request.read_body(wire.A2aRequest)
    try:
        request.service.runner.find_agent(request.path["agent"])
        handle = _METHODS.get(wanted.method)
        if handle is None:
            raise wire.A2aRefused(wire.NO_METHOD, "This method is not known.")
        found = await handle(request, wanted)
    except wire.A2aRefused as refused:
        return _make_error(wanted, refused.code, refused.message)
    except RequestRefused as refused:
        return _make_error(wanted, wire.UNSUPPORTED, refused.message)
    except SessionNotFound as error:
        return _make_error(wanted, wire.NO_TASK, error.message)
    except UsageError as error:
        return _make_error(wanted, wire.PARSE_PARAMS, error.message)
    except SandburError as error:
        return _make_error(wanted, wire.UNSUPPORTED, error.message)
    return found if isinstance(found, Response) else JsonAnswer(_make_result(wanted, found))


async def _send(request: ApiRequest, wanted: wire.A2aRequest) -> Object:
    """Send a message, and wait for the end of the run unless the client does not want to."""
    send = _read(wire.A2aSend, wanted.params)
    turn = await _begin(request, send)
    try:
        if not send.configuration.return_immediately:
            async with aclosing(turn.events()) as events:
                async for _ in events:
                    pass
        return {"task": await _read_task(request, turn.session_id)}
    finally:
        await turn.close()


async def _send_streaming(request: ApiRequest, wanted: wire.A2aRequest) -> Response:
    turn = await _begin(request, _read(wire.A2aSend, wanted.params))
    return SessionTurnResponse(turn, _make_frames(turn, wanted))


async def _subscribe(request: ApiRequest, wanted: wire.A2aRequest) -> Response:
    """Follow a task that works."""
    session_id = _read(wire.A2aTask, wanted.params).id
    turn = SessionTurn(request, session_id)
    status = await turn.join(request.path["agent"])
    if not status.is_active:
        raise wire.A2aRefused(wire.UNSUPPORTED, "The task does not work now; get it instead.")
    return SessionTurnResponse(turn, _make_frames(turn, wanted))


async def _get(request: ApiRequest, wanted: wire.A2aRequest) -> Object:
    return await _read_task(request, _read(wire.A2aTask, wanted.params).id)


async def _cancel(request: ApiRequest, wanted: wire.A2aRequest) -> Object:
    """Interrupt the run of a task, and wait until it has ended."""
    session_id = _read(wire.A2aTask, wanted.params).id
    await read_status(request, session_id)
    try:
        await request.service.runner.cancel(request.store, session_id)
    except RequestRefused as refused:
        raise wire.A2aRefused(wire.NOT_CANCELABLE, refused.message) from None
    await request.service.runner.wait_until_free(session_id)
    await wait_until_ended(request, session_id)
    return await _read_task(request, session_id)


_METHODS: dict[str, Callable[[ApiRequest, wire.A2aRequest], Awaitable[Object | Response]]] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send_streaming,
    "GetTask": _get,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
}


async def _begin(request: ApiRequest, send: wire.A2aSend) -> SessionTurn:
    """Take the task of a message, or a new one, and start what the message is: a task or an answer."""
    session_id = send.message.task_id or str(uuid.uuid4())
    if send.message.task_id:
        await read_status(request, session_id)
    turn = SessionTurn(request, session_id)
    try:
        status = await turn.open(request.path["agent"])
        if status.pending:
            await turn.decide(_read_decisions(send.message, status))
        else:
            await turn.send(await asyncio.to_thread(_read_content, send.message))
        return turn
    except BaseException:
        await turn.close()
        raise


async def _make_frames(turn: SessionTurn, wanted: wire.A2aRequest) -> AsyncGenerator[bytes]:
    """Yield the task, its status whenever it changes, and its answer in pieces of whole messages."""
    own = {"taskId": turn.session_id, "contextId": turn.session_id}
    yield _encode(wanted, {"task": wire.make_task(turn.session_id, {"state": "TASK_STATE_WORKING"})})
    async for event in turn.events():
        if event is None:
            yield b": ping\n\n"
        elif isinstance(event, SessionStatus):
            status = wire.make_status(turn.session_id, event.status, event.pending)
            yield _encode(wanted, {"statusUpdate": {**own, "status": status}})
        elif event["type"] == "result":
            if event["result"]:
                artifact = wire.make_artifact(event["result"])
                yield _encode(wanted, {"artifactUpdate": {**own, "artifact": artifact, "lastChunk": True}})
            reason = None if event["error"] is None else event["error"]["message"]
            status = wire.make_status(turn.session_id, event["status"], event["pending"], reason)
            yield _encode(wanted, {"statusUpdate": {**own, "status": status}})


def _encode(wanted: wire.A2aRequest, result: Object) -> bytes:
    return f"data: {encode(_make_result(wanted, result))}\n\n".encode("ascii")


async def _read_task(request: ApiRequest, session_id: str) -> Object:
    """Return a task with its answer, if the last message of the session is one of the agent."""
    status = await read_status(request, session_id)
    name = "running" if status.is_active else status.status
    found = wire.make_status(session_id, name, () if status.is_active else status.pending)
    database = request.store.database

    def read_answer() -> str | None:
        total = load_history_page(database, session_id, 0, 0).total
        page = load_history_page(database, session_id, max(total - 1, 0), 1).messages
        is_answer = bool(page) and page[-1] is not None and page[-1].role == "assistant"
        return page[-1].display_text if is_answer and page[-1] is not None else None

    is_over = found["state"] == "TASK_STATE_COMPLETED"
    return wire.make_task(session_id, found, await database.offload(read_answer) if is_over else None)


def _read_decisions(message: wire.A2aMessage, status: SessionStatus) -> list[CallDecision]:
    """Return the decisions in the data of a message, which answers a task that asks for input.

    Each one is `{"call_id", "approved", "reason"}`, or `{"call_id", "outcome", "result"}`.
    """
    known = {call["call_id"]: call for call in status.pending}
    decisions: list[CallDecision] = []
    for part in message.parts:
        match part.data:
            case {"call_id": str(call_id), "approved": bool(approved)} if call_id in known:
                reason = part.data.get("reason", "")
                answer = "approve" if approved else "deny"
                decisions.append(make_decision(call_id, answer, reason if isinstance(reason, str) else ""))
            case {"call_id": str(call_id), "outcome": "done" | "failed" | "rerun" | "check" as outcome} if (
                call_id in known
            ):
                result = part.data.get("result", "")
                decisions.append(make_decision(call_id, outcome, result if isinstance(result, str) else ""))
            case _:
                continue
    if not decisions:
        raise UsageError(
            'The task waits for decisions: send data such as {"call_id": "...", "approved": true}.'
        )
    return decisions


def _read_content(message: wire.A2aMessage) -> UserContent:
    parts = [part for part in (_read_part(part) for part in message.parts) if part]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return tuple(parts)
    if not (text := "\n\n".join(texts)).strip():
        raise UsageError("There is nothing in this message.")
    return text


def _read_part(part: wire.A2aPart) -> str | AttachedFile | None:
    if part.text is not None:
        return part.text
    if part.raw is None:
        return None if part.data is None else json.dumps(part.data)
    try:
        return attachment_from_bytes(base64.b64decode(part.raw, validate=True), part.filename or "file")
    except (binascii.Error, ValueError):
        raise UsageError("The `raw` of a part is not valid base64.") from None


def _read(form: type[FormT], params: Any) -> FormT:
    try:
        return form.model_validate(params)
    except ValidationError:
        raise wire.A2aRefused(wire.PARSE_PARAMS, "The params do not fit this method.") from None


def _make_result(wanted: wire.A2aRequest, result: Object) -> Object:
    return {"jsonrpc": "2.0", "id": wanted.id, "result": result}


def _make_error(wanted: wire.A2aRequest, code: int, message: str) -> JsonAnswer:
    return JsonAnswer({"jsonrpc": "2.0", "id": wanted.id, "error": {"code": code, "message": message}})


A2A_ROUTES = (
    ApiRoute("GET", "/a2a/{agent}/.well-known/agent-card.json", "show_card", "A2A: the card of an agent",
          "read", show_card, protocol="A2A"),
    ApiRoute("POST", "/a2a/{agent}", "answer_a2a", "A2A: one request of JSON-RPC", "run", answer_a2a,
          body=wire.A2aRequest, most_bytes=MOST_FILES_BYTES, protocol="A2A"),
)  # fmt: skip
