"""Begins sessions, sends messages, steers, decides about calls, cancels, forks and deletes."""

import asyncio
import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from ....agent.history.time_travel.branches import branch
from ....agent.session.decisions import make_decision
from ....agent.session.secrets import masker_for
from ....state.calls import CallDecision, PendingCall
from ....state.conversation.attachments import AttachedFile, attachment_from_bytes
from ....state.conversation.messages import UserContent, require_content
from ....state.errors import UsageError
from ....state.store.sessions.deaths import PARKED
from ....state.store.sessions.record_feed import load_position
from ..answers import RequestRefused
from ..streams.stored_events import list_waiting_calls
from . import forms
from .route import ApiRequest
from .session_reading import find_last_event_id, show_session


async def create_session(request: ApiRequest) -> forms.AcceptedAnswer:
    """Begin a session. With a message, its run starts."""
    wanted, runner = request.read_body(forms.NewSessionForm), request.service.runner
    session_id = wanted.session_id or str(uuid.uuid4())
    content = None if wanted.message is None else await _read_message(wanted.message)
    name = wanted.agent or next(iter(request.service.agents))
    request.service.require_agent(name)
    labels = {"app": wanted.app, "user": wanted.user, "tags": tuple(wanted.tags)}
    if await request.store.database.offload(lambda: request.store.index.exists(session_id)):
        # All tenants share the ids, so the answer does not depend on the tenant that has it.
        raise RequestRefused(409, "taken", "This id is taken.", "Choose another id, or none.")
    await runner.create(request.store, name, session_id, labels, is_sent_to=content is not None)
    if content is not None:
        await runner.send(request.store, session_id, content)
    return forms.AcceptedAnswer(session_id=session_id, last_event_id=None)


async def send_message(request: ApiRequest) -> forms.AcceptedAnswer:
    """Store a message; a run answers it, after those that wait already."""
    content = await _read_message(request.read_body(forms.NewMessageForm).content)
    accepted = await _accept(request)
    await request.service.runner.send(request.store, request.session_id, content)
    return accepted


async def steer_session(request: ApiRequest) -> forms.AcceptedAnswer:
    """Store a message for the run that works now: its next model call contains it."""
    accepted = await _accept(request)
    text = request.read_body(forms.SteeringForm).text
    await request.service.runner.steer(request.store, request.session_id, text)
    return accepted


async def continue_session(request: ApiRequest) -> forms.AcceptedAnswer:
    """Go on with an interrupted run."""
    accepted = await _accept(request)
    await request.service.runner.go_on(request.store, request.session_id)
    return accepted


async def cancel_run(request: ApiRequest) -> forms.AcceptedAnswer:
    """Interrupt the run of a session, whichever worker runs it. It can be continued."""
    accepted = await _accept(request)
    await request.service.runner.cancel(request.store, request.session_id)
    return accepted


async def approve_calls(request: ApiRequest) -> forms.AcceptedAnswer:
    """Approve calls that wait, and go on. A parked session may try again."""
    wanted = request.read_body(forms.ApprovalForm)
    if not wanted.calls and await _is_parked(request):
        return await continue_session(request)
    calls = await _select_calls(request, wanted.calls)
    if wanted.arguments is not None and len(calls) != 1:
        raise UsageError("Edited arguments are for one call.", "Name the id of this call.")
    arguments = None if wanted.arguments is None else json.dumps(wanted.arguments)
    return await _decide(request, [make_decision(one, "approve", arguments=arguments) for one in calls])


async def deny_calls(request: ApiRequest) -> forms.AcceptedAnswer:
    """Deny calls that wait, and go on: the model reads the reason."""
    wanted = request.read_body(forms.DenialForm)
    calls = await _select_calls(request, wanted.calls)
    return await _decide(request, [make_decision(one, "deny", wanted.reason) for one in calls])


async def settle_call(request: ApiRequest) -> forms.AcceptedAnswer:
    """Say what became of a call whose outcome is unknown, and go on."""
    wanted = request.read_body(forms.SettlingForm)
    if wanted.call not in [call.call_id for call in await _list_waiting(request)]:
        raise _make_not_waiting(f"No call {wanted.call[:80]!r} waits for a decision.")
    return await _decide(request, [make_decision(wanted.call, wanted.outcome, wanted.result)])


async def fork_session(request: ApiRequest) -> forms.AcceptedAnswer:
    """Begin a session that continues this one after a step."""
    at, store = request.read_body(forms.ForkPlaceForm).at, request.store
    summary = await store.database.offload(lambda: store.index.summary(request.session_id))
    if summary.steps == 0:
        raise RequestRefused(409, "no_step", "This session has no step yet, so there is nothing to fork.")
    if at is not None and at >= summary.steps:
        newest = f"Its newest step is {summary.steps - 1}."
        raise RequestRefused(404, "not_found", f"This session has no step {at}.", newest)
    new_id = await branch(store, request.session_id, at)
    return forms.AcceptedAnswer(session_id=new_id, last_event_id=None)


async def rename_session(request: ApiRequest) -> forms.SessionDetailsAnswer:
    """Change the title."""
    store = request.store
    masker = masker_for(request.service.env, Path(request.service.cwd))
    title = masker.text(request.read_body(forms.RenamingForm).title)
    await store.database.offload(lambda: store.rename(request.session_id, title))
    return await show_session(request)


async def delete_session(request: ApiRequest) -> forms.DeletedAnswer:
    """Delete a session and its sub-agents."""
    store = request.store
    # A client that has read the result of a run may ask before the run has given the session back.
    await request.service.runner.wait_until_free(request.session_id)
    return forms.DeletedAnswer(deleted=await store.database.offload(lambda: store.delete(request.session_id)))


async def _read_message(content: str | Sequence[forms.TextBlockForm | forms.FileBlockForm]) -> UserContent:
    """Return the content of a message, its files read in a thread; raises `UsageError` as `read_content`."""
    return (
        read_content(content) if isinstance(content, str) else await asyncio.to_thread(read_content, content)
    )


def read_content(content: str | Sequence[forms.TextBlockForm | forms.FileBlockForm]) -> UserContent:
    """Return the content of a message; raises `UsageError` for an empty text or a bad file.

    A document may take seconds.
    """
    given = content if isinstance(content, str) else tuple(_read_block(block) for block in content)
    require_content(given)
    return given


def _read_block(block: forms.TextBlockForm | forms.FileBlockForm) -> str | AttachedFile:
    if isinstance(block, forms.TextBlockForm):
        return block.text
    try:
        content = base64.b64decode(block.source.data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("The `data` of a file is not valid base64.") from None
    return attachment_from_bytes(content, block.name or block.type)


async def _accept(request: ApiRequest) -> forms.AcceptedAnswer:
    store = request.store
    last = await store.database.offload(lambda: find_last_event_id(store, request.session_id))
    return forms.AcceptedAnswer(session_id=request.session_id, last_event_id=last)


async def _select_calls(request: ApiRequest, named: Sequence[str]) -> list[str]:
    """Return the calls of a decision: those that are named, or all that wait for approval."""
    waiting = [call.call_id for call in await _list_waiting(request) if call.kind == "approval"]
    if unknown := [one for one in named if one not in waiting]:
        raise _make_not_waiting(f"No call {unknown[0][:80]!r} waits for approval.")
    if not waiting:
        raise _make_not_waiting("No call of this session waits for approval.")
    return [*named] or waiting


async def _is_parked(request: ApiRequest) -> bool:
    """Return whether a session is parked and no call of it waits for approval."""
    store = request.store
    head = await store.database.offload(lambda: store.index.head(request.session_id))
    return head.status == PARKED and not await _list_waiting(request)


async def _list_waiting(request: ApiRequest) -> Sequence[PendingCall]:
    database = request.store.database
    position = await database.offload(lambda: load_position(database, request.session_id))
    return list_waiting_calls(position.fields, position.asked)


def _make_not_waiting(message: str) -> RequestRefused:
    return RequestRefused(409, "not_waiting", message, "Read the session again.")


async def _decide(request: ApiRequest, decisions: Sequence[CallDecision]) -> forms.AcceptedAnswer:
    accepted = await _accept(request)
    signed = [one.model_copy(update={"by": request.who.name}) for one in decisions]
    await request.service.runner.decide(request.store, request.session_id, signed)
    return accepted
