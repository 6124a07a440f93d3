"""Access control of the tracking UI: who may connect, from which pages, and what their browser may do."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from ..cli.listener import is_foreign_origin, is_local_host
from ..report.markup import Html, join, tag

_Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[_Message]]
Send = Callable[[_Message], Awaitable[None]]
App = Callable[[_Message, Receive, Send], Awaitable[None]]

_READING = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_NO_TOKEN = "This page needs the token of `sandbur ui`: open the address that the command printed.\n"
_WRONG_HOST = "This server has another host name: open the address that `sandbur ui` printed.\n"
_PUBLIC = frozenset({"/manifest.json"})
"""Paths that need no token. Browsers request the manifest without cookies; it has no data of a session."""
_WRONG_ORIGIN = "The page of another site may not change anything here.\n"


class Guard:
    """The access control around the application.

    If there is a token, each request needs it. If there is none, the Host header must name this machine.
    """

    def __init__(self, app: App, token: str | None, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"sandbur_ui_{port}"

    async def __call__(self, scope: _Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._own_answer(scope) or self._app
            await answer(scope, receive, _with_headers(send))

    def _own_answer(self, scope: _Message) -> Response | None:
        """Return the guard's own response, or None if the request may pass to the application."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self._token is None and not is_local_host(host):
            return PlainTextResponse(_WRONG_HOST, HTTPStatus.MISDIRECTED_REQUEST)
        if self._token is not None and (welcome := self._welcome(scope)) is not None:
            return welcome
        if scope["path"] in _PUBLIC and scope["method"] in _READING:
            return None
        if self._token is not None and not self._knows_token(headers):
            return PlainTextResponse(_NO_TOKEN, HTTPStatus.UNAUTHORIZED)
        if scope["method"] not in _READING and is_foreign_origin(
            headers.get("origin"), headers.get("sec-fetch-site"), host
        ):
            return PlainTextResponse(_WRONG_ORIGIN, HTTPStatus.FORBIDDEN)
        return None

    def _welcome(self, scope: _Message) -> Response | None:
        """Return a page that sets the token as a cookie and opens the address without the token.

        Return None if the address has no valid token.
        """
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if not given or not self._is_token(given[-1]):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # A path that begins with two slashes would be the address of another site.
        path = "/" + quote(scope["path"].lstrip("/\\"))
        where = f"{path}?{rest}" if rest else path
        cookie = f"{self._cookie}={given[-1]}; Path=/; HttpOnly; SameSite=Strict"
        # After a link on another site, a redirect would be requested without the strict cookie.
        refresh = tag("meta", http_equiv="refresh", content=f"0; url={where}")
        page = join(Html("<!doctype html>"), refresh, tag("a", "Go on", href=where))
        return HTMLResponse(page, headers={"set-cookie": cookie, "cache-control": "no-store"})

    def _knows_token(self, headers: dict[str, str]) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(bearer.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return self._cookie in cookies and self._is_token(cookies[self._cookie].value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), (self._token or "").encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: _Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            added = [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in names
            ]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending
