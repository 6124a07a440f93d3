"""Matches rules with shell commands: an allow rule has to match for certain, a deny rule only possibly."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import basename

from ....actions.tools.shell.language.parser import ShellReader, SimpleCommand
from ..shell.far_options import is_far_reaching
from ..shell.seen_commands import MAX_CHARS, SeenCommand, Sight, look
from .path_rules import translate_token
from .rules import Rule

_OPTION_LETTERS = {
    "--recursive": "rR",
    "--force": "f",
    "--interactive": "i",
    "--verbose": "v",
    "--dir": "d",
    "--all": "a",
    "--delete": "d",
    "--hard": "",
    "--global": "g",
}
_WORD_STAR = re.compile(r"(?<!\S)[\w-]*\w\*(?=\s|$)", re.ASCII)
_MARK = "\0"
_MEANINGS = {"*": ".*", "?": "."}


def read_commands(text: str) -> tuple[Sequence[SimpleCommand], Sequence[str]]:
    """Return the simple commands of a text, and the reasons why the text may do more."""
    if len(text) > MAX_CHARS:
        return (), ("it is too long",)
    reader = ShellReader(text)
    reader.read()
    return reader.commands, list(reader.doubts)


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Return whether an allow pattern covers one simple command."""
    if command.expands and pattern.find("*") != len(pattern) - 1 and command.words[0] != "[":
        # The expansion of a file name pattern is unknown. Only a trailing `*` of the rule covers it.
        return False
    # A match takes less time than the check of the options, and most rules do not match.
    quoted = _quote_words(tuple(command.words))
    is_match = _matches_words(pattern, quoted) or _matches_words(pattern, command.source)
    return is_match and not is_far_reaching(command.words, pattern)


def select_possible(rules: Iterable[Rule], commands: Sequence[SimpleCommand]) -> list[Rule]:
    """Return the rules that may cover one of the commands, by the first words of both."""
    firsts = {word for one in commands for word in (_quote_words(tuple(one.words)), one.source)}
    firsts = {"", *(text.partition(" ")[0] for text in firsts)}
    return [rule for rule in rules if _first_word_of(rule.pattern or "") in firsts]


@lru_cache(maxsize=1024)
def _first_word_of(pattern: str) -> str:
    """Return the word that begins all texts that a pattern matches; empty if there is none."""
    word = pattern.partition(" ")[0]
    return word if re.fullmatch(r"[\w./+-]+", word) else ""


@lru_cache(maxsize=64)
def _quote_words(words: tuple[str, ...]) -> str:
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Return a word in quotes if it needs them, so that `"a b"` never matches `a b`."""
    return word if word and not re.search(r"[\s'\"\\]", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _matches_words(pattern: str, command: str) -> bool:
    """Match a glob. A `*` after a space does not match the rest of the word before."""
    return _by_words(pattern).fullmatch(command) is not None


@lru_cache(maxsize=512)
def _by_words(pattern: str) -> re.Pattern[str]:
    pattern = re.sub(r" \*$", _MARK, pattern)
    pattern = _WORD_STAR.sub(lambda found: found[0][:-1] + _MARK, pattern)
    return re.compile("(?s:" + r"(?: .*)?".join(map(_glob, pattern.split(_MARK))) + ")")


def _glob(piece: str) -> str:
    """Return the regular expression of one piece of a glob. A `*` matches every character of a command."""
    token = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
    return "".join(translate_token(each, _MEANINGS) for each in token.findall(piece))


def hits(pattern: str, text: str, sight: Sight | None = None) -> bool:
    """Return whether a deny pattern matches the text, or any command found in it."""
    if len(text) > MAX_CHARS:
        return True
    if fnmatchcase(" ".join(text.split()), pattern):
        return True
    first, blank, rest = pattern.partition(" ")
    patterns = {pattern}
    if "/" in first and not any(character in first for character in "*?["):
        patterns.add(basename(first) + blank + rest)
    commands = (sight or look(text)).commands
    return any(_hits_command(one, command) for command in commands for one in patterns)


def _hits_command(pattern: str, command: SeenCommand) -> bool:
    return any(_matches(pattern, candidate) for candidate in _spellings(command)) or _has_options(
        pattern, command.words
    )


def _matches(pattern: str, command: str) -> bool:
    """Compare as a glob. A trailing ` *` also matches the command without arguments."""
    return fnmatchcase(command, pattern) or (pattern.endswith(" *") and fnmatchcase(command, pattern[:-2]))


def _spellings(command: SeenCommand) -> Iterator[str]:
    """Yield the command as written, without the folder of its program, and without its leading options."""
    words = command.words
    if command.source:
        yield command.source
    yield " ".join(words)
    for start in _argument_starts(words):
        yield " ".join((command.program, *words[start:]))


def _argument_starts(words: tuple[str, ...]) -> Iterable[int]:
    """Yield 1, and each position after leading options, which may have a value: `git -C folder push`."""
    yield 1
    for at in range(1, min(len(words), 9)):
        if not words[at].startswith("-") and not words[at - 1].startswith("-"):
            break
        yield at + 1


def _has_options(pattern: str, words: tuple[str, ...]) -> bool:
    """Return whether the command has the options of the pattern, in any order and spelling."""
    wanted = pattern.split()
    options = [word for word in wanted[1:] if word.startswith("-")]
    if not options or basename(words[0]) != basename(wanted[0]):
        return False
    given = [word for word in words[1:] if word.startswith("-")]
    if not all(_is_given(option, given) for option in options):
        return False
    operands = " ".join(word for word in wanted[1:] if not word.startswith("-"))
    if wanted[-1].startswith("-") and wanted[-1].endswith("*"):
        operands = f"{operands} *".lstrip()
    rest = " ".join(word for word in words[1:] if not word.startswith("-"))
    return _matches(operands, rest)


def _is_given(option: str, given: Sequence[str]) -> bool:
    if any(fnmatchcase(word, option) for word in given):
        return True
    letters = set("".join(word[1:] if word[:2] != "--" else _expand_abbreviation(word) for word in given))
    wanted = _letters(option.rstrip("*"))
    return bool(wanted) and all(letters.intersection(same) for same in wanted)


def _letters(option: str) -> list[str]:
    """Return the letters of an option; each is a text with the letter and its synonyms."""
    if option.startswith("--"):
        same = _OPTION_LETTERS.get(option, "")
        return [same] if same else []
    return ["rR" if letter in "rR" else letter for letter in option[1:]]


def _expand_abbreviation(word: str) -> str:
    return "".join(same for name, same in _OPTION_LETTERS.items() if len(word) > 3 and name.startswith(word))
