"""Checks every connection: a host is resolved once, all its addresses are judged, and a judged one is
used.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from .addresses import find_fixed_addresses, private_range
from .exchange import NotSent

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A function (host, port) that returns every current address of the host."""
MayDial = Callable[[str], bool]
"""A function that returns whether a rule allows a connection to this private address."""


class AddressRefused(NotSent):
    """The guard refused an address."""

    def __init__(self, why: str, way: str = "") -> None:
        """`why` says why the address is refused, `way` says how it can be allowed."""
        super().__init__(f"{why} {way}".strip())
        self.why = why


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(AsyncNetworkBackend):
    """The connections of one request. They use the judged address, so the name is not resolved twice."""

    def __init__(self, resolve: Resolve, may_dial: MayDial) -> None:
        self._resolve = resolve
        self._may_dial = may_dial
        self._dialler = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        failure: Exception = AddressRefused(f"{host} has no address.")
        for address in await self._resolve_allowed(host, port):
            try:
                return await self._dialler.connect_tcp(address, port, timeout, None, socket_options)
            except ConnectError as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> AsyncNetworkStream:
        raise AddressRefused("Requests to sockets of this machine are not possible.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _resolve_allowed(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. If one of them is refused, the host is refused."""
        try:
            addresses = find_fixed_addresses(host) or await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NotSent(f"The name {host} was not found: {reason}.") from None
        for address in addresses:
            kept_for = private_range(address)
            if kept_for is not None and not self._may_dial(address):
                leads = address if address == host else f"{host} leads to {address}, which"
                raise AddressRefused(
                    f"{leads} is an address reserved for {kept_for}.",
                    "Such addresses are reached only if an allow rule names the address itself.",
                )
        return addresses
