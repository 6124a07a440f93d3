"""Sessions of a program in the store: opens one, lists them, sums the usage of one up."""

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Self, cast

from pydantic import Field
from typing_extensions import TypedDict

from ...state.application import Usage
from ...state.conversation.messages import Message
from ...state.errors import UsageError, WrongType
from ...state.process.clock import format_time
from ...state.session import SessionSettings
from ...state.store.recording import list_traces
from ...state.store.sessions.listing import LabelFilter, SessionSummary
from ...state.store.store import Store
from ...state.trace import ModelCalled
from ..runtime.runtime import Runtime
from ..session.session import Session


class SessionUsage(Usage):
    """The sum over all runs of a session; the cost is in US dollars, None where no price is known."""

    by_model: dict[str, Usage] = Field(default_factory=dict[str, Usage])
    """`provider/model` as it was asked -> its share, without calls that no record has one by one."""


def load_usage(store: Store, session_id: str, total: Usage) -> SessionUsage:
    """Return the usage of a session with that of the sessions it was forked from, as far as it counts."""
    by_model: dict[str, Usage] = {}
    for owner, last in store.index.lineage(session_id):
        for traced in list_traces(store.database, owner):
            if isinstance(traced.record, ModelCalled) and (last is None or traced.seq < last):
                known = by_model.get(traced.record.model, Usage())
                by_model[traced.record.model] = known + traced.record.total_usage
    fields: dict[str, Any] = {name: getattr(total, name) for name in Usage.model_fields}
    return SessionUsage(**fields, by_model=by_model)


def load_history(store: Store, session_id: str) -> tuple[Message, ...]:
    """Return the global history of a stored session with its files; raises `SessionNotFound`."""
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
    """As `RunResult.status` of its last run; or `new`, `running`, `interrupted` if its process died."""
    app: str
    user: str
    tags: tuple[str, ...]
    model: str
    created_at: datetime
    updated_at: datetime
    cursor: str
    """Pass it to `Agent.sessions` for the sessions after this one."""


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions a program asks for; None means any."""

    app: str | None = None
    user: str | None = None
    tags: Sequence[str] = ()
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    limit: int | None = None
    cursor: str | None = None

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
        page = await store.database.offload(partial(_select_page, store, selected))
        for summary in page[: None if query.limit is None else query.limit - given]:
            given += 1
            yield _describe(summary)
        if len(page) < _PAGE:
            return
        selected = replace(selected, after=(page[-1].updated_at, page[-1].id))


def _select_page(store: Store, selected: LabelFilter) -> list[SessionSummary]:
    """Return the next sessions of a selection."""
    return list(islice(store.newest_sessions(selected), _PAGE))


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
        cursor=base64.urlsafe_b64encode(text.encode()).decode(),
    )


def _parse_cursor(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, binascii.Error):
        found = None
    if not isinstance(found, list) or [type(each) for each in cast("list[Any]", found)] != [str, str]:
        raise UsageError(f"{cursor!r} is no cursor.", "Pass `cursor` of the last session that was listed.")
    updated_at, session_id = cast("list[str]", found)
    return updated_at, session_id


def _format_time(time: datetime | None) -> str:
    """Return a time as the store writes it; a time without a zone is local."""
    return "" if time is None else format_time(time.astimezone(UTC))


_MOST_ID_CHARS = 64


class SessionArguments(TypedDict, total=False):
    """What a new session keeps; a program finds it again by these: see `Agent.sessions`."""

    app: str
    user: str
    tags: Sequence[str]


def _read_labels(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a new session stores of itself; raises `WrongType` for values that are no texts."""
    app, user, tags = given.get("app", ""), given.get("user", ""), given.get("tags", ())
    if isinstance(tags, str) or not all(isinstance(each, str) for each in (app, user, *tags)):
        raise WrongType("`app` and `user` of a session take a text, and `tags` a list of texts.")
    return {"app": app, "user": user, "tags": tuple(dict.fromkeys(tags))}


@dataclass(frozen=True, slots=True)
class Opening:
    """What a program asks for when it enters a session."""

    session_id: str | None
    """None: a new session."""
    variables: Mapping[str, str] | None
    deps: Any
    labels: Mapping[str, Any]
    """The `app`, `user` and `tags` that a new session stores."""

    @classmethod
    def of(
        cls, session_id: str | None, variables: Mapping[str, str] | None, deps: Any, given: Mapping[str, Any]
    ) -> Self:
        """Return the opening with the labels in `given`; raises `WrongType` for values that are no texts."""
        return cls(session_id, variables, deps, _read_labels(given))

    async def open(self, runtime: Runtime, session_id: str) -> Session:
        """Return the session of this id, created if it does not exist; raises `SandburError`."""
        if not runtime.store.index.exists(session_id):
            return await runtime.create(
                _check_id(session_id), variables=self.variables, deps=self.deps, labels=self.labels
            )
        await runtime.require_free(session_id)
        self._require_owner(session_id, runtime.store.index.settings(session_id))
        return await runtime.resume(session_id, variables=self.variables, deps=self.deps)

    def _require_owner(self, session_id: str, stored: SessionSettings) -> None:
        """Raise `UsageError` for a session of another application or user."""
        for name in ("app", "user"):
            if self.labels[name] and self.labels[name] != getattr(stored, name):
                raise UsageError(
                    f"Session {session_id} does not belong to the {name} {self.labels[name]!r}.",
                    "A session keeps the app and user that it was begun with.",
                )


def _check_id(session_id: str) -> str:
    plain = session_id.isascii() and all(each.isalnum() or each in "-_.:@" for each in session_id)
    if not plain or not 0 < len(session_id) <= _MOST_ID_CHARS:
        raise UsageError(
            f"{session_id[:80]!r} cannot be the id of a session.",
            f"Use up to {_MOST_ID_CHARS} letters, digits and any of - _ . : @",
        )
    return session_id
