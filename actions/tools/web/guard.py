"""The only way out: a host is resolved once, all of its addresses are judged, and a judged one is dialled."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from .addresses import find_fixed_addresses, private_range
from .exchange import NotSent

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> every address that the host has now."""
MayDial = Callable[[str], bool]
"""Returns whether a rule lets this private address be dialled."""


class AddressRefused(NotSent):
    """The guard refused the address."""

    def __init__(self, why: str, way: str = "") -> None:
        """`why` the address is not dialled, and the usual `way` to have it dialled."""
        super().__init__(f"{why} {way}".strip())
        self.why = why


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(AsyncNetworkBackend):
    """The connections of one request; it dials the judged address, so the name is not resolved twice."""

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
        raise AddressRefused("No request goes to a socket of this machine.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _resolve_allowed(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host; one of them that is refused refuses the host."""
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
                    f"{leads} is an address kept for {kept_for}.",
                    "Such addresses are reached only where an allow rule names the address itself.",
                )
        return addresses
