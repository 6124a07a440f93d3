"""Where the tracking UI listens, and the address that a person opens."""

import errno
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from typing import NamedTuple

from state.errors import ConfigError, UsageError

_TOKEN = "SANDBUR_UI_TOKEN"
_LEAST_TOKEN_CHARS = 16
_REASONS = {
    errno.EADDRINUSE: "is taken by another program",
    errno.EACCES: "is not free for this user",
    errno.EADDRNOTAVAIL: "is no address of this machine",
}


class Token(NamedTuple):
    text: str | None
    """None: none is asked for."""
    is_new: bool = False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; raises `UsageError`."""
    try:
        found = socket.getaddrinfo(
            host or "127.0.0.1", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError):
        raise UsageError(
            f"--host {host!r} is no address that is known here.", "Try --host 0.0.0.0."
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(64)
    except OSError as error:
        listener.close()
        reason = _REASONS.get(error.errno or 0, f"cannot be used: {error.strerror}")
        hint = "Any free one: sandbur ui --port 0" if error.errno == errno.EADDRINUSE else "Choose another."
        raise UsageError(f"Port {port} of {host} {reason}.", hint) from None
    return listener


def token_for(listener: socket.socket, env: Mapping[str, str]) -> Token:
    """Return what has to be known to come in; raises `ConfigError` for one that can be guessed."""
    if given := env.get(_TOKEN, "").strip():
        if (
            len(given) < _LEAST_TOKEN_CHARS
            or not given.isascii()
            or not given.replace("-", "_").isidentifier()
        ):
            raise ConfigError(
                f"{_TOKEN} has to be {_LEAST_TOKEN_CHARS} or more letters, digits, - or _, a letter first.",
                "Leave it out, and one is made.",
            )
        return Token(given)
    if ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
        return Token(None)
    return Token(secrets.token_urlsafe(32), is_new=True)


def address_of(listener: socket.socket) -> str:
    """Return the URL to open; for a socket on every address, by this machine's name."""
    host, port = listener.getsockname()[:2]
    place = ipaddress.ip_address(host.partition("%")[0])
    name = (
        socket.gethostname() if place.is_unspecified else f"[{place}]" if place.version == 6 else str(place)
    )
    return f"http://{name}:{port}/"
