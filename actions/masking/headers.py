"""Finds credentials where protocols put them: authorization and cookie headers, the user part of URLs."""

import base64
import binascii
import re
from collections.abc import Iterator

from actions.masking.span import Span
from actions.masking.values import is_bare_secret, is_placeholder, is_random, looks_chosen

_AUTHORIZATION = re.compile(
    rb"""(?ix)
    authorization \\? ["'`]? \]? [ \t]{0,2} (?: => | [:=,] ) [ \t]{0,2} [bfr]? \\? ["'`]?
    (?: (?P<scheme> bearer|basic|token|apikey|api-key|key|bot|digest|negotiate|splunk|geniekey ) [ ]{1,2} )?
    (?: token= )? "? (?P<value> [\w.~+/=:%-]{6,2048}+ ) (?! [(\[{] )
    """
)
_BEARER = re.compile(rb"(?i)bearer[ ]{1,2}(?P<value>[\w.~+/=-]{16,}+)(?![(\[{])")
_COOKIES = re.compile(
    rb"(?i)cookie\\?[\"'`]?[ \t]{0,2}[:=][ \t]{0,2}\\?[\"'`]?(?P<pairs>[^\r\n\"'`]{4,4096})"
)
_COOKIE = re.compile(rb"(?:^|;[ \t]*)(?P<name>[\w.%-]{1,64})=(?P<value>[^\s;,\"'\\]{6,}+)")
_SESSION = re.compile(rb"(?i)sess|sid\b|token|auth|jwt|csrf|xsrf|remember|login|credential|secret")
_ATTRIBUTE = re.compile(rb"(?i)(?:expires|max-age|domain|path|samesite|priority|version)\Z")
_AFTER_SCHEME = re.compile(
    rb"//(?P<user>[^\s/:@\"'`<>(){}\[\]\\]{0,256}):(?P<password>[^\s/\"'`<>\\]{1,512})@(?=[\w\[.$%{-])"
)
_TOKEN_AS_USER = re.compile(rb"//(?P<token>[\w.~%+-]{20,256})(?::x-oauth-basic)?@(?=[\w\[])")
_USER_FLAG = re.compile(rb"-u(?:ser)?[ =][\"']?[\w.@-]{1,64}:(?P<password>[^\s\"'`$<>{}()]{6,}+)")
_NO_PASSWORD = re.compile(
    rb"(?i)(?:pass|password|passwd|pwd|pw|secret|token|p|x+|user|username|root|\*+|\.+|[\w-]*-password)\Z|[${<]|%[s(]"
)


def header_spans(data: bytes, folded: bytes) -> Iterator[Span]:
    """Yield the values of authorization and cookie headers."""
    if b"authorization" in folded:
        for found in _each(_AUTHORIZATION, data, folded, b"authorization"):
            if _is_credential(found["value"], (found["scheme"] or b"").lower()):
                yield Span(*found.span("value"), "authorization")
    if b"bearer " in folded:
        for found in _each(_BEARER, data, folded, b"bearer "):
            if _is_credential(found["value"], b"bearer"):
                yield Span(*found.span("value"), "authorization")
    if b"cookie" in folded:
        for found in _each(_COOKIES, data, folded, b"cookie"):
            yield from _cookies(found)


def user_flag_spans(data: bytes) -> Iterator[Span]:
    """Yield the passwords of `curl -u name:password`."""
    if b" -u" in data or b"--user" in data:
        for found in _USER_FLAG.finditer(data):
            if is_bare_secret(found["password"], is_password=True):
                yield Span(*found.span("password"), "password")


def url_spans(data: bytes) -> Iterator[Span]:
    """Yield the passwords in `scheme://user:password@host`, and tokens that stand for the user."""
    at = data.find(b"://")
    while at >= 0:
        if (found := _AFTER_SCHEME.match(data, at + 1)) is not None:
            if _is_password(found["user"], found["password"]):
                yield Span(*found.span("password"), "URL password")
        elif (found := _TOKEN_AS_USER.match(data, at + 1)) is not None and is_random(found["token"]):
            yield Span(*found.span("token"), "URL token")
        at = data.find(b"://", at + 3)


def _each(pattern: re.Pattern[bytes], data: bytes, folded: bytes, word: bytes) -> Iterator[re.Match[bytes]]:
    at = folded.find(word)
    while at >= 0:
        found = pattern.match(data, at)
        if found is not None:
            yield found
        at = folded.find(word, found.end() if found is not None else at + len(word))


def _is_credential(value: bytes, scheme: bytes) -> bool:
    if is_placeholder(value) or (len(value) < 8 and scheme != b"basic"):
        return False
    if scheme == b"basic":
        return _is_user_and_password(value) or is_random(value)
    if not scheme:
        return is_random(value)
    return looks_chosen(value) or (len(value) >= 16 and b"_" not in value and b"." not in value)


def _is_user_and_password(value: bytes) -> bool:
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def _cookies(header: re.Match[bytes]) -> Iterator[Span]:
    start = header.start("pairs")
    for pair in _COOKIE.finditer(header["pairs"]):
        name, value = pair["name"], pair["value"]
        if _ATTRIBUTE.match(name) is not None or is_placeholder(value):
            continue
        if is_random(value) or (_SESSION.search(name) is not None and looks_chosen(value)):
            first, last = pair.span("value")
            yield Span(start + first, start + last, "cookie")


def _is_password(user: bytes, password: bytes) -> bool:
    is_default = password == user and password.isalpha()
    return not is_default and _NO_PASSWORD.match(password) is None and not is_placeholder(password)
