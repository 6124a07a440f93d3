"""Reads sessions: lists and searches them, shows one with its history, its steps and its files."""

from itertools import islice
from typing import Any

from starlette.responses import Response

from ....agent.history.timeline import list_timeline
from ....agent.sdk.stored_sessions import SessionQuery, list_sessions
from ....state.conversation.messages import Message
from ....state.errors import SessionNotFound
from ....state.store.files.contents import is_used, read_content
from ....state.store.recording import list_changed_paths
from ....state.store.sessions.record_feed import count_records, load_history_page, load_position
from ....state.store.store import Store
from ...headless.json_output import Object, arguments_object, pending_objects
from ..streams.event_ids import EVENTS_PER_ROW
from ..streams.event_stream import EventStreamResponse
from ..streams.stored_events import list_plan_steps, list_waiting_calls
from . import forms
from .route import ApiRequest

_MOST_CHANGED = 1000
_DOWNLOAD = {"content-disposition": "attachment", "content-security-policy": "sandbox; default-src 'none'"}


async def list_page(request: ApiRequest) -> forms.SessionPageAnswer:
    """Answer with one page of sessions."""
    query = request.read_query(forms.SessionListQuery)
    wanted = SessionQuery(
        app=query.app,
        user=query.user,
        tags=() if query.tag is None else (query.tag,),
        status=query.status,
        since=query.since,
        until=query.until,
        text=query.text,
        limit=query.limit + 1,
        cursor=query.cursor,
        parent=query.parent,
        children=query.children,
    )
    names = forms.SessionEntryAnswer.model_fields
    found = [
        forms.SessionEntryAnswer(
            **{name: getattr(info, name) for name in names if name != "tags"}, tags=[*info.tags]
        )
        async for info in list_sessions(request.store, wanted)
    ]
    page = found[: query.limit]
    return forms.SessionPageAnswer(sessions=page, next=page[-1].cursor if len(found) > len(page) else None)


async def show_session(request: ApiRequest) -> forms.SessionDetailsAnswer:
    """Answer with one session: its labels, its plan, its waiting calls, its usage."""
    return await request.store.database.offload(lambda: _read_details(request.store, request.session_id))


def _read_details(store: Store, session_id: str) -> forms.SessionDetailsAnswer:
    settings, _ = store.open_settings(session_id)
    summary = store.index.summary(session_id)
    position = load_position(store.database, session_id)
    fields = position.fields
    return forms.SessionDetailsAnswer(
        id=summary.id,
        title=summary.title,
        status=summary.status,
        agent=settings.agent,
        model=summary.model,
        app=summary.app,
        user=summary.user,
        tags=[*summary.tags],
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        parent=None if summary.spawned_by is None else summary.spawned_by.session_id,
        forked_from=summary.parent_id,
        steps=summary.steps,
        mode=fields.get("execution_mode", settings.mode),
        goal=fields.get("current_goal"),
        plan=[
            forms.PlanStepEntryAnswer(
                step_id=step.step_id, description=step.description, status=step.status, summary=step.analysis
            )
            for step in list_plan_steps(fields)
        ],
        pending=[
            forms.WaitingCallAnswer.model_validate(one)
            for one in pending_objects(list_waiting_calls(fields, position.asked))
        ],
        usage=fields.get("usage") or {},
        last_event_id=find_last_event_id(store, session_id),
    )


def find_last_event_id(store: Store, session_id: str) -> str | None:
    """Return an id after which a stream has only what is recorded from now on; None: all there is."""
    count = count_records(store.database, [session_id]).get(session_id)
    if count is None or count.records == 0:
        return None
    return f"{session_id}_{(count.records - 1) * EVENTS_PER_ROW + EVENTS_PER_ROW - 1}"


async def read_history(request: ApiRequest) -> forms.HistoryPartAnswer:
    """Answer with a part of the main history."""
    query, database = request.read_query(forms.HistoryQueryForm), request.store.database
    page = await database.offload(
        lambda: load_history_page(database, request.session_id, query.first, query.limit)
    )
    messages = [_describe_message(number, one) for number, one in enumerate(page.messages, query.first)]
    return forms.HistoryPartAnswer(total=page.total, messages=messages)


def _describe_message(number: int, message: Message | None) -> forms.HistoryMessageAnswer:
    if message is None:
        return forms.HistoryMessageAnswer(
            number=number, role="damaged", text="", tool_uses=[], tool_results=[], files=[]
        )
    uses: list[Object] = [
        {"call_id": use.call_id, "tool": use.tool, "arguments": arguments_object(use.arguments)}
        for use in message.tool_uses
    ]
    results: list[Object] = [
        {
            "call_id": result.call_id,
            "tool": result.tool,
            "outcome": result.outcome,
            "content": result.display_text,
        }
        for result in message.tool_results
    ]
    return forms.HistoryMessageAnswer(
        number=number,
        role=message.role,
        text=message.text,
        tool_uses=uses,
        tool_results=results,
        files=[_describe_file(file).model_dump() for file in message.files],
    )


def _describe_file(file: Any) -> forms.FileEntryAnswer:
    name = str(getattr(file, "name", "") or "")
    return forms.FileEntryAnswer(digest=file.sha256, media_type=file.media_type, size=file.size, name=name)


async def list_steps(request: ApiRequest) -> forms.StepPageAnswer:
    """Answer with the steps of the session and its ancestors, each in one line."""
    query, store = request.read_query(forms.StepQueryForm), request.store
    steps = await store.database.offload(lambda: list_timeline(store.database, request.session_id))
    page = [
        forms.StepEntryAnswer(seq=step.seq, at=step.at, action=step.action, kind=step.kind, text=step.text)
        for step in steps[query.first : query.first + query.limit]
    ]
    return forms.StepPageAnswer(total=len(steps), steps=page)


async def list_files(request: ApiRequest) -> forms.FileListAnswer:
    """Answer with the files of a part of the history, and with the files that calls changed."""
    query, database = request.read_query(forms.HistoryQueryForm), request.store.database
    page = await database.offload(
        lambda: load_history_page(database, request.session_id, query.first, query.limit)
    )
    changes = await database.offload(
        lambda: list(islice(list_changed_paths(database, request.session_id), _MOST_CHANGED))
    )
    files = [file for message in page.messages if message is not None for file in message.files]
    return forms.FileListAnswer(
        attached=[_describe_file(file) for file in files if file.is_stored],
        changed=[forms.ChangedFileAnswer(call_id=call_id, path=path) for _, call_id, path in changes],
    )


async def download_file(request: ApiRequest) -> Response:
    """Answer with the bytes of a file in a message of this session or its ancestors, as a download."""
    digest, store = request.path["digest"], request.store

    def read() -> bytes | None:
        owners = [owner for owner, _ in store.index.lineage(request.session_id)]
        is_own = is_used(store.database, digest, owners)
        return read_content(store.database, digest) if is_own else None

    content = await store.database.offload(read)
    if content is None:
        raise SessionNotFound("This session has no such file.")
    return Response(content, media_type="application/octet-stream", headers=_DOWNLOAD)


async def stream_events(request: ApiRequest) -> Response:
    """Answer with a stream of the events of the session."""
    service, caller = request.service, request.who
    last_id = request.headers.get("last-event-id") or request.read_query(forms.EventQueryForm).after
    service.require_stream_place()

    async def may_go_on() -> bool:
        found = await service.tokens.find(caller.text)
        return found is not None and found.may("read") and found.tenant == caller.tenant

    return EventStreamResponse(service.feeds, request.session_id, last_id, may_go_on)
