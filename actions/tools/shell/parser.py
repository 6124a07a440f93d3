"""Split shell text into simple commands, and name everything that keeps them from being proved simple.

This is no shell: it errs towards doubt. Who wants to allow must refuse any doubt; who wants to deny looks at
every command found, also those inside substitutions, subshells and control structures.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_QUOTED = re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL)
_INVISIBLE_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"


def ansi_quoted(text: str, start: int) -> tuple[str, int]:
    """Return the decoded text from `start`, just after `$'`, and where its closing quote is."""
    found = _QUOTED.match(text, start)
    end = found.end() if found else len(text)
    return _ESCAPE.sub(_unescaped, text[start:end]), end


def is_visible(character: str) -> bool:
    return (character.isprintable() or character in "\t\n") and character not in _INVISIBLE_LETTERS


def _unescaped(found: re.Match[str]) -> str:
    hexadecimal, octal = found[1] or found[2], found[3]
    if hexadecimal or octal:
        return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[4], found[4])


_RESERVED = frozenset((
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "in", "function", "coproc", "!", "{", "}", "[[", "]]",
))  # fmt: skip
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+:@%,-]+", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-?|<>|>>|>\||>&|<&|<|>")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_FILE_NUMBER = re.compile(r"[0-9]+")
_SEPARATOR = re.compile(r"&&|\|\||\|&|;;&?|;&|[;|&\n]")
_MAX_VALUE_CHARS = 256
_MAX_DEPTH = 100
_BLANKS = " \t"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    words: tuple[str, ...]
    """Without quotes; never empty."""
    source: str
    """As written, with single spaces between words and without redirections."""
    expands: bool
    """An argument holds a file name pattern or `~`."""


@dataclass(slots=True)
class _Frame:
    """One level of nesting: the command being read there."""

    opened_by: str = ""
    in_quotes: bool = False
    words: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each as (unquoted, as written)."""
    word: list[str] | None = None
    word_start: int = 0
    redirection: str = ""
    """The operator whose target comes next."""
    expands: bool = False


class ShellReader:
    """A character machine with an explicit stack, so that deep nesting costs memory and never recursion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[SimpleCommand] = []
        self.doubts: dict[str, None] = {}
        self.variables: dict[str, str] = {}
        self.frame = _Frame()
        self.outer: list[_Frame] = []
        self.readers: dict[str, Callable[[], None]] = {
            "\\": self._escape,
            "'": self._single_quotes,
            '"': self._double_quote,
            "$": self._dollar,
            "`": self._backtick,
            "#": self._hash,
            "(": self._open,
            ")": self._close,
            "&": self._ampersand,
            **dict.fromkeys("<>", self._redirection),
            **dict.fromkeys(";|\n", self._separator),
        }

    def read(self) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.frame.in_quotes:
                self._inside_quotes(character)
            elif character in _BLANKS:
                self._end_word()
                self.at += 1
            else:
                self.readers.get(character, self._ordinary)()
        while self.outer:
            self._doubt("a quote or bracket is not closed")
            self._leave()
        if self.frame.in_quotes:
            self._doubt("a quote or bracket is not closed")
        self._end_command()

    def _doubt(self, reason: str) -> None:
        self.doubts[reason] = None

    def _add(self, text: str) -> None:
        if self.frame.word is None:
            self.frame.word, self.frame.word_start = [], self.at
        self.frame.word.append(text)

    def _ordinary(self) -> None:
        character = self.text[self.at]
        if character in "*?[~":
            self.frame.expands = True
        elif character in "{}":
            self._doubt("it holds braces")
        self._check_visible(character)
        self._add(character)
        self.at += 1

    def _check_visible(self, character: str) -> None:
        if not is_visible(character):
            self._doubt("it holds an invisible character")

    def _escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if not following:
            self._doubt("it ends with a backslash")
        elif following == "`" and self.frame.opened_by == "`":
            self._end_command()
        elif following != "\n":
            self._check_visible(following)
            self._add(following)
        self.at += 2

    def _single_quotes(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._doubt("a quote or bracket is not closed")
            end = len(self.text)
        quoted = self.text[self.at + 1 : end]
        for character in quoted:
            self._check_visible(character)
        self._add(quoted)
        self.at = end + 1

    def _double_quote(self) -> None:
        self._add("")
        self.frame.in_quotes = not self.frame.in_quotes
        self.at += 1

    def _inside_quotes(self, character: str) -> None:
        if character == '"':
            self._double_quote()
        elif character == "$":
            self._dollar()
        elif character == "`":
            self._backtick()
        elif character == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
            self._escape()
        else:
            self._check_visible(character)
            self._add(character)
            self.at += 1

    def _dollar(self) -> None:
        self._doubt("it holds a variable or substitution")
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            self._add("$()")
            self._enter("(", 2)
        elif following == "'" and not self.frame.in_quotes:
            self._ansi_quotes()
        elif variable := _VARIABLE.match(self.text, self.at):
            self._variable(variable)
        else:
            self._add("$" if following != '"' else "")
            self.at += 1

    def _variable(self, found: re.Match[str]) -> None:
        """Put in the value of a variable that the same text set, so that it cannot hide a command."""
        value = self.variables.get(found[1] or found[2])
        pieces = [found[0]] if value is None else value.split() or [""]
        for number, piece in enumerate(pieces):
            if number:
                self._end_word()
            self._add(piece)
        self.at = found.end()

    def _ansi_quotes(self) -> None:
        decoded, end = ansi_quoted(self.text, self.at + 2)
        self._add(decoded)
        self.at = end + 1

    def _backtick(self) -> None:
        self._doubt("it holds a variable or substitution")
        if self.frame.opened_by == "`":
            self._leave()
            self.at += 1
        else:
            self._add("$()")
            self._enter("`", 1)

    def _enter(self, opened_by: str, length: int) -> None:
        if len(self.outer) < _MAX_DEPTH:
            self.outer.append(self.frame)
            self.frame = _Frame(opened_by)
        else:
            self._end_command()
        self.at += length

    def _leave(self) -> None:
        self._end_command()
        self.frame = self.outer.pop()

    def _hash(self) -> None:
        if self.frame.word is not None:
            self._ordinary()
            return
        self._doubt("it holds a comment")
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _open(self) -> None:
        self._doubt("it holds a subshell or function")
        self._end_command()
        self._enter("(", 1)

    def _close(self) -> None:
        self._doubt("it holds a subshell or function")
        if self.frame.opened_by == "(":
            self._leave()
        else:
            self._end_command()
        self.at += 1

    def _ampersand(self) -> None:
        if self.text.startswith("&>", self.at):
            self._redirection()
            return
        if not self.text.startswith("&&", self.at):
            self._doubt("it starts something in the background")
        self._separator()

    def _separator(self) -> None:
        found = _SEPARATOR.match(self.text, self.at)
        self._end_command()
        self.at = found.end() if found else self.at + 1

    def _redirection(self) -> None:
        frame = self.frame
        if frame.word is not None and _FILE_NUMBER.fullmatch(self.text, frame.word_start, self.at):
            frame.word = None
        self._end_word()
        found = _REDIRECTION.match(self.text, self.at)
        operator = found[0] if found else ">"
        self.at += len(operator)
        if self.text.startswith("(", self.at):
            self._doubt("it holds a process substitution")
        else:
            self.frame.redirection = operator

    def _end_word(self) -> None:
        frame = self.frame
        if frame.word is None:
            return
        word = "".join(frame.word)
        if frame.redirection:
            self._judge_redirection(frame.redirection, word)
            frame.redirection = ""
        else:
            frame.words.append((word, self.text[frame.word_start : self.at].replace("\\\n", "")))
        frame.word = None

    def _judge_redirection(self, operator: str, target: str) -> None:
        duplicates = operator == ">&" and target in ("1", "2")
        discards = operator in ("<", ">", ">>", "&>", "&>>") and target == "/dev/null"
        if not duplicates and not discards:
            self._doubt("it redirects to or from a file")

    def _end_command(self) -> None:
        self._end_word()
        frame = self.frame
        if frame.redirection:
            self._doubt("a redirection has no target")
        words = self._without_prefixes(frame.words)
        if words:
            if not _PLAIN_NAME.fullmatch(words[0][0]):
                self._doubt("the name of a command is not plain")
            source = " ".join(written for _, written in words)
            self.commands.append(SimpleCommand(tuple(word for word, _ in words), source, frame.expands))
        frame.words, frame.redirection, frame.expands = [], "", False

    def _without_prefixes(self, words: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Drop control words and assignments in front of the command's name."""
        start = 0
        for word, _ in words:
            if assignment := _ASSIGNMENT.match(word):
                self.variables[assignment[1]] = word[assignment.end() :][:_MAX_VALUE_CHARS]
                self._doubt("it sets a variable")
            elif word in _RESERVED:
                self._doubt("it holds a control structure")
            else:
                break
            start += 1
        return words[start:]
