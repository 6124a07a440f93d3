"""Finds secrets by their names: `API_KEY=...`, `"password": "..."`, `x-api-key: ...`, `--token ...`."""

import base64
import binascii
import re
from collections.abc import Iterator

from .late_pattern import LatePattern
from .span import SecretSpan, find_matches_at

SHORTEST = 8
SHORTEST_PASSWORD = 6
"""The least characters of a password that mixes letters with digits or symbols."""
_EXAMINED = 160

_PLACEHOLDER = LatePattern(
    rb"""(?ix)
    change[-_ ]?(?:me|it|this) | replace[-_ ]?(?:me|with|this) | placeholder | redacted | masked
    | x{4} | \*{3} | \.\.\. | <[^>]*> | \$\{ | \{\{ | \$\( | %\( | \#\{
    | (?:^|[-_ ])your(?:[-_ ]|$|[a-z]*[-_]) | ^(?:insert|enter|put|add|set)[-_ ]
    | [-_ ](?:here|goes[-_ ]here)$
    | ^(?:my|the|some|any|test|fake|dummy|example)?[-_ ]?
      (?:secret|password|passwd|passphrase|token|(?:api|secret|access|private)?[-_]?key
      |credentials?|value|string)[-_ ]?(?:value|key|token|string|here|\d{1,3})?$
    """
)
_REFERENCE = LatePattern(
    rb"""(?ix)
    [$&%@{}<>()\[\]\s] | \*\* | ![a-z]+$ | [.~]{0,2}/ | \\ | -- | [a-z][a-z0-9+.-]*://
    | (?:arn|sha\d+|env|file|keyring|ssm|vault|op|ref)[:+]
    | (?:true|false|none|null|nil|undefined|required|optional|disabled|enabled
      |string|boolean|integer|default)$
    | [\d\s.,:+-]*$ | \d{4}-\d\d-\d\d
    """
)
_NOT_BARE = LatePattern(rb"[()\[\]{}<>\"'`]")
_DOTTED = LatePattern(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+[!?]?\Z")
_CHAINED = LatePattern(rb"\w=[A-Za-z_$]\w*[.(=]")
_IDENTIFIER = LatePattern(rb"[A-Za-z_]\w*\Z")
_ENVIRONMENT_NAME = LatePattern(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
_CHANGES = LatePattern(rb"(?=[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z])")
_LETTER = LatePattern(rb"[A-Za-z]")
_DIGIT = LatePattern(rb"[0-9]")
_SYMBOL = LatePattern(rb"[!@#$%^&*+=?~]")
_PATH = LatePattern(rb"[\w.@-]*/[\w.@/-]*\.[a-z]{1,5}\Z")
_PATTERN = LatePattern(rb"\[\^?[\w-]|\(\?|\|\||&&|\\[dws]|%[sd]|\.\*|\.\+")


def is_random(value: bytes) -> bool:
    """Return whether letters, digits and cases alternate too often for a text that people write."""
    return len(value) >= 16 and _count_changes(value) >= max(3, min(len(value), _EXAMINED) // 5)


def looks_random(value: bytes) -> bool:
    """Return whether a value is random by its form alone, also a short one."""
    return is_random(value) or 3 * _count_changes(value) >= len(value[:_EXAMINED])


def is_placeholder(value: bytes) -> bool:
    return _PLACEHOLDER.search(value[:_EXAMINED]) is not None


def is_ruled_out(value: bytes, is_password: bool = False) -> bool:
    """Return whether the value is a reference, a number or a placeholder, and so no secret under any name."""
    sample = value[:_EXAMINED]
    return (
        len(value) < (SHORTEST_PASSWORD if is_password and looks_chosen(sample) else SHORTEST)
        or (len(set(sample)) < 3 and len(value) < 24)
        or _REFERENCE.match(sample) is not None
        or is_placeholder(sample)
        or (_ENVIRONMENT_NAME.match(sample) is not None and not is_random(sample))
        or _PATH.match(sample) is not None
    )


def looks_chosen(value: bytes) -> bool:
    """Return whether letters are mixed with digits or symbols, as passwords require."""
    sample = value[:_EXAMINED]
    return _LETTER.search(sample) is not None and (
        _DIGIT.search(sample) is not None or _SYMBOL.search(sample) is not None
    )


def is_quoted_secret(value: bytes, is_password: bool) -> bool:
    """Return whether the value of a string literal is a secret."""
    if is_ruled_out(value, is_password) or _PATTERN.search(value[:_EXAMINED]) is not None:
        return False
    if is_random(value):
        return True
    if not looks_chosen(value) or b" " in value or _DOTTED.match(value) is not None:
        return False
    return is_password or _is_mixed(value)


def is_bare_secret(value: bytes, is_password: bool) -> bool:
    """Return whether a value without quotes, which may be code, is a secret."""
    if not is_assigned_secret(value, is_password):
        return False
    if _IDENTIFIER.match(value) is not None:
        return _is_no_identifier(value, is_password)
    return is_random(value) or (looks_chosen(value) and (is_password or _is_mixed(value)))


def _is_no_identifier(value: bytes, is_password: bool) -> bool:
    """Return whether a word has too many digits and changes of case to be the name of a variable."""
    sample = value[:_EXAMINED]
    digits, changes = len(_DIGIT.findall(sample)), _count_changes(sample)
    if is_password and (min(digits, changes) >= 2 or (digits and changes >= 4)):
        return True
    return min(digits, changes) >= 3 or (digits > 0 and len(sample) >= 16 and changes * 4 >= len(sample))


def is_assigned_secret(value: bytes, is_password: bool = False) -> bool:
    """Return whether the value of a shell variable with a secret name is a secret. Plain words are secrets,
    too.
    """
    sample = value[:_EXAMINED]
    if (
        is_ruled_out(value, is_password)
        or _NOT_BARE.search(sample) is not None
        or _CHAINED.search(sample) is not None
    ):
        return False
    return _DOTTED.match(value) is None or is_random(value)


def _count_changes(value: bytes) -> int:
    return len(_CHANGES.findall(value[:_EXAMINED]))


def _is_mixed(value: bytes) -> bool:
    sample = value[:_EXAMINED]
    return _DIGIT.search(sample) is not None and (
        _count_changes(sample) >= 2 or _SYMBOL.search(sample) is not None or len(sample) >= 16
    )


# Each row is the word to search for in folded bytes, and the pattern of the last word of a name.
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
_PATTERNS = tuple((word, LatePattern(pattern + _NEXT)) for word, pattern in _WORDS)

_BEFORE = LatePattern(rb"[\w.$-]{0,64}")  # This pattern is matched against reversed text.
_IS_PASSWORD = LatePattern(rb"(?:passw(?:or)?d|passphrase|passcode|pass|pwd)[a-z0-9-]{0,12}\Z")
_NO_SECRET = LatePattern(
    rb"(?:max|min|num|total|next|prev|previous|page|continuation|cursor|sync|starting|resume|start|stop|end"
    rb"|pad|eos|bos|unk|sep|cls|mask|special|cancellation|abort|public|publishable|primary|foreign|sort|cache|idempotency|by"
    rb"|bypass|compass|encompass|surpass|trespass|pass-through)-?(?:token|key|pass)?\Z"
)
_SECRET_KEY = LatePattern(
    rb"(?:api|access|private|secret|account|encrypt(?:ion)?|decryption|signing|sign|master|auth|license|service"
    rb"|client|app|application|admin|storage|subscription|webhook|jwt|deploy|hmac|shared|write|server|consumer"
    rb"|cipher|crypto|session|cookie|ssh|rsa|aes|ai|anthropic|stripe|host|instrumentation)-?key[a-z0-9-]{0,12}\Z"
)
_ANNOTATION = LatePattern(
    rb"(?!(?:\D*\d++){3})(?:[A-Z]+[a-z]*\d{0,5}){1,6}(?:Key|KeyPair|Secret|Token|Credentials?|Signer|Str|String|Bytes)"
)
"""Matches a class name that is a type annotation, as in `private_key: Ed25519PrivateKey`."""
_HEADER = LatePattern(rb"(?:x-[a-z-]+|api-?key|private-token|job-token)\Z")

_ASSIGNMENT = LatePattern(
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
_FLAG_VALUE = LatePattern(rb"(?:[ \t]+|=)[\"']?(?P<bare>[^\s\"'`$<>{}()]{6,1024}+)")
_REST = LatePattern(rb"[^\s\"'`,;&<>(){}\[\]|\\]*+")
_LINE_END = LatePattern(rb"[ \t]*(?:#.*)?(?:[\r\n]|\Z)")


def find_named_values(data: bytes, folded: bytes) -> Iterator[SecretSpan]:
    """Yield the values that stand next to a name of a secret, such as `api_key`."""
    for word, pattern in _PATTERNS:
        at = folded.find(word)
        while at >= 0:
            end = at + len(word)
            if (found := pattern.match(folded, at)) is not None:
                span, examined = _find_value(data, folded, found)
                # An examined value is not examined again: a line of many names would take quadratic time.
                end = max(end, examined)
                if span is not None:
                    yield span
            at = folded.find(word, end)


_BETWEEN = rb"(?:\\?[\"'`])?\]?[ \t]{0,4}[:=][ \t]{0,4}(?:\\?[\"'`])?"


def compile_pair(name: str, value: str) -> re.Pattern[bytes]:
    """Return a pattern that finds a value (group `value`) only directly after its name."""
    parts = (re.escape(text.encode("utf-8", "surrogatepass")) for text in (name, value))
    before, after = rb"(?<![A-Za-z0-9_])", rb"(?![A-Za-z0-9_])"
    return re.compile(before + next(parts) + _BETWEEN + b"(?P<value>" + next(parts) + b")" + after)


def _find_value(data: bytes, folded: bytes, found: re.Match[bytes]) -> tuple[SecretSpan | None, int]:
    word_start, word_end = found.span()
    before = _read_name_before(data, word_start)
    start = word_start - len(before)
    name = folded[start:word_end].lstrip(b'-$"')
    is_word_within = before[-1:].isalpha() and data[word_start : word_start + 1].islower()
    if _NO_SECRET.search(name) is not None or (is_word_within and name.endswith(b"pass")):
        return None, 0
    value = _ASSIGNMENT.match(data, word_end)
    if value is None:
        return _find_flag_value(data, folded, start, word_end), 0
    first, last = value.span(value.lastgroup or 0)
    if value.lastgroup == "bare" and (rest := _REST.match(data, last)) is not None:
        last = rest.end()
    neighbour = data[start - 1 : start] if start else b""
    if (value["sign"] == b">") is not (neighbour == b"<") or (
        neighbour == value["sign"] == b":" and not value["gap"]
    ):
        return None, last  # This is a comparison, or a part of a name that contains colons.
    whole = data[start : value.end("suffix")].lstrip(b'-$."')
    return (
        SecretSpan(first, last, _make_label(whole)) if _is_secret(data, start, whole, value) else None
    ), last


def _read_name_before(data: bytes, end: int) -> bytes:
    backwards = _BEFORE.match(data[max(end - 64, 0) : end][::-1])
    return backwards[0][::-1] if backwards is not None else b""


def _find_flag_value(data: bytes, folded: bytes, start: int, end: int) -> SecretSpan | None:
    if data[start : start + 2] != b"--":
        return None
    value = _FLAG_VALUE.match(data, end)
    name = folded[start + 2 : end]
    if value is None or not is_bare_secret(value["bare"], _IS_PASSWORD.search(name) is not None):
        return None
    return SecretSpan(*value.span("bare"), _make_label(data[start + 2 : end]))


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
    is_bare = value.lastgroup == "bare"
    if is_bare and value["sign"] == b":" and not is_password and _ANNOTATION.fullmatch(text) is not None:
        return False
    if value["sign"] == b":" and _HEADER.match(lower) is not None and b"_" not in text:
        return is_assigned_secret(text) and b" " not in text
    if not is_bare:
        return is_quoted_secret(text, is_password)
    if is_bare_secret(text, is_password):
        return True
    return is_password and _is_whole_line(data, start, value, is_tight) and is_quoted_secret(text, True)


def _is_whole_line(data: bytes, start: int, value: re.Match[bytes], is_tight: bool) -> bool:
    """Return whether this is a complete line of a configuration file, `name: value` or `name=value`."""
    line = data[max(data.rfind(b"\n", max(start - 64, 0), start) + 1, start - 64) : start]
    is_setting = is_tight or value["sign"] == b":"
    return is_setting and not line.strip(b" \t-") and _LINE_END.match(data, value.end()) is not None


def _make_label(name: bytes) -> str:
    return "value" if is_random(name) or not name else f"value of {name.decode('ascii', 'replace')}"


_AUTHORIZATION = LatePattern(
    rb"""(?ix)
    authorization \\? ["'`]? \]? [ \t]{0,2} (?: => | [:=,] ) [ \t]{0,2} [bfr]? \\? ["'`]?
    (?: (?P<scheme> bearer|basic|token|apikey|api-key|key|bot|digest|negotiate|splunk|geniekey ) [ ]{1,2} )?
    (?: token= )? "? (?P<value> [\w.~+/=:%-]{6,2048}+ ) (?! [(\[{] )
    """
)
_BEARER = LatePattern(rb"(?i)bearer[ ]{1,2}(?P<value>[\w.~+/=-]{16,}+)(?![(\[{])")
_COOKIES = LatePattern(
    rb"(?i)cookie\\?[\"'`]?[ \t]{0,2}[:=][ \t]{0,2}\\?[\"'`]?(?P<pairs>[^\r\n\"'`]{4,4096})"
)
_COOKIE = LatePattern(rb"(?:^|;[ \t]*)(?P<name>[\w.%-]{1,64})=(?P<value>[^\s;,\"'\\]{6,}+)")
_SESSION = LatePattern(rb"(?i)sess|sid\b|token|auth|jwt|csrf|xsrf|remember|login|credential|secret")
_ATTRIBUTE = LatePattern(rb"(?i)(?:expires|max-age|domain|path|samesite|priority|version)\Z")
_AFTER_SCHEME = LatePattern(
    rb"//(?P<user>[^\s/:@\"'`<>(){}\[\]\\]{0,256}):(?P<password>[^\s/\"'`<>\\]{1,512})@(?=[\w\[.$%{-])"
)
_TOKEN_AS_USER = LatePattern(rb"//(?P<token>[\w.~%+-]{20,256})(?::x-oauth-basic)?@(?=[\w\[])")
_USER_FLAG = LatePattern(rb"-u(?:ser)?[ =][\"']?[\w.@-]{1,64}:(?P<password>[^\s\"'`$<>{}()]{6,}+)")
_NO_PASSWORD = LatePattern(
    rb"(?i)(?:pass|password|passwd|pwd|pw|secret|token|p|x+|user|username|root|\*+|\.+|[\w-]*-password)\Z|[${<]|%[s(]"
)


def find_header_values(data: bytes, folded: bytes) -> Iterator[SecretSpan]:
    """Yield the values of authorization and cookie headers."""
    for found in find_matches_at(_AUTHORIZATION, data, b"authorization", folded):
        if _is_credential(found["value"], (found["scheme"] or b"").lower()):
            yield SecretSpan(*found.span("value"), "authorization")
    for found in find_matches_at(_BEARER, data, b"bearer ", folded):
        if _is_credential(found["value"], b"bearer"):
            yield SecretSpan(*found.span("value"), "authorization")
    for found in find_matches_at(_COOKIES, data, b"cookie", folded):
        yield from _find_cookies(found)


def find_user_flag_passwords(data: bytes) -> Iterator[SecretSpan]:
    """Yield the passwords of `curl -u name:password`."""
    if b" -u" in data or b"--user" in data:
        for found in _USER_FLAG.finditer(data):
            if is_bare_secret(found["password"], is_password=True):
                yield SecretSpan(*found.span("password"), "password")


def find_url_secrets(data: bytes) -> Iterator[SecretSpan]:
    """Yield the passwords in `scheme://user:password@host`, and the tokens that replace the user in a URL."""
    at = data.find(b"://")
    while at >= 0:
        if (found := _AFTER_SCHEME.match(data, at + 1)) is not None:
            if _is_password(found["user"], found["password"]):
                yield SecretSpan(*found.span("password"), "URL password")
        elif (found := _TOKEN_AS_USER.match(data, at + 1)) is not None and is_random(found["token"]):
            yield SecretSpan(*found.span("token"), "URL token")
        at = data.find(b"://", at + 3)


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


def _find_cookies(header: re.Match[bytes]) -> Iterator[SecretSpan]:
    start = header.start("pairs")
    for pair in _COOKIE.finditer(header["pairs"]):
        name, value = pair["name"], pair["value"]
        if _ATTRIBUTE.match(name) is not None or is_placeholder(value):
            continue
        if is_random(value) or (_SESSION.search(name) is not None and looks_chosen(value)):
            first, last = pair.span("value")
            yield SecretSpan(start + first, start + last, "cookie")


def _is_password(user: bytes, password: bytes) -> bool:
    is_default = password == user and password.isalpha()
    return not is_default and _NO_PASSWORD.match(password) is None and not is_placeholder(password)
