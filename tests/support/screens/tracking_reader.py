"""Reads run pages from the tracking backend as Burr's client would."""

from pathlib import Path
from typing import Any

from burr.tracking.server import schema
from starlette.requests import Request

from sandbur.agent.history.tracking.backend import StoreBackend
from sandbur.agent.history.tracking.entries import project_id

HERE = project_id(str(Path.cwd()))


def asking(etag: str = "") -> Request:
    return Request({"type": "http", "headers": [(b"if-none-match", etag.encode())]})


async def answer(backend: StoreBackend, app: str, etag: str = "", project: str = HERE) -> Any:
    return await backend.get_application_logs(asking(etag), project, app, None)


async def logs(backend: StoreBackend, app: str) -> schema.ApplicationLogs:
    """Return the logs of a run, checked against Burr's schema."""
    return schema.ApplicationLogs.model_validate_json((await answer(backend, app)).body)


def named(page: schema.ApplicationLogs, action: str) -> schema.Step:
    return next(step for step in page.steps if step.step_start_log.action == action)


def attributes(step: schema.Step, span: int | None = None) -> dict[str, Any]:
    """Return the attributes of a step, or of one of its spans."""
    span_id = None if span is None else step.spans[span].begin_entry.span_id
    return {one.key: one.value for one in step.attributes if one.span_id == span_id}


def ended(step: schema.Step) -> Any:
    assert step.step_end_log is not None
    return step.step_end_log
