"""Judges whether a value that stands beside a telling name is a secret, or a placeholder, code or a word."""

import re

SHORTEST = 8
SHORTEST_PASSWORD = 6
"""Of a password that mixes letters and digits."""
_EXAMINED = 160

_PLACEHOLDER = re.compile(
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
_REFERENCE = re.compile(
    rb"""(?ix)
    [$&%@{}<>()\[\]\s] | \*\* | ![a-z]+$ | [.~]{0,2}/ | \\ | -- | [a-z][a-z0-9+.-]*://
    | (?:arn|sha\d+|env|file|keyring|ssm|vault|op|ref)[:+]
    | (?:true|false|none|null|nil|undefined|required|optional|disabled|enabled
      |string|boolean|integer|default)$
    | [\d\s.,:+-]*$ | \d{4}-\d\d-\d\d
    """
)
_NOT_BARE = re.compile(rb"[()\[\]{}<>\"'`]")
_DOTTED = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+[!?]?\Z")
_CHAINED = re.compile(rb"\w=[A-Za-z_$]\w*[.(=]")
_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*\Z")
_ENVIRONMENT_NAME = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
_CHANGES = re.compile(rb"(?=[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z])")
_LETTER = re.compile(rb"[A-Za-z]")
_DIGIT = re.compile(rb"[0-9]")
_SYMBOL = re.compile(rb"[!@#$%^&*+=?~]")
_PATH = re.compile(rb"[\w.@-]*/[\w.@/-]*\.[a-z]{1,5}\Z")
_PATTERN = re.compile(rb"\[\^?[\w-]|\(\?|\|\||&&|\\[dws]|%[sd]|\.\*|\.\+")


def is_random(value: bytes) -> bool:
    """Tell whether letters, digits and cases follow each other as in nothing that people write."""
    return len(value) >= 16 and _changes(value) >= max(3, min(len(value), _EXAMINED) // 5)


def is_placeholder(value: bytes) -> bool:
    return _PLACEHOLDER.search(value[:_EXAMINED]) is not None


def is_ruled_out(value: bytes, is_password: bool = False) -> bool:
    """Tell whether the value is a reference, a number, a placeholder: whatever its name, no secret."""
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
    """Tell whether letters are mixed with digits or symbols, as a password demands."""
    sample = value[:_EXAMINED]
    return _LETTER.search(sample) is not None and (
        _DIGIT.search(sample) is not None or _SYMBOL.search(sample) is not None
    )


def is_quoted_secret(value: bytes, is_password: bool) -> bool:
    """Judge a string literal."""
    if is_ruled_out(value, is_password) or _PATTERN.search(value[:_EXAMINED]) is not None:
        return False
    if is_random(value):
        return True
    if not looks_chosen(value) or b" " in value or _DOTTED.match(value) is not None:
        return False
    return is_password or _is_mixed(value)


def is_bare_secret(value: bytes, is_password: bool) -> bool:
    """Judge a value without quotes, which may well be code."""
    if not is_assigned_secret(value, is_password):
        return False
    if _IDENTIFIER.match(value) is not None:
        return _is_no_identifier(value, is_password)
    return is_random(value) or (looks_chosen(value) and (is_password or _is_mixed(value)))


def _is_no_identifier(value: bytes, is_password: bool) -> bool:
    """Tell whether what could be the name of a variable has too many digits and changes of case for one."""
    sample = value[:_EXAMINED]
    digits, changes = len(_DIGIT.findall(sample)), _changes(sample)
    if is_password and (min(digits, changes) >= 2 or (digits and changes >= 4)):
        return True
    return min(digits, changes) >= 3 or (digits > 0 and len(sample) >= 16 and changes * 4 >= len(sample))


def is_assigned_secret(value: bytes, is_password: bool = False) -> bool:
    """Judge what a shell variable with a telling name is set to: a plain word is a password, too."""
    sample = value[:_EXAMINED]
    if (
        is_ruled_out(value, is_password)
        or _NOT_BARE.search(sample) is not None
        or _CHAINED.search(sample) is not None
    ):
        return False
    return _DOTTED.match(value) is None or is_random(value)


def _changes(value: bytes) -> int:
    return len(_CHANGES.findall(value[:_EXAMINED]))


def _is_mixed(value: bytes) -> bool:
    sample = value[:_EXAMINED]
    return _DIGIT.search(sample) is not None and (
        _changes(sample) >= 2 or _SYMBOL.search(sample) is not None or len(sample) >= 16
    )
