"""Selects the proxy of a request by the usual environment variables."""

import base64
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2

from ....actions.tools.web.tls import tls_context
from ..providers import Endpoint

_SCHEMES = ("http", "https", "socks5", "socks5h")


def find_proxy(url: SplitResult) -> str:
    """Return the address of the proxy for a server's address, or an empty text if none applies.

    `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` name the proxy. `NO_PROXY` lists the hosts, domains and
    networks that need none.
    """
    proxies = getproxies()
    address = proxies.get(url.scheme) or proxies.get("all", "")
    host = url.hostname or ""
    if not address or proxy_bypass(url.netloc.rpartition("@")[2]) or proxy_bypass(host):
        return ""
    if any(_contains(network, host) for network in proxies.get("no", "").split(",")):
        return ""
    return address if "://" in address else f"http://{address}"


def describe_proxy(endpoint: Endpoint) -> str:
    """Return "the proxy ADDRESS" without its password, if requests to the endpoint go through one; else an
    empty text."""
    address = find_proxy(urlsplit(endpoint.base_url))
    return f"the proxy {address.rpartition('@')[2].rpartition('//')[2]}" if address else ""


def parse_proxy(address: str) -> httpcore2.Proxy:
    """Parse the address of a proxy. Raises `ValueError` for another address, and `ImportError` if SOCKS
    support is not installed."""
    parts = urlsplit(address)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("the address of a proxy looks like http://HOST:PORT")
    if parts.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ImportError("socksio")
    default = {"http": 80, "https": 443}.get(parts.scheme, 1080)
    return httpcore2.Proxy(
        httpcore2.URL(scheme=parts.scheme, host=parts.hostname, port=parts.port or default, target="/"),
        auth=read_credentials(parts),
        ssl_context=tls_context() if parts.scheme == "https" else None,
    )


def read_credentials(url: SplitResult) -> tuple[str, str] | None:
    """Return the user name and the password in an address, or None if it has none."""
    if url.username is None and url.password is None:
        return None
    return unquote(url.username or ""), unquote(url.password or "")


def basic_authorization(credentials: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(credentials).encode()).decode("ascii")


def _contains(network: str, host: str) -> bool:
    """Return whether an address is in a network such as 10.0.0.0/8; False if one of them cannot be parsed."""
    try:
        return "/" in network and ip_address(host) in ip_network(network.strip(), strict=False)
    except ValueError:
        return False
