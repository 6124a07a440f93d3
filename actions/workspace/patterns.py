"""Matches file name patterns with `*`, `?`, `[...]`, `{a,b}` and `**` against relative paths."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from .paths import FileProblem

_MOST_ALTERNATIVES = 200
_WILD = re.compile(r"[*?\[{]")
_TOKEN = re.compile(r"\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)
_ANY_FOLDERS = "(?:[^/]*/)*?"
_SPECIAL_IN_CLASS = re.compile(r"[\[\]\\&~|^]")


class BadPattern(FileProblem):
    """The pattern is not valid. The message is for the model."""


class PathPattern:
    """Matches relative paths. A pattern without a slash matches the last name at any depth."""

    def __init__(self, pattern: str) -> None:
        alternatives = [_normalize(text) for text in expand_braces(pattern)]
        self._matchers = [compile_pattern(text) for text in dict.fromkeys(alternatives)]
        self.reaches_hidden = any(part.startswith(".") for text in alternatives for part in text.split("/"))
        """Whether the pattern itself names hidden entries, which searches leave out otherwise."""

    def matches(self, path: str) -> bool:
        return any(matches(path) for matches in self._matchers)

    def select(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that match."""
        if len(self._matchers) == 1:
            return list(filter(self._matchers[0], paths))
        return [path for path in paths if self.matches(path)]


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


Matcher = Callable[[str], object]
"""Returns a true value for a relative path that matches a pattern without braces."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Matcher:
    """Return the matcher of a pattern without braces. Raises `BadPattern`."""
    *runs, last = _split_at_double_stars(pattern)
    is_open = not last and bool(runs)
    if is_open:
        last = runs.pop()
    if not is_open and not last:
        return _match_nothing
    # Each `**` except the last skips as few folders as possible, without backtracking, so the match is fast.
    middle = "".join(f"(?>{_ANY_FOLDERS}{run})" for run in runs[1:])
    text = f"{runs[0]}{middle}{_ANY_FOLDERS}{last[:-1]}" if runs else last[:-1]
    end = "(?:/.*)?" if last else ".*"
    try:
        return re.compile(f"(?s:{text}{end if is_open else ''})\\Z").match
    except re.error as error:
        shown = pattern.removeprefix("**/")
        raise BadPattern(f"{shown} cannot be read as a file name pattern ({error})") from None


def _match_nothing(path: str) -> None:
    """Match no path."""


def _split_at_double_stars(pattern: str) -> list[str]:
    """Return the regular expressions of the components between `**`. Each component ends with a slash."""
    runs = [""]
    for part in filter(None, pattern.split("/")):
        if part != "**":
            runs[-1] += f"{_translate_component(part)}/"
        elif runs[-1] or len(runs) == 1:
            runs.append("")
    return runs


def _translate_component(text: str) -> str:
    first, *rest = ("".join(map(_translate_token, piece)) for piece in _split_at_stars(text))
    # Each star except the last matches the shortest possible text, without backtracking.
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1])
    last = f"[^/]*{rest[-1]}" if rest else ""
    return f"{first}{middle}{last}"


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
        return "[^/]"
    if token[0] == "[" and len(token) > 1:
        negated = "^" if token[1] in "!^" else ""
        members = _SPECIAL_IN_CLASS.sub(r"\\\g<0>", token[2 if negated else 1 : -1])
        return f"(?!/)[{negated}{members}]"
    return re.escape(token[-1])
