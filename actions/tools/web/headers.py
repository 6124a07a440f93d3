"""Headers of requests: what can be one, and which are the connection's own."""

import re

_HEADER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*"
)
_NOT_YOURS = frozenset((
    "accept-encoding", "connection", "content-length", "expect", "forwarded", "host", "keep-alive",
    "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade", "via",
))  # fmt: skip
"""Headers that belong to the connection, not to the request."""


def header_of(line: str) -> tuple[str, str]:
    """Return name and value of a header; raises `ValueError` with a clause that says what does not fit."""
    header = _HEADER.fullmatch(line)
    if header is None:
        raise ValueError("must be lines of the form `Name: value` in printable ASCII")
    name, value = header[1], header[2] or ""
    if name.lower() in _NOT_YOURS:
        raise ValueError(f"must not set {name}: the connection does")
    return name, value


def check_header(name: str, value: str) -> tuple[str, str]:
    """Return a header that can be sent as it is; raises `ValueError` with a clause."""
    return header_of(f"{name}: {value}")
