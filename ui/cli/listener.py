"""The listening socket of a local web server, its address, and what the headers of a request say about it."""

import errno
import ipaddress
import socket

from ...state.errors import UsageError

_BACKLOG = 128
_REASONS = {
    errno.EADDRINUSE: "is taken by another program",
    errno.EACCES: "is not free for this user",
    errno.EADDRNOTAVAIL: "is not an address of this machine",
}


def listen(host: str, port: int, command: str) -> socket.socket:
    """Return a listening socket for `sandbur COMMAND`. Raises `UsageError` if the address cannot be used."""
    try:
        found = socket.getaddrinfo(
            host or "127.0.0.1", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError):
        raise UsageError(
            f"--host {host!r} is not a known host name or address.", "Try --host 0.0.0.0."
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = _REASONS.get(error.errno or 0, f"cannot be used: {error.strerror}")
        is_taken = error.errno == errno.EADDRINUSE
        free = f"Use any free port: sandbur {command} --port 0"
        hint = free if is_taken else "Choose another port or host."
        raise UsageError(f"Port {port} of {host} {reason}.", hint) from None
    return listener


def is_loopback(listener: socket.socket) -> bool:
    """Return whether only programs of this machine can connect."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def address_of(listener: socket.socket) -> str:
    """Return the URL to open. If the socket listens on every address, the host is this machine's name."""
    host, port = listener.getsockname()[:2]
    place = ipaddress.ip_address(host.partition("%")[0])
    name = (
        socket.gethostname() if place.is_unspecified else f"[{place}]" if place.version == 6 else str(place)
    )
    return f"http://{name}:{port}/"


def read_host_name(host: str) -> str:
    """Return the name or the address in a Host header, in lower case, without the port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()


def is_local_host(host: str) -> bool:
    """Return whether a Host header is a loopback address or a name of this machine."""
    name = read_host_name(host)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_foreign_origin(origin: str | None, fetch_site: str | None, host: str) -> bool:
    """Return whether a request comes from the page of another site. Only browsers send these headers.

    `origin` and `fetch_site` are the headers Origin and Sec-Fetch-Site, None if they are missing.
    """
    if origin is None:
        return (fetch_site or "none") not in ("none", "same-origin")
    return origin.partition("://")[2].lower() != host.lower()
