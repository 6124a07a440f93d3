"""Errors in the form of OpenAI on the paths of its API, wherever in the server they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...answers import JsonAnswer
from ...routes.forms import AnswerForm

_PATHS = ("/v1/models", "/v1/chat/completions", "/v1/responses")
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAiErrorBody(AnswerForm):
    message: str
    type: str
    param: str | None
    code: str


class OpenAiErrorAnswer(AnswerForm):
    """An error on the paths of this API."""

    error: OpenAiErrorBody


def is_openai_path(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in _PATHS)


def shape_error(status: int, kind: str, message: str, hint: str) -> dict[str, Any]:
    """Return an error of the server in the form of OpenAI; `code` is the kind that the server gives it."""
    usual = "server_error" if status >= 500 else "invalid_request_error"
    text = f"{message} {hint}".strip()
    return {"error": {"message": text, "type": _TYPES.get(status, usual), "param": None, "code": kind}}


class OpenAiErrors:
    """Rewrites the errors of the wrapped application on the paths of this API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_openai_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        started: list[Message] = []

        async def reshape(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                started.append(message)
            elif started:
                await _send_reshaped(scope, receive, send, started[0], message["body"])
            else:
                await send(message)

        await self._app(scope, receive, reshape)


async def _send_reshaped(scope: Scope, receive: Receive, send: Send, start: Message, body: bytes) -> None:
    """Send an error of the server, whose body comes in one piece, in the other form."""
    error: Mapping[str, str] = json.loads(body)["error"]
    shaped = shape_error(start["status"], error["type"], error["message"], error["hint"])
    answer = JsonAnswer(shaped, start["status"])
    kept = [one for one in start["headers"] if one[0].lower() not in (b"content-length", b"content-type")]
    answer.raw_headers.extend(kept)
    await answer(scope, receive, send)
