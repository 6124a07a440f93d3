"""Expands `~` and file name patterns as the shell does, against the files that exist now."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from posixpath import expanduser, join

from ....actions.tools.shell.language.programs.steps import MarkedWord, UnclearWord, quote_word

_MAX_MATCHES = 1000
_OTHER_MEANING = re.compile(r"dotglob|extglob|globstar|nocase|nullglob|failglob|noglob|posix")
_INEXACT = re.compile(r"\[[!^]|\[.*-")
_BRACKET = re.compile(r"\[([!^]?)(\][^\]]*|[^\]]+)\]")


def expand_files(word: MarkedWord, here: str) -> tuple[list[str], bool]:
    """Return the shell's expansion of one word in a folder, and whether it depends on existing files.

    Raises `UnclearWord` if the expansion cannot be known.
    """
    word = expand_tilde(word)
    if not word.is_pattern():
        return [word.text], False
    _require_plain_shell(word)
    found: list[str] = []
    for name in _matches(word, here):
        found.append(name)
        if len(found) > _MAX_MATCHES:
            raise UnclearWord("its file name pattern means too many files to look through")
    # A pattern without a match stays unchanged. An inexact pattern may have no match in some shells.
    return sorted(found) if _is_exact(word, found) else [*sorted(found), word.text], True


def _is_exact(word: MarkedWord, found: Sequence[str]) -> bool:
    """Return whether every shell in every locale finds at least one of these names."""
    plain = (name for name in found if name.isascii() and not {".", ".."} & set(name.split("/")))
    return not _INEXACT.search(word.text) and any(plain)


def expand_tilde(word: MarkedWord) -> MarkedWord:
    """Replace `~` by the home folder. After `=` and `:` it counts where bash may see an assignment."""
    places = [at for at in range(len(word.text)) if word.is_active(at, "~")]
    for at in places:
        if at and word.is_active(at - 1, "=:"):
            raise UnclearWord(f"the folder that `~` means is not known: {word.text}")
    if 0 not in places:
        return word
    if len(word.text) > 1 and not word.is_active(1, "/"):
        raise UnclearWord(f"the folder that `~` means is not known: {word.text}")
    home = quote_word(expanduser("~"))
    return MarkedWord(home.text + word.text[1:], home.marks + word.marks[1:])


def _require_plain_shell(word: MarkedWord) -> None:
    set_options = os.environ.get("BASHOPTS", "") + os.environ.get("SHELLOPTS", "")
    if _OTHER_MEANING.search(set_options) or "GLOBIGNORE" in os.environ or "BASH_ENV" in os.environ:
        raise UnclearWord(f"the meaning of its file name pattern is not known: {word.text}")


def _matches(word: MarkedWord, here: str) -> Iterator[str]:
    """Yield the matching names in the form that the shell writes them."""
    parts = _split(word)
    waiting: list[tuple[str, Sequence[MarkedWord]]] = [("", parts)]
    while waiting:
        begun, left = waiting.pop()
        part, rest = left[0], left[1:]
        if not part.is_pattern():
            path = begun + part.text + ("/" if rest else "")
            if rest:
                waiting.append((path, rest))
            elif os.path.lexists(join(here, path)):
                yield path
            continue
        fits = _compile_part(part)
        for name in _names(join(here, begun), part.text.startswith(".")):
            if not fits(name):
                continue
            if rest:
                waiting.append((f"{begun}{name}/", rest))
            else:
                yield begun + name


def _split(word: MarkedWord) -> list[MarkedWord]:
    cuts = [-1, *(at for at, character in enumerate(word.text) if character == "/"), len(word.text)]
    return [word.cut(a + 1, b) for a, b in itertools.pairwise(cuts)]


def _names(folder: str, with_hidden: bool) -> Iterator[str]:
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208 -- names as text, and quickly
    except OSError:
        return
    if with_hidden:
        # Older shells let `.*` match the folder itself and its parent, too.
        yield from (".", "..")
    yield from (name for name in names if with_hidden or not name.startswith("."))


class _Fits:
    """Tests whether a name matches one part of a pattern. If that is uncertain, the test is true."""

    def __init__(self, exact: str, wide: str) -> None:
        self._exact = re.compile(exact, re.DOTALL)
        self._wide = re.compile(wide, re.DOTALL)

    def __call__(self, name: str) -> bool:
        # The locale decides how many characters a name has that is not ASCII.
        return (self._exact if name.isascii() else self._wide).fullmatch(name) is not None


def _compile_part(part: MarkedWord) -> _Fits:
    exact: list[str] = []
    wide: list[str] = []
    at = 0
    while at < len(part.text):
        if not part.is_active(at, "*?["):
            exact.append(re.escape(part.text[at]))
            wide.append(re.escape(part.text[at]))
            at += 1
        elif part.text[at] == "[":
            piece, at = _bracket(part, at)
            exact.append(piece)
            wide.append(".*")
        else:
            exact.append(".*" if part.text[at] == "*" else ".")
            wide.append(".*")
            at += 1
    return _Fits("".join(exact), "".join(wide))


def _bracket(part: MarkedWord, at: int) -> tuple[str, int]:
    """Return the regular expression of a set such as `[abc]`, and its end. Ranges and negations depend on the
    locale, so they may match any character."""
    found = _BRACKET.match(part.text, at)
    if found is None or set(part.marks[at : found.end()]) != {"p"} or "[" in found[2] or "\\" in found[2]:
        raise UnclearWord(f"the meaning of its file name pattern is not known: {part.text}")
    if found[1] or "-" in found[2]:
        return ".", found.end()
    return f"[{re.escape(found[2])}]", found.end()
