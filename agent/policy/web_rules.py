"""What a rule means for a call over the network, and what the gate says of one that no rule denies."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote

from ...actions.ports import Verdict
from ...actions.tools.network.addresses import private_host
from ...actions.tools.network.web_url import READING_METHODS, UnfitUrl, WebUrl, plain_host, web_url
from ...state.application import ExecutionMode
from .rules import Rule, literal_of

_SUBJECT = re.compile(r"(?:([A-Z]+) )?(.*)", re.DOTALL)
_PATTERN = re.compile(r"(https?|\*)://(\[[^\]/]*\]|[^/:]*)(?::(\d+|\*))?(/.*)?", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_MOST_DECODINGS = 5


class _Asked(NamedTuple):
    method: str
    url: WebUrl


def verdict(tool: str, subject: str, mode: ExecutionMode, allow: Sequence[Rule]) -> Verdict:
    """Say what happens to a request; `allow` are the rules that name the tool.

    What is private stays private in every mode, unless a rule names the very address.
    """
    method, url = _read(subject)
    kept_for = private_host(url.host)
    if kept_for is not None and not any(_names(rule, url) for rule in allow):
        return Verdict(
            "deny",
            f"{url.host} is kept for {kept_for}: it is reached only where an allow rule names it,"
            f" such as {tool}({url.origin}/*)",
        )
    if mode == "yolo":
        return Verdict("allow", "everything is allowed in yolo mode")
    if mode == "plan" and method not in READING_METHODS:
        return Verdict("deny", f"plan mode only looks: {tool} sends a {method} request to {url.netloc}")
    rule = next((rule for rule in allow if covers(rule.pattern, subject)), None)
    if rule is not None:
        return Verdict("allow", f"allowed by rule {rule.text}", rule.text)
    concern = f"{tool} sends a {method} request over the network to {url.netloc}"
    if mode == "plan":
        return Verdict("deny", f"plan mode reaches only what an allow rule names: {concern}")
    return Verdict("ask", concern)


def service_verdict(tool: str, subject: str, mode: ExecutionMode, allow: Sequence[Rule]) -> Verdict:
    """Say what happens to a question that goes to a service of the person's own choice."""
    if mode == "yolo":
        return Verdict("allow", "everything is allowed in yolo mode")
    rule = next((rule for rule in allow if fnmatchcase(subject, rule.pattern or "*")), None)
    if rule is not None:
        return Verdict("allow", f"allowed by rule {rule.text}", rule.text)
    concern = f"{tool} sends its words over the network"
    if mode == "plan":
        return Verdict("deny", f"plan mode reaches only what an allow rule names: {concern}")
    return Verdict("ask", concern)


def covers(pattern: str | None, subject: str) -> bool:
    """Tell whether an allow pattern covers a request: a glob for what only reads, else the very words."""
    asked = _read(subject)
    literal = None if pattern is None else literal_of(pattern)
    if literal is not None and _is_same(literal, asked):
        return True
    if asked.method not in READING_METHODS:
        return False
    named, rest = _method_of(pattern or "*")
    return named in ("", asked.method) and (rest == "*" or _matches(rest, asked.url))


def hits(pattern: str, subject: str) -> bool:
    """Tell whether a deny pattern matches a request in any spelling of it."""
    method, url = _read(subject)
    named, rest = _method_of(pattern)
    if named and not fnmatchcase(method, named):
        return False
    wanted = _deny_spellings(rest)
    return any(fnmatchcase(text, glob) for text in _spellings(url) for glob in wanted)


def _read(subject: str) -> _Asked:
    method, rest = _method_of(subject)
    return _Asked(method or "GET", web_url(rest))


def _method_of(text: str) -> tuple[str, str]:
    found = _SUBJECT.fullmatch(text)
    assert found is not None
    return found[1] or "", found[2].strip()


def _is_same(literal: str, asked: _Asked) -> bool:
    method, rest = _method_of(literal)
    try:
        return web_url(rest) == asked.url and (method or "GET") == asked.method
    except UnfitUrl:
        return False


def _names(rule: Rule, url: WebUrl) -> bool:
    """Tell whether a rule speaks of this private host by its own name, with whichever method."""
    if rule.pattern is None:
        return False
    pattern = _method_of(rule.pattern)[1]
    literal = literal_of(pattern)
    try:
        if literal is not None and web_url(literal) == url:
            return True
    except UnfitUrl:
        pass
    return _matches(pattern, url, by_name=True)


def _matches(pattern: str, url: WebUrl, by_name: bool = False) -> bool:
    """Compare part by part, so that no wildcard reaches from one part of an address into another."""
    # `exact_rule` writes the bracket of an IPv6 address as a set of one.
    found = _PATTERN.fullmatch(pattern.replace("[[]", "[", 1) if "://[[]" in pattern else pattern)
    if found is None:
        return False
    scheme, host, port, path = found.groups()
    if scheme not in ("*", url.scheme) or not _is_host(host, url.host, by_name):
        return False
    if port != "*" and (int(port) if port else {"http": 80, "https": 443}[url.scheme]) != url.port:
        return False
    return fnmatchcase(url.target, path or ("*" if host == "*" else "/"))


def _is_host(pattern: str, host: str, by_name: bool) -> bool:
    if not pattern.startswith("[") and _WILD.search(pattern):
        rest = pattern.removeprefix("*.")
        if by_name or (rest != pattern and _WILD.search(rest)):
            return False
        return pattern == "*" or (rest != pattern and host.endswith("." + rest.lower()))
    try:
        return plain_host(pattern) == host
    except UnfitUrl:
        return False


def _deny_spellings(pattern: str) -> set[str]:
    """Return the globs that are meant: the pattern, and for a site alone everything on it."""
    text = pattern if "://" in pattern else f"*://{pattern}"
    scheme, _, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    spellings = {host.lower(), _plain(host)}
    ends = [slash + path] if slash else ["", "/*"]
    return {f"{scheme.lower()}://{one}{end}" for one in spellings for end in ends}


def _plain(netloc: str) -> str:
    """Return a host as addresses spell it, with its port; what cannot be one stays as it is."""
    try:
        return web_url(f"http://{netloc}/").netloc.replace("[", "[[]")
    except UnfitUrl:
        return netloc.lower()


def _spellings(url: WebUrl) -> set[str]:
    """Return the address in every way that a server may read it."""
    paths = [url.target]
    while len(paths) < _MOST_DECODINGS and (decoded := unquote(paths[-1])) != paths[-1]:
        paths.append(decoded)
    hosts = {url.netloc, f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"}
    return {f"{url.scheme}://{host}{path}" for host in hosts for path in paths}
