"""Splits shell text into simple commands, and reports every construct that makes the result uncertain.

This is not a complete shell parser: if it is uncertain, it reports a doubt. A caller that allows commands
must refuse any doubt. A caller that denies commands must check every command that is found, including those
in substitutions, subshells and control structures.
"""

import re
from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple

from .....state.lazy_dataclass import dataclass

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_QUOTED = re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL)
_INVISIBLE_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"


def ansi_quoted(text: str, start: int) -> tuple[str, int]:
    """Decode the text after `$'`, which begins at `start`; return it with its closing quote's position."""
    found = _QUOTED.match(text, start)
    end = found.end() if found else len(text)
    return _ESCAPE.sub(_unescape, text[start:end]), end


def is_visible(character: str) -> bool:
    return (character.isprintable() or character in "\t\n") and character not in _INVISIBLE_LETTERS


def _unescape(found: re.Match[str]) -> str:
    hexadecimal, octal = found[1] or found[2], found[3]
    if hexadecimal or octal:
        return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[4], found[4])


_RESERVED = frozenset((
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "in", "function", "coproc", "!", "{", "}", "[[", "]]",
))  # fmt: skip
_COMPOUND = frozenset(("{", "[[", "if", "for", "while", "until", "case", "select"))
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+:@%,-]+", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-?|<>|>>|>\||>&|<&|<|>")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_FILE_NUMBER = re.compile(r"[0-9]+")
_SEPARATOR = re.compile(r"&&|\|\||\|&|;;&?|;&|[;|&\n]")
_MAX_VALUE_CHARS = 256
_MAX_DEPTH = 100
_BLANKS = " \t"
_CONTINUED = ("&&", "||", "|", "|&")
_HERE = "<<"
READS_A_FILE = "it reads from a file"
"""The only doubt that does not matter if the caller knows which files may be read."""
SUBSTITUTED_FILE = "/dev/fd/63"
"""The word that replaces `<(...)`."""
HOLDS_VARIABLE = "it holds a variable"
HOLDS_BRACES = "it holds braces"
HOLDS_SUBSHELL = "it holds a subshell"
HOLDS_CONTROL = "it holds a control structure"
PLAIN, QUOTED, VARIABLE, QUOTED_VARIABLE, SUBSTITUTION = "pqvVs"
"""The origin of a character in a word. A word has one such mark for each character."""


@dataclass(slots=True)
class Redirection:
    operator: str
    target: str
    is_computed: bool = False
    text: str = ""
    """The text of a here-document or here-string."""
    marks: str = ""
    """The origin of each character of the target."""


class Word(NamedTuple):
    text: str
    """The text of the word without quotes."""
    source: str
    is_computed: bool
    """Whether the shell computes the word from a variable, a substitution, braces or a file name pattern."""
    marks: str = ""
    """The origin of each character of the text: `PLAIN`, `QUOTED`, ..."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    words: tuple[str, ...]
    """The words without quotes. There is at least one."""
    source: str
    """The command as written, with single spaces between words and without redirections."""
    expands: bool
    """Whether an argument contains a file name pattern or `~`."""
    computed: tuple[bool, ...] = ()
    """For each word, whether the shell computes it."""
    redirections: tuple[Redirection, ...] = ()
    joint: str = ""
    """The operator between this command and the command before it: `&&`, `|`, ..."""
    reads_pipe: bool = False
    marks: tuple[str, ...] = ()
    """For each word, the origin of its characters."""


class Part(NamedTuple):
    """The text between two separators; control structures consist of such parts."""

    control: tuple[str, ...]
    """The reserved words in front of the command: `do`, `!`, ..."""
    command: SimpleCommand | None
    joint: str
    bracket: str = ""
    """`(` or `)`, which are parts of their own; empty for other parts."""


@dataclass(slots=True)
class _Frame:
    """One level of nesting, with the command that is read there."""

    opened_by: str = ""
    in_quotes: bool = False
    is_group: bool = False
    """Whether the level is a subshell."""
    words: list[Word] = field(default_factory=list[Word])
    word: list[str] | None = None
    marks: list[str] = field(default_factory=list[str])
    """The marks of the current word."""
    word_start: int = 0
    redirection: str = ""
    """The operator whose target is read next."""
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    expands: bool = False
    is_computed: bool = False
    """Whether the shell computes the current word."""
    joint: str = ""
    reads_pipe: bool = False
    keeps_pipe: bool = False
    """Whether a compound command reads the pipe. Then every command in it may read the pipe."""


@dataclass(slots=True)
class _HereDocument:
    """A here-document whose text begins after the end of the line."""

    redirection: Redirection
    is_plain: bool
    """Whether its end word is quoted, so that its text has no special characters."""


class ShellReader:
    """A parser that reads one character after another. It has a stack of its own instead of recursion, so
    deep nesting needs only memory.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[SimpleCommand] = []
        self.parts: list[Part] = []
        self.doubts: dict[str, None] = {}
        self.variables: dict[str, str] = {}
        self.assigned: list[tuple[str, str]] = []
        self.frame = _Frame()
        self.outer: list[_Frame] = []
        self.here_documents: list[_HereDocument] = []
        self.readers: dict[str, Callable[[], None]] = {
            "\\": self._escape,
            "'": self._read_single_quotes,
            '"': self._read_double_quote,
            "$": self._read_dollar,
            "`": self._read_backtick,
            "#": self._hash,
            "(": self._open,
            ")": self._close,
            "&": self._read_ampersand,
            **dict.fromkeys("<>", self._read_redirection),
            **dict.fromkeys(";|", self._read_separator),
            "\n": self._end_line,
        }

    def read(self) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.frame.in_quotes:
                self._read_inside_quotes(character)
            elif character in _BLANKS:
                self._end_word()
                self.at += 1
            else:
                self.readers.get(character, self._read_ordinary)()
        while self.outer:
            self._doubt("a quote or bracket is not closed")
            self._leave()
        if self.frame.in_quotes:
            self._doubt("a quote or bracket is not closed")
        self._end_command()

    def _doubt(self, reason: str) -> None:
        self.doubts[reason] = None

    def _add(self, text: str, mark: str = PLAIN) -> None:
        frame = self.frame
        if frame.word is None:
            frame.word, frame.word_start, frame.marks = [], self.at, []
        frame.word.append(text)
        frame.marks.append((QUOTED if frame.in_quotes and mark == PLAIN else mark) * len(text))

    def _read_ordinary(self) -> None:
        character = self.text[self.at]
        if character in "*?[~":
            self.frame.expands = True
            self.frame.is_computed |= character != "~"
        elif character in "{}":
            self._doubt(HOLDS_BRACES)
            self.frame.is_computed |= character == "{" and not self.text.startswith("{}", self.at)
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
            self._add(following, QUOTED)
        self.at += 2

    def _read_single_quotes(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._doubt("a quote or bracket is not closed")
            end = len(self.text)
        quoted = self.text[self.at + 1 : end]
        for character in quoted:
            self._check_visible(character)
        self._add(quoted, QUOTED)
        self.at = end + 1

    def _read_double_quote(self) -> None:
        self._add("")
        self.frame.in_quotes = not self.frame.in_quotes
        self.at += 1

    def _read_inside_quotes(self, character: str) -> None:
        if character == '"' and self.frame.opened_by != _HERE:
            self._read_double_quote()
        elif character == "$":
            self._read_dollar()
        elif character == "`":
            self._read_backtick()
        elif character == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
            self._escape()
        else:
            self._check_visible(character)
            self._add(character)
            self.at += 1

    def _read_dollar(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        variable = _VARIABLE.match(self.text, self.at)
        self._doubt(HOLDS_VARIABLE if variable else "it holds a variable or substitution")
        self.frame.is_computed |= following not in ("'", '"')
        if following == "(":
            self._add("$()", SUBSTITUTION)
            self._enter("(", 2)
        elif following == "'" and not self.frame.in_quotes:
            self._ansi_quotes()
        elif variable:
            self._read_variable(variable)
        else:
            self._add("$" if following != '"' else "", SUBSTITUTION)
            self.at += 1

    def _read_variable(self, found: re.Match[str]) -> None:
        """Insert the value of a variable that the same text set, so that the variable cannot hide a
        command.
        """
        value = self.variables.get(found[1] or found[2])
        pieces = [found[0]] if value is None else value.split() or [""]
        mark = QUOTED_VARIABLE if self.frame.in_quotes else VARIABLE
        for number, piece in enumerate(pieces):
            if number:
                self._end_word()
            self._add(piece, mark if value is None else SUBSTITUTION)
            self.frame.is_computed = True
        self.at = found.end()

    def _ansi_quotes(self) -> None:
        decoded, end = ansi_quoted(self.text, self.at + 2)
        self._add(decoded, QUOTED)
        self.at = end + 1

    def _read_backtick(self) -> None:
        self._doubt("it holds a variable or substitution")
        self.frame.is_computed = True
        if self.frame.opened_by == "`":
            self._leave()
            self.at += 1
        else:
            self._add("$()", SUBSTITUTION)
            self._enter("`", 1)

    def _enter(self, opened_by: str, length: int) -> None:
        if len(self.outer) < _MAX_DEPTH:
            pipe = self.frame.reads_pipe and opened_by == "(" and self.frame.word is None
            self.outer.append(self.frame)
            self.frame = _Frame(opened_by, reads_pipe=pipe, keeps_pipe=pipe)
        else:
            self._doubt("it is too deeply nested")
            self._end_command()
        self.at += length

    def _leave(self) -> None:
        self._end_command()
        self.frame = self.outer.pop()

    def _hash(self) -> None:
        if self.frame.word is not None:
            self._read_ordinary()
            return
        self._doubt("it holds a comment")
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _open(self) -> None:
        frame = self.frame
        is_group = frame.word is None and all(word.text in _RESERVED for word in frame.words)
        is_group = is_group and not (frame.redirections or self.text.startswith("((", self.at))
        self._doubt(HOLDS_SUBSHELL if is_group else "it holds a function or arithmetic")
        joint = frame.joint
        self._end_command()
        self.parts.append(Part((), None, joint, "("))
        frame.joint = ""
        self._enter("(", 1)
        self.frame.is_group = is_group

    def _close(self) -> None:
        self._doubt(HOLDS_SUBSHELL)
        is_group = self.frame.is_group
        if self.frame.opened_by == "(":
            self._leave()
        else:
            self._end_command()
        if is_group:
            self.parts.append(Part((), None, "", ")"))
        self.at += 1

    def _read_ampersand(self) -> None:
        if self.text.startswith("&>", self.at):
            self._read_redirection()
            return
        if not self.text.startswith("&&", self.at):
            self._doubt("it starts something in the background")
        self._read_separator()

    def _read_separator(self) -> None:
        found = _SEPARATOR.match(self.text, self.at)
        self._end_command()
        joint = found[0] if found else ";"
        # After an operator, the end of a line does not end the command.
        if joint != "\n" or self.frame.joint not in _CONTINUED:
            self.frame.joint = joint
        self.frame.reads_pipe |= joint in ("|", "|&")
        self.at += len(joint)

    def _end_line(self) -> None:
        self._read_separator()
        waiting, self.here_documents = self.here_documents, []
        for one in waiting:
            self._read_here_document(one)

    def _read_here_document(self, one: _HereDocument) -> None:
        end, redirection = one.redirection.target, one.redirection
        lines: list[str] = []
        while self.at < len(self.text):
            line, _, _ = self.text[self.at :].partition("\n")
            self.at = min(self.at + len(line) + 1, len(self.text))
            if (line.lstrip("\t") if redirection.operator == "<<-" else line) == end:
                break
            lines.append(line)
        redirection.text = "\n".join(lines)
        if not one.is_plain and ("$" in redirection.text or "`" in redirection.text):
            inner = ShellReader(redirection.text)
            inner.frame = _Frame(_HERE, in_quotes=True)
            inner.read()
            redirection.is_computed = True
            # The last command of the level is the text itself.
            self.commands += inner.commands[:-1]

    def _read_redirection(self) -> None:
        frame = self.frame
        if frame.word is not None and _FILE_NUMBER.fullmatch(self.text, frame.word_start, self.at):
            frame.word = None
        self._end_word()
        found = _REDIRECTION.match(self.text, self.at)
        operator = found[0] if found else ">"
        self.at += len(operator)
        if self.text.startswith("(", self.at):
            self._doubt("it holds a process substitution")
            self._add(SUBSTITUTED_FILE, SUBSTITUTION)
            frame.is_computed = True
        else:
            self.frame.redirection = operator

    def _end_word(self) -> None:
        frame = self.frame
        if frame.word is None:
            return
        word = "".join(frame.word)
        source = self.text[frame.word_start : self.at].replace("\\\n", "")
        marks = "".join(frame.marks)
        if frame.redirection:
            self._redirect(Redirection(frame.redirection, word, frame.is_computed, "", marks), source)
            frame.redirection = ""
        else:
            frame.words.append(Word(word, source, frame.is_computed, marks))
        frame.word, frame.is_computed = None, False

    def _redirect(self, redirection: Redirection, source: str) -> None:
        self._judge_redirection(redirection)
        self.frame.redirections.append(redirection)
        if redirection.operator in ("<<", "<<-"):
            self.here_documents.append(_HereDocument(redirection, is_plain=source != redirection.target))
        elif redirection.operator == "<<<":
            redirection.text = redirection.target

    def _judge_redirection(self, redirection: Redirection) -> None:
        operator, target = redirection.operator, redirection.target
        duplicates = operator == ">&" and target in ("1", "2")
        discards = operator in ("<", ">", ">>", "&>", "&>>") and target == "/dev/null"
        if not duplicates and not discards:
            is_plain_read = operator == "<" and not redirection.is_computed
            self._doubt(READS_A_FILE if is_plain_read else "it redirects to or from a file")

    def _end_command(self) -> None:
        self._end_word()
        frame = self.frame
        if frame.redirection:
            self._doubt("a redirection has no target")
        words = self._without_prefixes(frame.words)
        control = tuple(word.source for word in frame.words[: len(frame.words) - len(words)])
        if not words and frame.redirections:
            # A redirection without a command also opens its file.
            words = [Word(":", ":", False, PLAIN)]
        joint = frame.joint
        if words:
            self._add_command(words)
        if words or control:
            self.parts.append(Part(control, self.commands[-1] if words else None, joint))
            frame.joint = ""
        frame.words, frame.redirection, frame.redirections, frame.expands = [], "", [], False

    def _add_command(self, words: list[Word]) -> None:
        frame, name = self.frame, words[0].text
        if not _PLAIN_NAME.fullmatch(name) and name != "[":
            self._doubt("the name of a command is not plain")
        command = SimpleCommand(
            tuple(word.text for word in words),
            " ".join(word.source for word in words),
            frame.expands,
            tuple(word.is_computed and word.text != "[" for word in words),
            tuple(frame.redirections),
            frame.joint,
            frame.reads_pipe,
            tuple(word.marks for word in words),
        )
        self.commands.append(command)
        frame.reads_pipe, frame.joint = frame.keeps_pipe, ""

    def _without_prefixes(self, words: list[Word]) -> list[Word]:
        """Return the words without the control words and assignments before the command's name."""
        start = 0
        while start < len(words):
            word = words[start].text
            if assignment := _ASSIGNMENT.match(word):
                value = word[assignment.end() :]
                self.variables[assignment[1]] = value[:_MAX_VALUE_CHARS]
                self.assigned.append((assignment[1], value))
                self._doubt("it sets a variable")
            elif word in _RESERVED:
                self._doubt(HOLDS_CONTROL)
                self.frame.keeps_pipe |= self.frame.reads_pipe
                start += self._count_names(words, start)
            else:
                break
            start += 1
        return words[start:]

    def _count_names(self, words: list[Word], start: int) -> int:
        """Return 1 if the name of a function or a coprocess follows a reserved word, otherwise 0."""
        word, *after = (word.text for word in words[start : start + 3])
        is_process = word == "coproc" and len(after) > 1 and after[1] in _COMPOUND
        return int(is_process or (word == "function" and bool(after)))
