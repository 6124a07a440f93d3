"""Matches rules with network calls, and judges the network calls that no rule denies."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from ....actions.ports import Verdict
from ....actions.tools.web.addresses import private_host
from ....actions.tools.web.exchange import READING_METHODS
from ....actions.tools.web.web_url import (
    DEFAULT_PORTS,
    UnfitUrl,
    WebUrl,
    plain_host,
    web_url,
)
from ....state.application import ExecutionMode
from .rules import Rule, literal_of

_SUBJECT = re.compile(r"(?:([A-Z]+) )?(.*)", re.DOTALL)
_PATTERN = re.compile(r"(https?|\*)://(\[[^\]/]*\]|[^/:]*)(?::(\d+|\*))?(/.*)?", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_MOST_DECODINGS = 5


class _Request(NamedTuple):
    method: str
    url: WebUrl


def verdict(tool: str, subject: str, mode: ExecutionMode, allow: Sequence[Rule]) -> Verdict:
    """Return the verdict on a request. `allow` are the allow rules whose tool name matches.

    A private address is blocked in every mode, unless a rule names exactly this address.
    """
    method, url = _read(subject)
    kept_for = private_host(url.host)
    if kept_for is not None and not any(_names(rule, url) for rule in allow):
        return Verdict(
            "deny",
            f"{url.host} is an address for {kept_for}: it is reached only if an allow rule names it,"
            f" such as {tool}({url.origin}/*)",
        )
    if mode == "yolo":
        return Verdict("allow", "everything is allowed in yolo mode")
    if mode == "plan" and method not in READING_METHODS:
        return Verdict("deny", f"plan mode only looks: {tool} sends a {method} request to {url.netloc}")
    rule = next((rule for rule in allow if covers(rule.pattern, subject)), None)
    return _by_rule(rule, f"{tool} sends a {method} request over the network to {url.netloc}", mode)


def service_verdict(tool: str, subject: str, mode: ExecutionMode, allow: Sequence[Rule]) -> Verdict:
    """Return the verdict on a query to a service that the user configured. Only modes and rules decide."""
    if mode == "yolo":
        return Verdict("allow", "everything is allowed in yolo mode")
    rule = next((rule for rule in allow if fnmatchcase(subject, rule.pattern or "*")), None)
    return _by_rule(rule, f"{tool} sends its words over the network", mode)


def _by_rule(rule: Rule | None, concern: str, mode: ExecutionMode) -> Verdict:
    """Allow a call that the rule covers. Without a rule ask, or deny in plan mode."""
    if rule is not None:
        return Verdict("allow", f"allowed by rule {rule.text}", rule.text)
    if mode == "plan":
        return Verdict("deny", f"plan mode allows only addresses that an allow rule names: {concern}")
    return Verdict("ask", concern)


def covers(pattern: str | None, subject: str) -> bool:
    """Return whether an allow pattern covers a request. The pattern is a glob for read-only requests; for any
    other request it has to be the exact text."""
    asked = _read(subject)
    if pattern is not None and _exactly(pattern) == asked:
        return True
    if asked.method not in READING_METHODS:
        return False
    named, rest = _method_of(pattern or "*")
    return named in ("", asked.method) and (rest == "*" or _matches(rest, asked.url))


def hits(pattern: str, subject: str) -> bool:
    """Return whether a deny pattern matches any spelling of a request."""
    method, url = _read(subject)
    named, rest = _method_of(pattern)
    if named and not fnmatchcase(method, named):
        return False
    wanted = _deny_spellings(rest)
    return any(fnmatchcase(text, glob) for text in _spellings(url) for glob in wanted)


def _read(subject: str) -> _Request:
    method, rest = _method_of(subject)
    return _Request(method or "GET", web_url(rest))


def _method_of(text: str) -> tuple[str, str]:
    found = _SUBJECT.fullmatch(text)
    assert found is not None
    return found[1] or "", found[2].strip()


@lru_cache(maxsize=512)
def _exactly(pattern: str) -> _Request | None:
    """Return the only request that a pattern without wildcards means; None for other patterns."""
    literal = literal_of(pattern)
    try:
        return None if literal is None else _read(literal)
    except UnfitUrl:
        return None


def _names(rule: Rule, url: WebUrl) -> bool:
    """Return whether a rule names exactly this private host, with any method."""
    if rule.pattern is None:
        return False
    exact = _exactly(rule.pattern)
    return (exact is not None and exact.url == url) or _matches(
        _method_of(rule.pattern)[1], url, by_name=True
    )


@lru_cache(maxsize=512)
def _parts(pattern: str) -> tuple[str, str, str, str] | None:
    """Return scheme, host, port and path of a pattern; None if the pattern is not an address."""
    # `exact_rule` writes the bracket of an IPv6 address as a set with one character.
    found = _PATTERN.fullmatch(pattern.replace("://[[]", "://[", 1))
    if found is None:
        return None
    scheme, host, port, path = found.groups("")
    try:
        return scheme, host if _WILD.search(host.lstrip("[")) else plain_host(host), port, path
    except UnfitUrl:
        return None


def _matches(pattern: str, url: WebUrl, by_name: bool = False) -> bool:
    """Compare an address with a pattern part by part, so that no wildcard matches across two parts."""
    parts = _parts(pattern)
    if parts is None:
        return False
    scheme, host, port, path = parts
    if scheme not in ("*", url.scheme) or not _is_host(host, url.host, by_name):
        return False
    if port != "*" and (int(port) if port else DEFAULT_PORTS[url.scheme]) != url.port:
        return False
    return fnmatchcase(url.target, path or ("*" if host == "*" else "/"))


def _is_host(pattern: str, host: str, by_name: bool) -> bool:
    """Compare hosts. The only wildcards are `*` for every host and `*.` for any subdomain."""
    if by_name or "*" not in pattern:
        return pattern == host
    below = pattern.removeprefix("*")
    return not below or (below.startswith(".") and not _WILD.search(below) and host.endswith(below.lower()))


@lru_cache(maxsize=512)
def _deny_spellings(pattern: str) -> frozenset[str]:
    """Return the globs for a deny pattern: the pattern itself, and for a bare site all of its addresses."""
    text = pattern if "://" in pattern else f"*://{pattern}"
    scheme, _, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    spellings = {host.lower(), _plain(host)}
    ends = [slash + path] if slash else ["", "/*"]
    return frozenset(f"{scheme.lower()}://{one}{end}" for one in spellings for end in ends)


def _plain(netloc: str) -> str:
    """Return a host in its normal form with its port. An invalid host stays unchanged."""
    try:
        return web_url(f"http://{netloc}/").netloc.replace("[", "[[]")
    except UnfitUrl:
        return netloc.lower()


def _spellings(url: WebUrl) -> set[str]:
    """Return the address in every spelling that a server may treat as the same."""
    paths = [url.target]
    while len(paths) < _MOST_DECODINGS and (decoded := unquote(paths[-1])) != paths[-1]:
        paths.append(decoded)
    hosts = {url.netloc, f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"}
    return {f"{url.scheme}://{host}{path}" for host in hosts for path in paths}
