"""The only way out of a sandbox's network: an HTTP proxy with a list of allowed names.

It listens on a socket inside the sandbox and connects from outside. Each name is resolved once, every address
is judged, and only a judged one is used. The command controls the bytes, but not the destination.
"""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from .....state.process.cancellation import wait_until_done
from ...web.addresses import private_range

PORT = 3128
ADDRESS = f"http://127.0.0.1:{PORT}"
_WEB = (80, 443)
_PATIENCE_S = 30
_MOST_HEAD = 65536
_PIECE = 65536
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


class AllowedDomains:
    """The hosts that may be reached: `name`, or `*.name` for its subdomains. A `:port` may follow; otherwise
    the ports are 80 and 443.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(_pattern(text) for text in patterns)

    def covers(self, host: str, port: int) -> bool:
        return any(one.covers(host.lower().rstrip("."), port) for one in self._patterns)

    def names(self, host: str) -> bool:
        """Return whether the list names this host itself, so that its address may be private."""
        return any(one.name == host.lower().rstrip(".") for one in self._patterns)


class _Pattern(NamedTuple):
    name: str
    """The name without the prefix `*.`."""
    is_below: bool
    ports: tuple[int, ...]

    def covers(self, host: str, port: int) -> bool:
        is_named = host.endswith(f".{self.name}") if self.is_below else host == self.name
        return is_named and port in self.ports


def _pattern(text: str) -> _Pattern:
    name, _, port = text.lower().rpartition(":") if re.search(r"[^:]:\d+\Z", text) else (text.lower(), "", "")
    ports = (int(port),) if port else _WEB
    return _Pattern(name.removeprefix("*.").rstrip("."), name.startswith("*."), ports)


@asynccontextmanager
async def serve(allowed: AllowedDomains) -> AsyncGenerator[int]:
    """Serve the network of a listening socket. Yield the file descriptor through which the socket is
    received.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    serving = asyncio.create_task(_serve(ours, allowed))
    try:
        yield theirs.fileno()
    finally:
        serving.cancel()
        cancelled = await wait_until_done(serving)
        theirs.close()
        ours.close()
        if cancelled is not None:
            raise cancelled
        if not serving.cancelled():
            serving.result()


async def _serve(ours: socket.socket, allowed: AllowedDomains) -> None:
    listening = await _receive_socket(ours)
    connections: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await _Connection(reader, writer, allowed).run()
        finally:
            connections.discard(task)
            writer.close()

    server = await asyncio.start_server(talk, sock=listening, limit=_MOST_HEAD)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _receive_socket(ours: socket.socket) -> socket.socket:
    """Return the socket that the sandbox sends. There is no time limit."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    ours.setblocking(False)
    loop.add_reader(ours, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(ours)
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    listening = socket.socket(fileno=struct.unpack("i", ancillary[0][2][:4])[0])
    listening.setblocking(False)
    return listening


class _Refusal(Exception):
    """The proxy answers a request with an error."""


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, allowed: AllowedDomains
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._allowed = allowed

    async def run(self) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
        try:
            host, port, first = _parse_request(head)
            far_reader, far_writer = await self._dial(host, port)
        except _Refusal as refusal:
            text = f"{refusal}\n".encode()
            self._writer.write(
                b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
            )
            await self._writer.drain()
            return
        try:
            if first:
                far_writer.write(first)
            else:
                self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(self._reader, far_writer), _copy(far_reader, self._writer))
        finally:
            far_writer.close()

    async def _dial(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not self._allowed.covers(host, port):
            raise _Refusal(f"The sandbox allows no connection to {host}:{port}.")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
                inner = [one for one in addresses if private_range(one)]
                if inner and not self._allowed.names(host):
                    raise _Refusal(f"{host} leads to {inner[0]}, which is not a public address.")
                return await _first_open(addresses, port)
        except (OSError, TimeoutError) as error:
            raise _Refusal(f"{host}:{port} cannot be reached: {error or 'no answer in time'}.") from None


async def _first_open(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problem = OSError("it has no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            problem = error
    raise problem


def _parse_request(head: bytes) -> tuple[str, int, bytes]:
    """Return the host, the port and the bytes to send there first. For a tunnel, there are no such bytes."""
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            return _host(host), int(port), b""
        parts = urlsplit(target)
        if parts.scheme != "http":
            raise ValueError
        host, port = _host(parts.hostname or ""), parts.port or 80
    except ValueError:
        raise _Refusal("This is not a request for a proxy.") from None
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    # A connection serves one request, because the next request could be for another host.
    kept = [one for one in rest.split(b"\r\n") if one and not one.lower().startswith(_HOP)]
    lines = [f"{method} {path} {version}".encode("ascii"), *kept, b"Connection: close", b"", b""]
    return host, port, b"\r\n".join(lines)


_HOP = (b"connection:", b"proxy-", b"keep-alive:", b"upgrade:")


def _host(text: str) -> str:
    host = text.strip("[]")
    if not _HOST.fullmatch(host):
        raise ValueError
    return host


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
