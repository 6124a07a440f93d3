"""Finds secrets by their names: `API_KEY=...`, `"password": "..."`, `x-api-key: ...`, `--token ...`."""

import re
from collections.abc import Iterator

from actions.masking.span import Span
from actions.masking.values import (
    is_assigned_secret,
    is_bare_secret,
    is_quoted_secret,
    is_random,
    looks_chosen,
)

# What to look for in folded bytes, and the last word of a name that it is part of.
_NEXT = rb"(?=[a-z0-9-]{0,12}[\"'`\\\] \t]{0,6}[:=>]|\ [^ ])"
_WORDS: tuple[tuple[bytes, bytes], ...] = (
    (b"pass", rb"pass(?:w(?:or)?d|phrase|code)?"),
    (b"pwd", rb"pwd"),
    (b"secret", rb"secret"),
    (b"token", rb"token"),
    (b"credential", rb"credentials?"),
    (b"key", rb"key"),
    (b"-auth", rb"-auth"),
    (b'"auth"', rb'"auth'),
    (b"sig=", rb"(?<=[?&])sig"),
)
_PATTERNS = tuple((word, re.compile(pattern + _NEXT)) for word, pattern in _WORDS)

_BEFORE = re.compile(rb"[\w.$-]{0,64}")  # matched backwards
_IS_PASSWORD = re.compile(rb"(?:passw(?:or)?d|passphrase|passcode|pass|pwd)[a-z0-9-]{0,12}\Z")
_NO_SECRET = re.compile(
    rb"(?:max|min|num|total|next|prev|previous|page|continuation|cursor|sync|starting|resume|start|stop|end"
    rb"|pad|eos|bos|unk|sep|cls|mask|special|cancellation|abort|public|publishable|primary|foreign|sort|cache|idempotency|by"
    rb"|bypass|compass|encompass|surpass|trespass|pass-through)-?(?:token|key|pass)?\Z"
)
_SECRET_KEY = re.compile(
    rb"(?:api|access|private|secret|account|encrypt(?:ion)?|decryption|signing|sign|master|auth|license|service"
    rb"|client|app|application|admin|storage|subscription|webhook|jwt|deploy|hmac|shared|write|server|consumer"
    rb"|cipher|crypto|session|cookie|ssh|rsa|aes|ai|anthropic|stripe|host|instrumentation)-?key[a-z0-9-]{0,12}\Z"
)
_HEADER = re.compile(rb"(?:x-[a-z-]+|api-?key|private-token|job-token)\Z")

_ASSIGNMENT = re.compile(
    rb"""(?x)
    (?P<suffix> (?: [_.-]? (?: [Kk]ey|KEY|[Vv]alue|VALUE|prod|PROD|dev|DEV|test|TEST|staging|STAGING|live|LIVE
        |production|PRODUCTION|old|OLD|new|NEW|primary|PRIMARY|secondary|SECONDARY
        |base64|BASE64|b64|[0-9]{1,2} ) )? )
    (?P<spaced> (?: \\? ["'`] )? \]? [ \t]{0,4} )
    (?P<sign> (?: : [ \t]{0,2} (?: str|String|string|&str|SecretStr ) [ \t]{0,2} )?
        (?: => | := | = (?![=>~]) ) | : (?![:=]) | > )
    (?P<gap> [ \t]{0,8} )
    (?: [rbuRBU]{0,2} (?:
          \\" (?P<q1> [^"\\\r\n]{6,512}+ ) \\"
        | "   (?P<q2> (?: [^"\\\r\n] | \\[^\r\n] ){6,512}+ ) (?: " | (?=[\r\n]|\Z) )
        | '   (?P<q3> (?: [^'\\\r\n] | \\[^\r\n] ){6,512}+ ) (?: ' | (?=[\r\n]|\Z) )
        | `   (?P<q4> [^`\\\r\n]{6,512}+ ) `
        )
      | (?P<bare> [^\s"'`,;&<>(){}\[\]|\\]{6,1024}+ ) (?! [(\[{] )
    )
    """
)
_FLAG_VALUE = re.compile(rb"(?:[ \t]+|=)[\"']?(?P<bare>[^\s\"'`$<>{}()]{6,1024}+)")
_REST = re.compile(rb"[^\s\"'`,;&<>(){}\[\]|\\]*+")
_LINE_END = re.compile(rb"[ \t]*(?:#.*)?(?:[\r\n]|\Z)")


def named_spans(data: bytes, folded: bytes) -> Iterator[Span]:
    """Yield the values that stand beside a name which says secret."""
    for word, pattern in _PATTERNS:
        at = folded.find(word)
        while at >= 0:
            end = at + len(word)
            if (found := pattern.match(folded, at)) is not None:
                span, examined = _value_at(data, folded, found)
                # What was judged is not judged again: a line of nothing but names would never end.
                end = max(end, examined)
                if span is not None:
                    yield span
            at = folded.find(word, end)


def _value_at(data: bytes, folded: bytes, found: re.Match[bytes]) -> tuple[Span | None, int]:
    word_start, word_end = found.span()
    before = _before(data, word_start)
    start = word_start - len(before)
    name = folded[start:word_end].lstrip(b'-$"')
    is_word_within = before[-1:].isalpha() and data[word_start : word_start + 1].islower()
    if _NO_SECRET.search(name) is not None or (is_word_within and name.endswith(b"pass")):
        return None, 0
    value = _ASSIGNMENT.match(data, word_end)
    if value is None:
        return _flag_value(data, folded, start, word_end), 0
    first, last = value.span(value.lastgroup or 0)
    if value.lastgroup == "bare" and (rest := _REST.match(data, last)) is not None:
        last = rest.end()
    neighbour = data[start - 1 : start] if start else b""
    if (value["sign"] == b">") is not (neighbour == b"<") or (
        neighbour == value["sign"] == b":" and not value["gap"]
    ):
        return None, last  # a comparison; a part of a name with colons
    whole = data[start : value.end("suffix")].lstrip(b'-$."')
    return (Span(first, last, _label(whole)) if _is_secret(data, start, whole, value) else None), last


def _before(data: bytes, end: int) -> bytes:
    backwards = _BEFORE.match(data[max(end - 64, 0) : end][::-1])
    return backwards[0][::-1] if backwards is not None else b""


def _flag_value(data: bytes, folded: bytes, start: int, end: int) -> Span | None:
    if data[start : start + 2] != b"--":
        return None
    value = _FLAG_VALUE.match(data, end)
    name = folded[start + 2 : end]
    if value is None or not is_bare_secret(value["bare"], _IS_PASSWORD.search(name) is not None):
        return None
    return Span(*value.span("bare"), _label(data[start + 2 : end]))


def _is_secret(data: bytes, start: int, name: bytes, value: re.Match[bytes]) -> bool:
    text: bytes = value[value.lastgroup or 0]
    lower = name.lower().replace(b"_", b"-").replace(b".", b"-")
    if b"key" in lower and b"secret" not in lower and _SECRET_KEY.search(lower) is None:
        return name.isupper() and is_random(text) and is_assigned_secret(text)
    is_password = _IS_PASSWORD.search(lower) is not None
    if value["sign"] == b">" or data[start - 1 : start] in (b"?", b"&"):
        return is_assigned_secret(text) and looks_chosen(text)
    is_tight = not value["spaced"].strip(b"\"'") and not value["gap"] and value["sign"] == b"="
    if name.isupper() and is_tight:
        return is_assigned_secret(text, is_password) and (is_password or b" " not in text)
    if value["sign"] == b":" and _HEADER.match(lower) is not None and b"_" not in text:
        return is_assigned_secret(text) and b" " not in text
    if value.lastgroup != "bare":
        return is_quoted_secret(text, is_password)
    if is_bare_secret(text, is_password):
        return True
    return is_password and _is_whole_line(data, start, value, is_tight) and is_quoted_secret(text, True)


def _is_whole_line(data: bytes, start: int, value: re.Match[bytes], is_tight: bool) -> bool:
    """Tell whether this is a line of a configuration file: `name: value` or `name=value`, nothing else."""
    line = data[max(data.rfind(b"\n", max(start - 64, 0), start) + 1, start - 64) : start]
    is_setting = is_tight or value["sign"] == b":"
    return is_setting and not line.strip(b" \t-") and _LINE_END.match(data, value.end()) is not None


def _label(name: bytes) -> str:
    return "value" if is_random(name) or not name else f"value of {name.decode('ascii', 'replace')}"
