"""Burr's tracking backend on the store. It writes nothing but the annotations of people."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from burr.tracking.common.models import PointerModel
from burr.tracking.server import schema
from burr.tracking.server.backend import AnnotationsBackendMixin, BackendBase, BurrSettings  # pyright: ignore[reportMissingTypeStubs]
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic_settings import BaseSettings

from ....state.errors import SessionNotFound, StoreError
from ....state.maintenance.annotations import Annotation, Annotations
from ....state.session import SessionSummary
from ....state.store.store import Store
from ...session.secrets import masker_for
from ..reports.stats import usage_at
from .entries import AppName, app_id, app_name, is_listed_as, make_listed_key, partition_key, project_id
from .pages import Page, SessionPages
from .texts import Texts

AnyT = TypeVar("AnyT")

_MOST_SESSIONS = 4
_MOST_STEPS = 20_000
_MOST_COSTS = 2000


class StoreBackend(BackendBase, AnnotationsBackendMixin):
    """Presents folders as projects, sessions as applications, and parts of a session as its children."""

    class Settings(BurrSettings):
        """The settings, from the variables `BURR_STORE` and `BURR_TENANT`."""

        store: str
        tenant: str = ""

    def __init__(self, store: str, tenant: str = "") -> None:
        self._store = Store.open(store, tenant)
        self._annotations = Annotations(self._store.database, tenant)
        self._tenant = tenant
        self._texts = Texts(masker_for(os.environ, Path.cwd()))
        self._cost = lru_cache(_MOST_COSTS)(self._cost_at)
        self._sessions: dict[str, SessionPages] = {}
        self._turn = asyncio.Lock()
        self._boot = os.urandom(8).hex()

    @classmethod
    def settings_model(cls) -> type[BaseSettings]:
        return cls.Settings

    async def lifespan(self, app: FastAPI) -> AsyncGenerator[None]:
        """Do nothing: Burr starts this generator but never ends it, so it could not close anything."""
        yield

    @property
    def store(self) -> Store:
        return self._store

    def close(self) -> None:
        self._store.close()

    async def list_projects(self, request: Request) -> Sequence[schema.Project]:
        """Return the working folders of sessions."""
        sessions = await self._read(self._store.sessions)
        folders: dict[str, list[SessionSummary]] = {}
        for session in sessions:
            folders.setdefault(session.cwd, []).append(session)
        return [self._project(cwd, found) for cwd, found in folders.items()]

    def _project(self, cwd: str, sessions: Sequence[SessionSummary]) -> schema.Project:
        return schema.Project(
            name=self._texts.format_text(cwd, 200),
            id=project_id(cwd),
            last_written=_time(max(session.updated_at for session in sessions)),
            created=_time(min(session.created_at for session in sessions)),
            num_apps=len(sessions),
            uri="",
        )

    async def list_apps(
        self, request: Request, project_id: str, partition_key: str | None, limit: int, offset: int
    ) -> tuple[Sequence[schema.ApplicationSummary], int]:
        """Return the sessions of a folder, newest first."""
        found = await self._sessions_of(project_id)
        if partition_key is not None and partition_key != "null":
            found = [one for one in found if is_listed_as(partition_key, self._key(one.title))]
        offset, limit = max(0, offset), max(0, limit)
        page = found[offset : offset + limit]
        return await self._read(lambda: [self._summary(session) for session in page]), len(found)

    async def _sessions_of(self, project: str) -> list[SessionSummary]:
        sessions = await self._read(self._store.sessions)
        return [session for session in sessions if project_id(session.cwd) == project]

    def _summary(self, session: SessionSummary) -> schema.ApplicationSummary:
        key = self._key(session.title)
        parent = None
        if session.parent_id is not None:
            name = app_id(AppName(session.parent_id))
            parent = PointerModel(app_id=name, sequence_id=session.parent_seq, partition_key=key)
        spawner = None
        if (by := session.spawned_by) is not None:
            name = app_id(AppName(by.session_id))
            spawner = PointerModel(app_id=name, sequence_id=by.sequence + 1, partition_key=key)
        cost = self._cost(session.id, session.steps, session.updated_at)
        model = session.model.partition("/")[2] or session.model
        tags = {"title": session.title, "status": session.status, "model": session.model}
        return schema.ApplicationSummary(
            app_id=app_id(AppName(session.id)),
            partition_key=make_listed_key(key, session.status, self._texts.format_text(model), cost),
            first_written=_time(session.created_at),
            last_written=_time(session.updated_at),
            num_steps=session.steps,
            tags=self._texts.value(tags, 200),
            parent_pointer=parent,
            spawning_parent_pointer=spawner,
        )

    def _cost_at(self, session_id: str, steps: int, updated_at: str) -> str:
        """Return the cost of a session after this number of steps. `updated_at` is part of the cache key."""
        try:
            cost = usage_at(self._store.database, session_id, steps - 1).cost_usd
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            cost = None  # a record is damaged
        return "cost unknown" if cost is None else f"${cost:.4f}"

    async def get_application_logs(
        self, request: Request, project_id: str, app_id: str, partition_key: str | None
    ) -> Any:
        """Return a run page as the JSON of `schema.ApplicationLogs`, or status 304 if the page is unchanged.

        The UI polls twice a second. A raw response avoids building and validating models each time.
        """
        name = _parse_name(app_id)
        # The tag includes the process, because another version would render the same page differently.
        known = request.headers.get("if-none-match", "").strip('W/"').removeprefix(self._boot)
        async with self._turn:
            page = await self._read(lambda: self._page(name, known))
        headers = {"Cache-Control": "private, no-cache", "ETag": f'"{self._boot}{page.version}"'}
        if page.body is None:
            return Response(status_code=304, headers=headers)
        return Response(page.body, media_type="application/json", headers=headers)

    def _page(self, name: AppName, known_version: str) -> Page:
        try:
            return self._pages(name.session_id).page(name, known_version)
        except SessionNotFound:
            # The session is gone. A later one under this id is another session.
            self._sessions.pop(name.session_id, None)
            raise

    def _pages(self, session_id: str) -> SessionPages:
        """Return the pages of a session. The most recently used ones stay in memory."""
        pages = self._sessions.pop(session_id, None)
        if pages is None:
            cwd = self._store.index.settings(session_id).cwd
            pages = SessionPages(self._store, session_id, Texts(masker_for(os.environ, Path(cwd))))
        self._sessions[session_id] = pages
        others = list(self._sessions)[:-1]
        while others and (
            len(self._sessions) > _MOST_SESSIONS
            or sum(kept.weight for kept in self._sessions.values()) > _MOST_STEPS
        ):
            del self._sessions[others.pop(0)]
        return pages

    async def create_annotation(
        self,
        annotation: schema.AnnotationCreate,
        project_id: str,
        partition_key: str | None,
        app_id: str,
        step_sequence_id: int,
    ) -> schema.AnnotationOut:
        name = _parse_name(app_id)
        with _report_errors():
            made = await self._annotations.add(
                name.session_id, step_sequence_id, annotation.model_dump_json()
            )
        return self._note(made, project_id, app_id, partition_key)

    async def update_annotation(
        self, annotation: schema.AnnotationUpdate, project_id: str, annotation_id: int
    ) -> schema.AnnotationOut:
        with _report_errors():
            changed = await self._annotations.change(annotation_id, annotation.model_dump_json())
        if changed is None:
            raise HTTPException(404, f"There is no annotation {annotation_id}.")
        return self._note(changed, project_id, app_id(AppName(changed.session_id)), None)

    async def get_annotations(
        self,
        project_id: str,
        partition_key: str | None = None,
        app_id: str | None = None,
        step_sequence_id: int | None = None,
    ) -> Sequence[schema.AnnotationOut]:
        with _report_errors():
            if app_id is not None:
                found = await self._annotations.of(_parse_name(app_id).session_id, step_sequence_id)
                return [self._note(one, project_id, app_id, partition_key) for one in found]
            sessions = {session.id: session for session in await self._sessions_of(project_id)}
            notes = [one for one in await self._annotations.all() if one.session_id in sessions]
        return [self._format_annotation(one, project_id, sessions[one.session_id]) for one in notes]

    def _format_annotation(
        self, found: Annotation, project: str, session: SessionSummary
    ) -> schema.AnnotationOut:
        return self._note(found, project, app_id(AppName(found.session_id)), self._key(session.title))

    def _note(self, found: Annotation, project: str, app: str, key: str | None) -> schema.AnnotationOut:
        body = schema.AnnotationCreate.model_validate_json(found.body)
        return schema.AnnotationOut(
            **body.model_dump(),
            id=found.id,
            project_id=project,
            app_id=app,
            partition_key=key,
            step_sequence_id=found.seq,
            created=_time(found.created_at),
            updated=_time(found.updated_at),
        )

    def _key(self, title: str) -> str | None:
        return partition_key(self._texts.format_text(title))

    async def _read(self, work: Callable[[], AnyT]) -> AnyT:
        with _report_errors():
            return await self._store.database.offload(work)


@contextmanager
def _report_errors() -> Generator[None]:
    """Turn errors of the store into HTTP responses."""
    try:
        yield
    except SessionNotFound as error:
        raise HTTPException(404, error.message) from None
    except StoreError as error:
        raise HTTPException(503, str(error)) from None


def _parse_name(text: str) -> AppName:
    name = app_name(text)
    if name is None:
        raise HTTPException(404, f"There is no run {text[:80]!r}.")
    return name


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
