"""The forms of A2A 1.0 over JSON-RPC: requests, tasks, and the events of a stream."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from .....agent.runtime.version import VERSION
from ....headless.json_output import Object
from ...routes.forms import MOST_TEXT_CHARS, SessionId

VERSION_OF_PROTOCOL = "1.0"
PARSE_PARAMS, NO_METHOD, NO_TASK, NOT_CANCELABLE, UNSUPPORTED = -32602, -32601, -32001, -32002, -32004
REFUSED = -32603
_STATES = {
    "done": "COMPLETED",
    "denied": "COMPLETED",
    "needs_approval": "INPUT_REQUIRED",
    "needs_decision": "INPUT_REQUIRED",
    "parked": "INPUT_REQUIRED",
    "interrupted": "CANCELED",
    "new": "SUBMITTED",
    "running": "WORKING",
}
_Id = Annotated[str, StringConstraints(max_length=200)]


class _A2aForm(BaseModel):
    """Names are in camel case. The protocol grows: unknown names are passed over."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore")


class A2aPart(_A2aForm):
    """A text, bytes as base64, or data; an address is not fetched."""

    text: Annotated[str, StringConstraints(max_length=MOST_TEXT_CHARS)] | None = None
    raw: str | None = None
    data: Any = None
    filename: _Id = ""


class A2aMessage(_A2aForm):
    message_id: _Id = ""
    task_id: SessionId | Literal[""] = ""
    parts: Annotated[list[A2aPart], Field(min_length=1, max_length=50)]


class A2aConfiguration(_A2aForm):
    return_immediately: bool = False


class A2aSend(_A2aForm):
    message: A2aMessage
    configuration: A2aConfiguration = A2aConfiguration()


class A2aTask(_A2aForm):
    id: SessionId


class A2aRequest(_A2aForm):
    """A request of JSON-RPC."""

    jsonrpc: Literal["2.0"]
    id: _Id | int | None = None
    method: _Id
    params: Any = None


class A2aRefused(Exception):
    """A request that is answered by an error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def make_status(session_id: str, status: str, pending: Any, text: str | None = None) -> Object:
    """Return the status of a task. Its message is what the agent asks, or why the task failed."""
    state = "INPUT_REQUIRED" if pending else _STATES.get(status, "FAILED")
    parts: list[Object] = [] if text is None else [{"text": text}]
    for call in pending:
        parts.append({"text": f"{call['tool']}: {call['reason']}"})
        parts.append({"data": {name: call[name] for name in ("call_id", "tool", "arguments", "kind")}})
    found: Object = {"state": f"TASK_STATE_{state}"}
    if parts:
        own = {"messageId": f"{session_id}-status", "taskId": session_id, "contextId": session_id}
        found["message"] = {**own, "role": "ROLE_AGENT", "parts": parts}
    return found


def make_task(session_id: str, status: Object, result: str | None = None) -> Object:
    task = {"id": session_id, "contextId": session_id, "status": status}
    return task if result is None else {**task, "artifacts": [make_artifact(result)]}


def make_artifact(text: str) -> Object:
    """Return the answer of the agent as the artifact of its task."""
    return {"artifactId": "answer", "name": "answer", "parts": [{"text": text}]}


def make_card(name: str, url: str, description: str) -> Object:
    """Return the card of an agent, which clients read first."""
    skill = {"id": "run", "name": name, "description": description, "tags": ["agent"]}
    return {
        "name": name,
        "description": description,
        "version": VERSION,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": VERSION_OF_PROTOCOL}
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
    }
