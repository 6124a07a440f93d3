"""Recognizes addresses that web requests must not reach: private networks, this machine, cloud metadata."""

import ipaddress
from collections.abc import Sequence
from typing import TypeVar

_NetworkT = TypeVar("_NetworkT", ipaddress.IPv4Network, ipaddress.IPv6Network)

_V4 = {
    "0.0.0.0/8": "this machine",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's inner network",
    "127.0.0.0/8": "this machine",
    "168.63.129.16/32": "the cloud's own services",
    "169.254.0.0/16": "this link, and the cloud's metadata",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "protocols' own use",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "protocols' own use",
    "192.52.193.0/24": "protocols' own use",
    "192.88.99.0/24": "a relay into IPv6",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "protocols' own use",
    "198.18.0.0/15": "tests of networks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "future use and broadcast",
}
_V6 = {
    "2001::/23": "protocols' own use, such as Teredo",
    "2001:db8::/32": "documentation",
    "2002::/16": "IPv4 inside of IPv6 (6to4)",
    "2620:4f:8000::/48": "protocols' own use",
    "3fff::/20": "documentation",
}
_V6_PUBLIC = ipaddress.IPv6Network("2000::/3")
"""The range of all public addresses, without mapped IPv4, private and local ones."""
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def _ranges(listed: dict[str, str], kind: type[_NetworkT]) -> Sequence[tuple[_NetworkT, str]]:
    return [(kind(text), meaning) for text, meaning in listed.items()]


_V4_RANGES = _ranges(_V4, ipaddress.IPv4Network)
_V6_RANGES = _ranges(_V6, ipaddress.IPv6Network)


def private_range(address: str) -> str | None:
    """Return the purpose of the reserved range of an address, or None if the address is public.

    A text that is not an address counts as private, so that no unknown host is reached.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "an unknown purpose"
    if isinstance(found, ipaddress.IPv4Address):
        return next((meaning for network, meaning in _V4_RANGES if found in network), None)
    if found.scope_id is not None or found not in _V6_PUBLIC:
        return "IPv6 that is not routed: this machine, a private network, or IPv4 inside of it"
    return next((meaning for network, meaning in _V6_RANGES if found in network), None)


def is_local_name(host: str) -> bool:
    """Return whether a name always means this machine."""
    return host in _LOCAL_NAMES or host.endswith(".localhost")


def find_fixed_addresses(host: str) -> Sequence[str]:
    """Return the addresses of a host that need no resolution, or no addresses for any other host."""
    if is_local_name(host):
        return ("127.0.0.1", "::1")
    return (host,) if _is_address(host) else ()


def private_host(host: str) -> str | None:
    """Return the purpose of a reserved host, judged by its text; None for a public address or a name."""
    return next(
        (meaning for address in find_fixed_addresses(host) if (meaning := private_range(address))), None
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
