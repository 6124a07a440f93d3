"""One request and its answer, within limits of time and size; every hop of a redirect is judged anew."""

import asyncio
import ssl
import zlib
from dataclasses import dataclass, replace

import httpcore2

from ...workspace.paths import format_size
from .addresses import is_local_name
from .exchange import READING_METHODS, Judgements, NotSent, TookTooLong, WebAnswer, WebProblem, WebRequest
from .guard import GuardedBackend, Resolve, resolve_by_system
from .tls import tls_context
from .web_url import UnfitUrl, WebUrl

_BEFORE_SENDING = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class WebLimits:
    total_s: float = 30.0
    """From the first look at the name to the last byte, redirects in it."""
    connect_s: float = 10.0
    most_bytes: int = 10_000_000
    """Of a body, unpacked."""
    most_redirects: int = 5


class WebClient:
    def __init__(
        self,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
        limits: WebLimits | None = None,
    ) -> None:
        """`tls` says whose certificates count; None: the system's, or those of `SSL_CERT_FILE`."""
        self._resolve = resolve
        self._tls = tls
        self._limits = limits or WebLimits()

    async def send(self, request: WebRequest, judgements: Judgements) -> WebAnswer:
        """Return the answer after all redirects; raises `WebProblem`."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.total_s):
                return await self._travel(request, judgements)
        except TimeoutError:
            raise TookTooLong(
                f"{request.url.origin} took longer than {limits.total_s:g} s, and was given up."
            ) from None

    async def _travel(self, request: WebRequest, judgements: Judgements) -> WebAnswer:
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
            # A name that always means this machine is what a rule names, not the number behind it.
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
    """Undoes a body's compression, and never holds more than the limit of it."""

    def __init__(self, url: WebUrl, encoding: str, most_bytes: int) -> None:
        names = set(encoding.replace(" ", "").lower().split(",")) - {"", "identity"}
        if len(names) > 1 or not names <= {"gzip", "x-gzip", "deflate"}:
            raise WebProblem(f"{url.origin} answers in an encoding that was not asked for: {encoding[:80]}.")
        self._url = url
        self._room = most_bytes
        self._most_bytes = most_bytes
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if names else None
        self._is_first = True

    def feed(self, data: bytes) -> bytes:
        unpacked = data if self._inflater is None else self._inflate(data)
        self._room -= len(unpacked)
        if self._room < 0:
            limit = format_size(self._most_bytes)
            raise WebProblem(f"The answer of {self._url.origin} is larger than {limit}, and was given up.")
        return unpacked

    def end(self) -> None:
        if self._inflater is not None and not self._inflater.eof and not self._is_first:
            raise WebProblem(f"The answer of {self._url.origin} ends in the middle of its compressed data.")

    def _inflate(self, data: bytes) -> bytes:
        found = bytearray()
        while data and len(found) <= self._room:
            found += self._step(data, self._room + 1 - len(found))
            assert self._inflater is not None
            data = self._inflater.unconsumed_tail
            if self._inflater.eof:
                data = self._inflater.unused_data
                if not data.startswith(b"\x1f\x8b"):
                    break  # what follows the last member means nothing
                self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return bytes(found)

    def _step(self, data: bytes, room: int) -> bytes:
        assert self._inflater is not None
        try:
            unpacked = self._inflater.decompress(data, room)
        except zlib.error:
            if not self._is_first:
                raise WebProblem(f"The compressed answer of {self._url.origin} is damaged.") from None
            # Many servers send `deflate` without its frame.
            self._inflater, self._is_first = zlib.decompressobj(-zlib.MAX_WBITS), False
            return self._step(data, room)
        self._is_first = False
        return unpacked
