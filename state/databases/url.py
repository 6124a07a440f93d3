"""Parses the URL of a database server, and formats it without the password."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import StoreError
from ..lazy_dataclass import dataclass

SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
"""Maps the scheme of a URL to the kind of server."""

REGISTERED: dict[str, Callable[[str], Any]] = {}
"""The scheme of a registered kind of store -> the function that makes a server from a URL; see
`register_store`.
"""


def find_registered(url: str) -> Callable[[str], Any] | None:
    """Return the function that makes the server of a URL with a registered scheme, or None for other URLs."""
    scheme, found, _ = url.partition("://")
    return REGISTERED.get(scheme) if found else None


_SHAPE = "SCHEME://USER:PASSWORD@HOST:PORT/DATABASE"


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The parts of a server URL. An empty part means the driver's default."""

    kind: str
    user: str
    password: str = field(repr=False)
    host: str
    """The host. A path means a Unix socket. PostgreSQL accepts several hosts, separated by commas."""
    port: str
    database: str
    options: Mapping[str, str]
    name: str
    """The name in messages."""


def parse_server_url(text: str) -> ServerUrl:
    """Parse a URL. Error messages do not quote it, because it may contain a password."""
    scheme, found, rest = text.partition("://")
    kind = SCHEMES.get(scheme.lower().partition("+")[0])
    if kind is None or not found:
        raise StoreError("This is not the URL of a database server.", f"Write {_SHAPE}.")
    if re.search(r"[\x00-\x20\x7f#]", text):
        raise StoreError(
            "The URL of the store contains a space, a `#` or a control character.",
            "In a user name or password write them with percent signs: `#` is %23, `@` is %40, `/` is %2F.",
        )
    netloc, path, query = _split_url(f"{kind}://{rest}")
    credentials, _, address = netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    hosts, ports = _split_addresses(address)
    database = path.removeprefix("/")
    if "/" in database or (kind == "mysql" and not database):
        raise StoreError("The URL of the store names no database.", f"Write {_SHAPE}.")
    return ServerUrl(
        kind=kind,
        user=unquote(user),
        password=unquote(password),
        host=hosts,
        port=ports,
        database=unquote(database),
        options=dict(parse_qsl(query, keep_blank_values=True)),
        name=f"{kind}://{address}{path}",
    )


def _split_url(text: str) -> tuple[str, str, str]:
    """Return the user and address, the path and the query. Raises `StoreError` if the password is not
    escaped.
    """
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _make_url_error() from None
    if "@" in parts.path + parts.query:
        raise _make_url_error()
    return parts.netloc, parts.path, parts.query


def _make_url_error() -> StoreError:
    return StoreError(
        "The URL of the store has no readable host and port.",
        f"Write {_SHAPE}; in a user name or password write `@` as %40, `/` as %2F, `?` as %3F, `:` as %3A.",
    )


def _split_addresses(text: str) -> tuple[str, str]:
    """Return the hosts and the ports of `HOST:PORT,HOST:PORT`."""
    hosts: list[str] = []
    ports: list[str] = []
    for address in text.split(","):
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@]*)(?::(\d{0,5}))?", address)
        if match is None:
            raise _make_url_error()
        hosts.append(unquote(match[1].strip("[]")))
        ports.append(match[2] or "")
    return ",".join(hosts), ",".join(ports) if any(ports) else ""
