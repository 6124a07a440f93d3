"""A web address in the normalized form that rules, the guard and requests use."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import replace
from functools import lru_cache
from typing import Self
from urllib.parse import unquote, urljoin

from ....state.lazy_dataclass import dataclass

_SHAPE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<netloc>[^/?#]*)(?P<target>[^#]*)(?:#.*)?")
_NETLOC = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>\d{0,5}))?")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_TARGET_BYTE = re.compile(rb"[^!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]|]")
DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_CHARS = 8192
_MOST_DECODINGS = 5


class UnfitUrl(ValueError):
    """A text is not a usable address. The message is a clause that follows the name of the argument."""


@dataclass(frozen=True, slots=True)
class WebUrl:
    """The address of a request. Equal addresses have the same spelling, which `str` returns."""

    scheme: str
    host: str
    """A name in ASCII, or an address in its usual form without brackets."""
    port: int
    target: str
    """The path and the query, percent-encoded."""

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    def __str__(self) -> str:
        return self.origin + self.target

    def at(self, address: str) -> Self:
        """Return the same request for this numeric address of the host."""
        return replace(self, host=address)

    def join(self, reference: str) -> WebUrl:
        """Return the target of a redirect. Raises `UnfitUrl` if it is not a usable address."""
        try:
            whole = urljoin(str(self), reference.strip())
        except ValueError:
            raise UnfitUrl("has a host in brackets that is not an IPv6 address") from None
        return web_url(whole)


@lru_cache(maxsize=256)
def web_url(text: str) -> WebUrl:
    """Parse an address. Raises `UnfitUrl` for a text that different programs may read in different ways."""
    if len(text) > _MAX_CHARS:
        raise UnfitUrl(f"is longer than {_MAX_CHARS:,} characters")
    if _UNSAFE.search(text):
        raise UnfitUrl("must not contain blanks, control characters or backslashes; percent-encode them")
    shape = _SHAPE.fullmatch(text)
    if shape is None or (scheme := shape["scheme"].lower()) not in DEFAULT_PORTS:
        raise UnfitUrl("must start with http:// or https://")
    if "@" in shape["netloc"]:
        raise UnfitUrl("must not contain a user name or password; send a header instead")
    netloc = _NETLOC.fullmatch(shape["netloc"])
    if netloc is None:
        raise UnfitUrl("has no readable host and port")
    port = int(netloc["port"]) if netloc["port"] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise UnfitUrl("has no readable host and port")
    return WebUrl(scheme, plain_host(netloc["host"]), port, _encode_target(shape["target"]))


def plain_host(text: str) -> str:
    """Return a host in its normalized spelling: numbers in any notation as an address, a name in ASCII."""
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            raise UnfitUrl("has a host in brackets that is not an IPv6 address") from None
        if address.scope_id is not None:
            raise UnfitUrl("must not name a network interface")
        return address.compressed
    name = _encode_host(text).removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        # Browsers and the C library read 127.1, 0x7f000001 and 2130706433 as 127.0.0.1. So does this
        # function.
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            raise UnfitUrl("has a host that is not an IPv4 address") from None
    if len(name) > 253 or _NAME.fullmatch(name) is None:
        raise UnfitUrl("has no readable host")
    return name


def _encode_host(text: str) -> str:
    if text.isascii():
        return text.lower()
    import idna

    try:
        return idna.encode(text, uts46=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        raise UnfitUrl("has a host that is not a domain name") from None


def _encode_target(text: str) -> str:
    path, mark, query = text.partition("?")
    _refuse_dots(path)
    encoded = f"{path or '/'}{mark}{query}".encode()
    return _TARGET_BYTE.sub(lambda found: b"%%%02X" % found[0][0], encoded).decode("ascii")


def _refuse_dots(path: str) -> None:
    """Refuse parts of a path that a server may treat as a step upwards, in any encoding."""
    for _ in range(_MOST_DECODINGS):
        parts = (part.partition(";")[0] for part in re.split(r"[/\\]", path))
        if any(part in (".", "..") for part in parts):
            raise UnfitUrl("must not contain `.` or `..` as a part of its path; write the resulting path")
        decoded = unquote(path)
        if decoded == path:
            return
        path = decoded
    raise UnfitUrl("is percent-encoded too often")
