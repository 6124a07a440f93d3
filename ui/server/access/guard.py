"""The access control around the application: host, origin, token, and how many requests."""

import ipaddress
import socket
import time
from collections import OrderedDict
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....state.store.access_tokens import NO_TENANT, AuditTrail
from ...cli.listener import is_foreign_origin, is_local_host, read_host_name
from ...report.markup import Html, join, tag
from ..answers import SECURITY_HEADERS, JsonAnswer, RequestRefused, make_error
from ..pages.static_files import PATHS as PAGE_PATHS
from .token_book import Caller, TokenBook

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
_SAFE_METHODS = ("GET", "HEAD")
_FAILURES_A_MINUTE = 30
_MOST_QUERY_BYTES = 8192
_MOST_KEYS = 10_000


class RateLimit:
    """A bucket of requests for each key: it refills steadily, and a full one allows a burst.

    The oldest buckets are forgotten, so that many keys cost a bounded memory.
    """

    def __init__(self, per_minute: int, burst: int) -> None:
        self._per_s = per_minute / 60
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> the requests that are left, and when that was so."""

    def take(self, key: str) -> float:
        """Count a request. Return 0.0 if it may pass, or the seconds until one may."""
        now = time.monotonic()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._per_s
        self._buckets[key] = (left if wait_s else left - 1, now)
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return wait_s


class ServerGuard:
    """Lets a request through to the application if its host, its origin and its token are in order.

    The caller is then in `scope["state"]["caller"]`.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: TokenBook,
        audit: AuditTrail,
        *,
        port: int,
        hosts: Collection[str],
        requests_a_minute: int,
    ) -> None:
        """`hosts` are the names by which others reach this server, besides those of this machine."""
        self._app = app
        self._tokens = tokens
        self._audit = audit
        self._cookie = f"sandbur_serve_{port}"
        self._hosts = {name.lower() for name in (*hosts, socket.gethostname())}
        self._requests = RateLimit(requests_a_minute, requests_a_minute)
        self._failures = RateLimit(_FAILURES_A_MINUTE, _FAILURES_A_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._refuse_place(scope, headers) or await self._refuse_caller(scope, headers)
        await (answer or self._app)(scope, receive, _add_headers(send))

    def _refuse_place(self, scope: Scope, headers: Headers) -> JsonAnswer | None:
        """Return an error if a browser was led here under another name, or by the page of another site."""
        host = headers.get("host", "")
        name = read_host_name(host)
        if not (is_local_host(host) or _is_address(name) or name in self._hosts):
            return make_error(
                421, "wrong_host", "This server has another host name.", "Name it: --allow-host"
            )
        if scope["method"] not in _SAFE_METHODS and is_foreign_origin(
            headers.get("origin"), headers.get("sec-fetch-site"), host
        ):
            return make_error(403, "wrong_origin", "The page of another site may not change anything here.")
        if len(scope["query_string"]) > _MOST_QUERY_BYTES:
            return make_error(414, "too_long", "The query of this address is too long.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return make_error(400, "usage", "An address has no character U+0000.", "Remove %00.")
        return None

    async def _refuse_caller(self, scope: Scope, headers: Headers) -> JsonAnswer | HTMLResponse | None:
        """Return an error, or None for a request that may pass. A page sets the cookie of a browser."""
        if _is_public(scope):
            return None
        text = self._read_token(scope, headers)
        try:
            caller = None if not text else await self._tokens.find(text)
        except RequestRefused as refused:
            return refused.answer
        if caller is None:
            return await self._refuse_token(scope, text)
        if wait_s := self._requests.take(caller.token.id):
            return _make_wait(wait_s, "This token has sent too many requests.")
        if scope["path"] == "/" and scope["query_string"] and scope["method"] == "GET":
            return self._set_cookie(caller)
        scope.setdefault("state", {})["caller"] = caller
        return None

    async def _refuse_token(self, scope: Scope, text: str) -> JsonAnswer:
        """Return the answer to a missing or a wrong token. After many wrong ones, others have to wait.

        With a proxy all clients have one address, so a valid token never waits for wrong ones.
        """
        if text:
            if wait_s := self._failures.take((scope.get("client") or ("",))[0]):
                return _make_wait(wait_s, "Too many requests with a wrong token came from this address.")
            await self._audit.add(NO_TENANT, "", f"{scope['method']} {scope['path']}", "", 401)
        missing = self._tokens.explain(text) if text else "This server needs a token."
        hint = "Send it as: Authorization: Bearer TOKEN"
        return make_error(401, "unauthorized", missing, hint, {"www-authenticate": "Bearer"})

    def _read_token(self, scope: Scope, headers: Headers) -> str:
        """Return the token of a request, or an empty text. Only the first page takes it from its address."""
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return bearer.strip()
        if scope["path"] == "/":
            query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
            if "token" in query:
                return query["token"]
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _set_cookie(self, caller: Caller) -> HTMLResponse:
        """Return a page that keeps the token as a cookie and opens the address without it."""
        cookie = f"{self._cookie}={caller.text}; Path=/; HttpOnly; SameSite=Strict"
        # After a link on another site, a redirect would be requested without the strict cookie.
        refresh = tag("meta", http_equiv="refresh", content="0; url=/")
        page = join(Html("<!doctype html>"), refresh, tag("a", "Go on", href="/"))
        return HTMLResponse(page, headers={"set-cookie": cookie})


def _is_public(scope: Scope) -> bool:
    """Return whether a request needs no token. The page needs one only to set the cookie with it."""
    path, is_safe = scope["path"], scope["method"] in _SAFE_METHODS
    return path in PUBLIC_PATHS or (is_safe and path in PAGE_PATHS and not scope["query_string"])


def _is_address(name: str) -> bool:
    """Return whether a host is an address. No site can lead a browser here by an address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _make_wait(wait_s: float, message: str) -> JsonAnswer:
    after = str(max(1, round(wait_s + 0.5)))
    return make_error(429, "rate_limited", message, f"Try again after {after} s.", {"retry-after": after})


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            added = [
                (name.encode(), value.encode())
                for name, value in SECURITY_HEADERS.items()
                if name.encode() not in names
            ]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_with_headers
