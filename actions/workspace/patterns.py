"""Matches file name patterns with `*`, `?`, `[...]`, `{a,b}` and `**` against relative paths."""

import re
from collections.abc import Sequence
from functools import lru_cache

from .paths import FileProblem

_MOST_ALTERNATIVES = 200
_WILD = re.compile(r"[*?\[{]")
_TOKEN = re.compile(r"\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)
_SPECIAL_IN_CLASS = re.compile(r"[\[\]\\&~|^]")


class BadPattern(FileProblem):
    """The pattern is not valid. The message is for the model."""


class PathPattern:
    """Matches relative paths. A pattern without a slash matches the last name at any depth."""

    def __init__(self, pattern: str) -> None:
        alternatives = [_normalize(text) for text in expand_braces(pattern)]
        self._alternatives = [compile_pattern(text) for text in dict.fromkeys(alternatives)]
        self.reaches_hidden = any(part.startswith(".") for text in alternatives for part in text.split("/"))
        """Whether the pattern itself names hidden entries, which searches leave out otherwise."""

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(matches_parts(parts, names) for parts in self._alternatives)


def split_fixed(pattern: str) -> tuple[str, str]:
    """Split off the leading folders that contain no wildcard: `/a/b/*.py` becomes `/a/b/` and `*.py`."""
    found = _WILD.search(pattern)
    end = pattern.rfind("/", 0, found.start() if found else len(pattern)) + 1
    return pattern[:end], pattern[end:]


def _normalize(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    if pattern.endswith("/**"):
        pattern += "/*"
    anchored = pattern if "/" in pattern else f"**/{pattern}"
    while anchored.startswith("./"):
        anchored = anchored[2:]
    return anchored


def expand_braces(pattern: str) -> list[str]:
    """Expand the braces: `a.{b,c}` becomes `a.b` and `a.c`."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise BadPattern(f"the pattern has more than {_MOST_ALTERNATIVES} alternatives")
        text = waiting.pop()
        if braces := _innermost_braces(text):
            start, end = braces
            options = text[start + 1 : end].split(",")
            waiting.extend(text[:start] + option + text[end + 1 :] for option in options)
        else:
            done.append(text)
    return done


def _innermost_braces(text: str) -> tuple[int, int] | None:
    end = text.find("}")
    start = text.rfind("{", 0, end) if end >= 0 else -1
    return (start, end) if start >= 0 else None


Parts = Sequence[re.Pattern[str] | None]
"""The components of a pattern without braces. None means `**`."""


def compile_pattern(pattern: str) -> Parts:
    return [None if part == "**" else _compile_component(part) for part in pattern.split("/") if part]


def matches_parts(parts: Parts, names: Sequence[str]) -> bool:
    """Return whether the names match. Only the last `**` is tried with more names, so the match is fast."""
    at = name = widened = 0
    star = -1
    while name < len(names):
        part = parts[at] if at < len(parts) else None
        if at < len(parts) and part is None:
            star, widened, at = at, name, at + 1
        elif part is not None and part.match(names[name]):
            at, name = at + 1, name + 1
        elif star >= 0:
            widened += 1
            at, name = star + 1, widened
        else:
            return False
    return all(part is None for part in parts[at:])


@lru_cache(maxsize=256)
def _compile_component(text: str) -> re.Pattern[str]:
    first, *rest = ("".join(map(_translate_token, piece)) for piece in _split_at_stars(text))
    # Each star except the last matches the shortest possible text, without backtracking.
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    try:
        return re.compile(f"(?s:{first}{middle}{last})\\Z")
    except re.error as error:
        raise BadPattern(f"{text} cannot be read as a file name pattern ({error})") from None


def _split_at_stars(text: str) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token.startswith("*"):
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _translate_token(token: str) -> str:
    if token == "?":
        return "."
    if token[0] == "[" and len(token) > 1:
        negated = "^" if token[1] in "!^" else ""
        members = _SPECIAL_IN_CLASS.sub(r"\\\g<0>", token[2 if negated else 1 : -1])
        return f"[{negated}{members}]"
    return re.escape(token[-1])
