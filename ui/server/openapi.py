"""Makes the OpenAPI document from the table of routes, and the schemas of the events of a stream."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from ...actions.ports import events
from ...agent.runtime.version import VERSION
from ...state.application import Usage
from ...state.store.access_tokens import SCOPES
from .facades.openai.errors import OpenAiErrorAnswer, is_openai_path
from .routes import forms
from .routes.route import ApiRoute
from .routes.table import EVENT_STREAM

_REFERENCES = "#/components/schemas/{model}"
_ERRORS = {
    "400": "The request is not valid.",
    "404": "There is no such thing for this tenant.",
    "409": "The session is in another state.",
    "414": "The query of the address is too long.",
    "421": "The server has another host name.",
    "503": "The server cannot answer now.",
}
_ERRORS_WITH_TOKEN = {
    "401": "There is no valid token.",
    "403": "The token does not allow this, or the page of another site sent it.",
    "429": "Too many requests.",
}
_ERRORS_WITH_BODY = {"413": "The body is too large.", "415": "The body is not JSON."}
_ERRORS_OF_RUNS = {"502": "The run failed."}
_ID_FORMS: dict[str, Any] = {"session_id": forms.SessionId}
_EVENTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "init": (events.RunStarted, ("model", "mode", "cwd", "version")),
    "text": (events.TextDelta, ("delta", "step_id")),
    "thinking": (events.ThinkingDelta, ("delta",)),
    "message": (events.MessageAdded, ("role", "content", "step_id")),
    "flow": (events.FlowMatched, ("flow", "does", "why")),
    "tool_use": (events.ToolRequested, ("call_id", "tool", "arguments", "step_id")),
    "tool_result": (
        events.ToolFinished,
        ("call_id", "tool", "outcome", "content", "duration_ms", "step_id"),
    ),
    "tool_output": (events.ToolOutput, ("call_id", "chunk")),
    "step": (events.StepChanged, ("step_id", "status", "summary")),
    "notice": (events.Notice, ("message",)),
    "error": (events.ErrorRaised, ("code", "message")),
    "compacted": (events.Compacted, ("kind", "messages", "tokens_before", "tokens_after")),
}
"""Type of an event -> its class and its fields in a stream. `_make_event_schemas` has the others."""
_SOMETIMES = ("seq", "step_id", "summary")
"""The fields of events that are left out if there is no value."""
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_TEXT_OR_NONE: dict[str, Any] = {"type": ["string", "null"]}


def make_document(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a server with these routes."""
    used = {form for route in routes for form in (route.answer, route.body) if form is not None}
    chosen: list[type[BaseModel]] = sorted(
        {*used, forms.ErrorAnswer, OpenAiErrorAnswer}, key=lambda form: form.__name__
    )
    _, definitions = models_json_schema([(form, "validation") for form in chosen], ref_template=_REFERENCES)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _make_operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sandbur", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], **_make_event_schemas()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "x-scopes": list(SCOPES),
    }


def _make_operation(route: ApiRoute) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        **({"tags": [route.protocol]} if route.protocol else {}),
        "parameters": _make_parameters(route),
        "responses": {
            str(route.status): {"description": "Done.", "content": {route.media: _make_content(route)}},
            **_make_errors(route),
        },
        "security": [] if route.scope is None else [{"token": [route.scope]}],
    }
    if route.body is not None:
        content = {"application/json": {"schema": _refer(route.body)}}
        found["requestBody"] = {"required": True, "content": content}
    described = route.described
    return {**found, **described, "responses": {**found["responses"], **described.get("responses", {})}}


def _make_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    """Return the parameters in the path and in the query."""
    parameters: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)}", route.path):
        schema = TypeAdapter(_ID_FORMS.get(name, forms.Label)).json_schema()
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if route.query is not None:
        schema = route.query.model_json_schema(ref_template=_REFERENCES)
        required = schema.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": one}
            for name, one in schema["properties"].items()
        ]
    if route.media == EVENT_STREAM and route.method == "GET":
        schema = {"type": "string"}
        parameters.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": schema})
    return parameters


def _make_content(route: ApiRoute) -> dict[str, Any]:
    if route.answer is not None:
        return {"schema": _refer(route.answer)}
    if route.media == EVENT_STREAM and route.method == "GET":
        return {"schema": {"type": "string"}, "x-event-schema": {"$ref": "#/components/schemas/Event"}}
    if route.media == EVENT_STREAM:
        return {"schema": {}}
    return {"schema": {"type": "object" if route.media == "application/json" else "string"}}


def _make_errors(route: ApiRoute) -> dict[str, Any]:
    """Return the errors that a route may answer with, by their status."""
    is_openai = is_openai_path(route.path)
    errors = {
        **_ERRORS,
        **({} if route.scope is None else _ERRORS_WITH_TOKEN),
        **({} if route.body is None else _ERRORS_WITH_BODY),
        **(_ERRORS_OF_RUNS if is_openai else {}),
    }
    content = {"application/json": {"schema": _refer(OpenAiErrorAnswer if is_openai else forms.ErrorAnswer)}}
    return {status: {"description": about, "content": content} for status, about in sorted(errors.items())}


def _refer(form: type[BaseModel]) -> dict[str, Any]:
    return _refer_to(form.__name__)


def _refer_to(name: str) -> dict[str, Any]:
    return {"$ref": _REFERENCES.format(model=name)}


def _make_event_schemas() -> dict[str, Any]:
    """Return a schema for each type of event, and `Event`, which is one of them."""
    pending = {"type": "array", "items": _refer_to("WaitingCallAnswer")}
    steps = {"type": "array", "items": _refer_to("PlanStepEntryAnswer")}
    texts = {"type": "array", "items": _TEXT}
    agent: dict[str, Any] = {name: _TEXT for name in ("agent_id", "parent_id", "agent", "branch")}
    others: dict[str, dict[str, Any]] = {
        "usage": Usage.model_json_schema()["properties"],
        "plan": {"steps": steps},
        "approval": {"pending": pending},
        "tools": {"added": texts, "removed": texts, "groups": texts},
        "agent_started": {"description": _TEXT, "model": _TEXT, **agent},
        "agent_finished": {"status": _TEXT, "result": _TEXT_OR_NONE, "duration_ms": _NUMBER, **agent},
        "result": {
            "status": _TEXT,
            "exit_code": _NUMBER,
            "result": _TEXT_OR_NONE,
            "workflow_mode": _TEXT,
            "steps": steps,
            "pending": pending,
            "usage": _refer_to("UsageTotals"),
            "duration_ms": _NUMBER,
            "error": {"anyOf": [_refer_to("RunError"), {"type": "null"}]},
        },
    }
    made = {_name(kind): _make_event(kind, _make_fields(kind)) for kind in _EVENTS}
    made |= {_name(kind): _make_event(kind, properties) for kind, properties in others.items()}
    return {
        "UsageTotals": _make_object(others["usage"]),
        "RunError": _make_object({"code": _TEXT, "message": _TEXT}),
        **made,
        "Event": {"oneOf": [_refer_to(name) for name in made]},
    }


def _make_event(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    seq = {**_NUMBER, "description": "The number of a stored event; others have none."}
    own = {"type": {"const": kind}, "session_id": _TEXT, "seq": seq}
    return _make_object({**own, **properties})


def _make_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object."""
    always = [name for name in properties if name not in _SOMETIMES]
    return {"type": "object", "properties": properties, "required": always}


def _make_fields(kind: str) -> dict[str, Any]:
    """Return the schemas of the fields of an event, from its class."""
    event, names = _EVENTS[kind]
    known = {field.name for field in fields(event)}
    schema = TypeAdapter(event).json_schema()["properties"]
    return {name: {} if name == "arguments" else schema[name] for name in names if name in known}


def _name(kind: str) -> str:
    return "".join(part.title() for part in kind.split("_")) + "Event"
