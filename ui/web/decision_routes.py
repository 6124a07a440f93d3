"""Serves the page of waiting decisions at `/`, and accepts decisions from its forms."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...agent.config.settings import Overrides
from ...agent.session.decisions import APPROVAL_ANSWERS, OUTCOMES, ApprovalAnswer, make_decision
from ...state.calls import CallDecision, Settlement
from ...state.errors import SandburError, UsageError
from ...state.store.store import Store
from .page import HEADERS, page
from .waiting_approvals import lift, overview, record

_MOST_BYTES = 64_000
_DONE = {"approve": "approved", "deny": "denied", **dict.fromkeys(OUTCOMES, "settled")}
"""The pressed button -> the key of the message on the page afterwards, in `page.NOTES`."""


def add_decisions(app: FastAPI, store: Store, overrides: Overrides) -> None:
    """Add the page and the targets of its forms, which the guard protects."""
    form_token = secrets.token_urlsafe(32)
    """Only the forms of this process contain this token, so the page of another site cannot send it."""

    async def render(note: str = "", problem: str = "", status: int = 200) -> Response:
        found = await store.database.offload(lambda: overview(store))
        return HTMLResponse(page(found, form_token, note, problem), status, HEADERS)

    @app.get("/")
    async def waiting(request: Request) -> Response:
        return await render(request.query_params.get("notice", ""))

    async def act(request: Request, change: Callable[[dict[str, str]], Awaitable[str]]) -> Response:
        """Carry out what a form asks for; `change` returns the key of the message afterwards."""
        try:
            fields = await _fields(request)
            if not hmac.compare_digest(fields.get("form_token", "").encode(), form_token.encode()):
                return await render(
                    problem="This form is from an earlier start of the server. Decide again.", status=403
                )
            notice = await change(fields)
        except SandburError as error:
            return await render(problem=f"Nothing was recorded: {error}", status=409)
        return RedirectResponse(f"/?notice={notice}", 303, HEADERS)

    @app.post("/decide")
    async def decide(request: Request) -> Response:
        async def change(fields: dict[str, str]) -> str:
            await record(overrides, fields.get("session", ""), _decision(fields), fields.get("digest", ""))
            return _DONE[fields["decision"]]

        return await act(request, change)

    @app.post("/lift")
    async def lift_parked(request: Request) -> Response:
        async def change(fields: dict[str, str]) -> str:
            await lift(store, fields.get("session", ""))
            return "lifted"

        return await act(request, change)


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `UsageError` if the form is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise UsageError(f"The form is larger than {_MOST_BYTES // 1000} KB.")
    sent = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[-1] for name, values in sent.items()}


def _decision(fields: dict[str, str]) -> CallDecision:
    """Return the decision of the pressed button. Raises `UsageError` for an unknown button."""
    pressed, call_id, words = (fields.get(name, "") for name in ("decision", "call", "words"))
    answers: dict[str, ApprovalAnswer | Settlement] = {one: one for one in (*APPROVAL_ANSWERS, *OUTCOMES)}
    answer = answers.get(pressed)
    if answer is None:
        raise UsageError("There is no such decision.")
    return make_decision(call_id, answer, "" if answer in ("approve", "rerun") else words.strip())
