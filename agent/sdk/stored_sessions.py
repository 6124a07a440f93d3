"""Stored sessions for programs: opens one, lists them, and adds up the usage of one."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Self, cast
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from ...state.application import Usage
from ...state.conversation.messages import Message, encodable
from ...state.errors import UsageError, WrongType
from ...state.lazy_dataclass import dataclass
from ...state.process.clock import format_time
from ...state.session import WORKFLOW_MODELS, SessionSettings
from ...state.store.recording import list_traces
from ...state.store.sessions.family import FamilyFilter
from ...state.store.sessions.listing import LabelFilter, SessionSummary
from ...state.store.store import Store
from ...state.trace import ModelCalled
from ..runtime.runtime import Runtime
from ..session.session import Session
from .checks import require_count, require_list, require_names, require_texts, require_time


class SessionUsage(Usage):
    """The usage of all runs of a session. The cost is in US dollars; it is None if a price is unknown."""

    by_model: dict[str, Usage] = Field(default_factory=dict[str, Usage])
    """`provider/model` of a request -> the usage of its calls, without calls that were not recorded one by
    one."""


def load_usage(store: Store, session_id: str, total: Usage) -> SessionUsage:
    """Return the usage of a session, with the part of its ancestors' usage that belongs to it."""
    by_model: dict[str, Usage] = {}
    for owner, last in store.index.lineage(session_id):
        for traced in list_traces(store.database, owner):
            if isinstance(traced.record, ModelCalled) and (last is None or traced.seq < last):
                if traced.record.model.startswith(WORKFLOW_MODELS):
                    continue
                known = by_model.get(traced.record.model, Usage())
                by_model[traced.record.model] = known + traced.record.total_usage
    fields: dict[str, Any] = {name: getattr(total, name) for name in Usage.model_fields}
    return SessionUsage(**fields, by_model=by_model)


def load_history(store: Store, session_id: str) -> tuple[Message, ...]:
    """Return the main history of a stored session with its files; raises `SessionNotFound`."""
    history = tuple(store.show(session_id).state.chat_history)
    for file in (file for message in history for file in message.files):
        file.load()
    return history


_PAGE = 50


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One stored session in a list."""

    id: str
    title: str
    status: str
    """The status of its last run, as in `RunResult.status`; or `new`, `running`, or `interrupted` if its
    process died."""
    app: str
    user: str
    tags: tuple[str, ...]
    model: str
    created_at: datetime
    updated_at: datetime
    parent: str | None
    """For a sub-agent, the session whose call started it."""
    cursor: str
    """The value for `Agent.sessions` that continues the list after this session."""


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A selection of sessions. None in a field matches every session."""

    app: str | None = None
    user: str | None = None
    tags: Sequence[str] = ()
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    limit: int | None = None
    cursor: str | None = None
    parent: str | None = None
    """Only the sub-agents of this session."""
    children: bool = False
    """Whether sub-agents are among the sessions."""

    def __post_init__(self) -> None:
        texts = {name: getattr(self, name) for name in ("app", "user", "status", "text", "cursor", "parent")}
        require_texts(**{name: value for name, value in texts.items() if value is not None})
        for tag in require_list("tags", self.tags, "texts"):
            require_texts(tags=tag)
        for name in ("since", "until"):
            if (time := getattr(self, name)) is not None:
                require_time(name, time)
        if self.limit is not None:
            require_count("limit", self.limit)

    def make_filter(self) -> LabelFilter:
        """Return what the store selects by; raises `UsageError` for a wrong cursor."""
        return LabelFilter(
            self.app,
            self.user,
            tuple(self.tags),
            self.status,
            _format_time(self.since),
            _format_time(self.until),
            _parse_cursor(self.cursor),
        )


async def list_sessions(store: Store, query: SessionQuery) -> AsyncGenerator[SessionInfo]:
    """Yield the sessions of a query, the newest first; raises `UsageError` for a wrong cursor or time."""
    selected, given = query.make_filter(), 0
    if query.text is not None:
        matching = await asyncio.to_thread(store.find_text, query.text)
        selected = replace(selected, matching=matching)
    while query.limit is None or given < query.limit:
        page = await store.database.offload(partial(_select_page, store, query, selected))
        for summary in page[: None if query.limit is None else query.limit - given]:
            given += 1
            yield _describe(summary)
        if len(page) < _PAGE:
            return
        selected = replace(selected, after=(page[-1].updated_at, page[-1].id))


def _select_page(store: Store, query: SessionQuery, selected: LabelFilter) -> list[SessionSummary]:
    """Return the next sessions of a selection."""
    is_mixed = query.children and query.parent is None
    return list(
        islice(store.newest_sessions(selected if is_mixed else FamilyFilter(query.parent, selected)), _PAGE)
    )


def _describe(summary: SessionSummary) -> SessionInfo:
    text = json.dumps([summary.updated_at, summary.id])
    return SessionInfo(
        id=summary.id,
        title=summary.title,
        status=summary.status,
        app=summary.app,
        user=summary.user,
        tags=summary.tags,
        model=summary.model,
        created_at=datetime.fromisoformat(summary.created_at),
        updated_at=datetime.fromisoformat(summary.updated_at),
        parent=None if summary.spawned_by is None else summary.spawned_by.session_id,
        cursor=base64.urlsafe_b64encode(text.encode()).decode(),
    )


def _parse_cursor(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, RecursionError):  # `binascii.Error` is a `ValueError`
        found = None
    if not isinstance(found, list) or [type(each) for each in cast("list[Any]", found)] != [str, str]:
        raise UsageError(f"{cursor!r} is not a cursor.", "Pass `cursor` of the last session in the list.")
    updated_at, session_id = cast("list[str]", found)
    return updated_at, session_id


def _format_time(time: datetime | None) -> str:
    """Return a time as the store writes it; a time without a zone is local."""
    return "" if time is None else format_time(time.astimezone(UTC))


class SessionArguments(TypedDict, total=False):
    """Labels that a new session stores. A program finds the session by these labels: see `Agent.sessions`."""

    app: str
    user: str
    tags: Sequence[str]


def _read_labels(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels for a new session to store; raises `WrongType` for values that are not texts."""
    app, user, tags = given.get("app", ""), given.get("user", ""), given.get("tags", ())
    if isinstance(tags, str) or not all(isinstance(each, str) for each in (app, user, *tags)):
        raise WrongType("`app` and `user` of a session take a text, and `tags` a list of texts.")
    return {"app": app, "user": user, "tags": tuple(dict.fromkeys(tags))}


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments with which a program enters a session."""

    session_id: str | None
    """The id of the session; None for a new one."""
    variables: Mapping[str, str] | None
    deps: Any
    labels: Mapping[str, Any]
    """The `app`, `user` and `tags` for a new session to store."""

    @classmethod
    def of(
        cls,
        session_id: str | UUID | None,
        variables: Mapping[str, str] | None,
        deps: Any,
        given: Mapping[str, Any],
    ) -> Self:
        """Return the opening with the labels in `given`; raises `WrongType` for values that are not texts."""
        require_names("variables", variables)
        return cls(read_session_id(session_id), variables, deps, _read_labels(given))

    async def open(self, runtime: Runtime, session_id: str) -> Session:
        """Return the session of this id, and create it if it does not exist; raises `SandburError`."""
        if not runtime.store.index.exists(session_id):
            return await runtime.create(
                session_id, variables=self.variables, deps=self.deps, labels=self.labels
            )
        await runtime.require_free(session_id)
        self._require_owner(session_id, runtime.store.index.settings(session_id))
        return await runtime.resume(session_id, variables=self.variables, deps=self.deps)

    def _require_owner(self, session_id: str, stored: SessionSettings) -> None:
        """Raise `UsageError` if the session belongs to another application or user."""
        for name in ("app", "user"):
            if self.labels[name] and self.labels[name] != getattr(stored, name):
                raise UsageError(
                    f"Session {session_id} does not belong to the {name} {self.labels[name]!r}.",
                    "A session keeps the app and the user with which it began.",
                )


def read_session_id(given: Any) -> str | None:
    """Return the id of a session as a text; a `uuid.UUID` is one, too. Raises `WrongType` for another
    value."""
    if given is None or isinstance(given, str):
        return given and encodable(given)
    if isinstance(given, UUID):
        return str(given)
    raise WrongType(f"`session_id` takes a text or a uuid.UUID, not {given!r}.", "Write session_id=str(...).")


def require_session_id(given: Any) -> str:
    """Return the id of a stored session as a text; raises `WrongType` for anything else."""
    return read_session_id("" if given is None else given) or ""
