"""Sends an HTTP request and reads its response, with limits of time and size. Every redirect is
judged again.
"""

import asyncio
import ssl
from dataclasses import replace

import httpcore2

from ....state.lazy_dataclass import dataclass
from ...workspace.paths import format_size
from .addresses import is_local_name
from .exchange import READING_METHODS, Judgements, NotSent, TookTooLong, WebAnswer, WebProblem, WebRequest
from .guard import GuardedBackend, Resolve, resolve_by_system
from .inflate import Damaged, Inflater, UnknownEncoding
from .tls import tls_context
from .web_url import UnfitUrl, WebUrl

_BEFORE_SENDING = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class WebLimits:
    total_s: float = 30.0
    """The seconds from the name resolution to the last byte, including redirects."""
    connect_s: float = 10.0
    most_bytes: int = 10_000_000
    """The largest size of an unpacked body in bytes."""
    most_redirects: int = 5


class WebClient:
    def __init__(
        self,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
        limits: WebLimits | None = None,
    ) -> None:
        """`tls` holds the trusted certificates. If it is None, they are those of the system, or of
        `SSL_CERT_FILE`.
        """
        self._resolve = resolve
        self._tls = tls
        self._limits = limits or WebLimits()

    async def send(self, request: WebRequest, judgements: Judgements) -> WebAnswer:
        """Return the answer after all redirects. Raises `WebProblem`."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.total_s):
                return await self._follow_redirects(request, judgements)
        except TimeoutError:
            raise TookTooLong(
                f"{request.url.origin} took longer than {limits.total_s:g} s, so the request was stopped."
            ) from None

    async def _follow_redirects(self, request: WebRequest, judgements: Judgements) -> WebAnswer:
        for _ in range(self._limits.most_redirects + 1):
            answer = await self._ask(request, judgements)
            if answer.status not in _REDIRECTS or not (place := answer.headers.get("location")):
                return answer
            try:
                target = request.url.join(place)
            except UnfitUrl as error:
                raise WebProblem(
                    f"{request.url} redirects to an address that {error}: {place[:200]}"
                ) from None
            if request.method not in READING_METHODS or not judgements.may_follow(target):
                return replace(answer, leads_to=str(target))
            kept = request.headers if target.origin == request.url.origin else None
            request = replace(request, url=target, headers=kept)
        raise WebProblem(f"{request.url.origin} redirects more than {self._limits.most_redirects} times.")

    async def _ask(self, request: WebRequest, judgements: Judgements) -> WebAnswer:
        url = request.url

        def may_dial(address: str) -> bool:
            # Rules name a local host by its name, not by its address.
            return judgements.may_dial(url if is_local_name(url.host) else url.at(address))

        try:
            async with (
                httpcore2.AsyncConnectionPool(
                    self._context(url), network_backend=GuardedBackend(self._resolve, may_dial)
                ) as pool,
                pool.stream(
                    request.method,
                    httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
                    headers=_headers_of(request),
                    content=request.body or None,
                    extensions={"timeout": {"connect": self._limits.connect_s}},
                ) as response,
            ):
                return await self._read(url, request.method, response)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            reason = str(error).strip().rstrip(".") or type(error).__name__
            kind = NotSent if isinstance(error, _BEFORE_SENDING) else WebProblem
            raise kind(f"{url.origin} could not be read: {reason}.") from error

    def _context(self, url: WebUrl) -> ssl.SSLContext | None:
        if url.scheme == "https" and self._tls is None:
            self._tls = tls_context()
        return self._tls

    async def _read(self, url: WebUrl, method: str, response: httpcore2.Response) -> WebAnswer:
        headers: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        unpacker = _Unpacker(url, headers.get("content-encoding", ""), self._limits.most_bytes)
        body = bytearray()
        if method != "HEAD" and response.status not in (204, 304):
            async for chunk in response.aiter_stream():
                body += unpacker.feed(chunk)
            unpacker.end()
        return WebAnswer(url, response.status, headers, bytes(body))


def _headers_of(request: WebRequest) -> list[tuple[str, str]]:
    given = dict(request.headers or {})
    usual = {
        "User-Agent": "sandbur",
        "Accept": "text/html,application/xhtml+xml,application/json,text/plain,*/*;q=0.5",
    }
    lower = {name.lower() for name in given}
    sent = {name: value for name, value in usual.items() if name.lower() not in lower} | given
    length = {"Content-Length": str(len(request.body))} if request.method not in READING_METHODS else {}
    fixed = {"Host": request.url.netloc, "Accept-Encoding": "gzip, deflate", "Connection": "close"}
    return list((fixed | sent | length).items())


class _Unpacker:
    """Unpacks a body. It never holds more bytes than its limit."""

    def __init__(self, url: WebUrl, encoding: str, most_bytes: int) -> None:
        try:
            self._inflater = Inflater(encoding)
        except UnknownEncoding as unknown:
            raise WebProblem(
                f"{url.origin} answers in an encoding that was not requested: {unknown}."
            ) from None
        self._url = url
        self._room = most_bytes
        self._most_bytes = most_bytes

    def feed(self, data: bytes) -> bytes:
        try:
            unpacked = self._inflater.feed(data, self._room)
        except Damaged:
            raise WebProblem(f"The compressed answer of {self._url.origin} is damaged.") from None
        self._room -= len(unpacked)
        if self._room < 0:
            limit = format_size(self._most_bytes)
            raise WebProblem(f"The answer of {self._url.origin} is larger than {limit}, so it was not read.")
        return unpacked

    def end(self) -> None:
        if self._inflater.is_cut:
            raise WebProblem(f"The answer of {self._url.origin} ends in the middle of its compressed data.")
