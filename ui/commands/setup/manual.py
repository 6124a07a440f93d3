"""`sandbur manual`: prints every command, flag, variable, file and exit code, as text or as a man page."""

import argparse
from collections.abc import Iterator
from textwrap import fill
from typing import NamedTuple

from ....agent.runtime.version import VERSION
from ...cli.grammar import COMMANDS, Command, command_class, parser_for, switch
from ...terminal.terminal import put
from .help import EXIT_CODES, RULES, actions_of, flags_of, variables

_FILES = (
    ("$XDG_CONFIG_HOME/sandbur/config.toml", "your settings, else in ~/.config"),
    (".sandbur/config.toml", "a project's settings, once you have trusted them"),
    (".sandbur/tools/*.py, .mcp.json", "a project's tools and tool servers, once you have trusted them"),
    ("AGENTS.md", "instructions for the model about a folder and its parents"),
    ("$SANDBUR_HOME/sandbur.db", "the store: every session, step and call"),
    ("$SANDBUR_HOME/crash.log", "tracebacks of bugs of this program"),
)
_ABOUT = (
    "Sandbur answers, uses tools, or makes a plan and works through it, in a terminal or headless. Every"
    " fact is on disk before the next side effect: after any crash, `sandbur -r ID` continues from the exact"
    " action, a finished call never runs again, and a call with an unknown outcome never runs again without a"
    " decision."
)


class ManualCommand(Command):
    GROUPS = ()
    EXAMPLES = (
        ("sandbur manual | less", "read it"),
        ("sandbur manual --man > ~/.local/share/man/man1/sandbur.1", "for `man sandbur`"),
    )
    man: bool = switch("--man", "as the source of a man page")

    async def run(self) -> int:
        put(man_page(tuple(sections())) if self.man else text(tuple(sections())))
        return 0


class ManualSection(NamedTuple):
    title: str
    prose: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    """Terms and their descriptions."""


def sections() -> Iterator[ManualSection]:
    yield ManualSection("NAME", "sandbur - the terminal agent you can kill at any moment")
    yield ManualSection("SYNOPSIS", rows=tuple(_usage(name) for name in ("chat", *COMMANDS)))
    yield ManualSection("DESCRIPTION", _ABOUT)
    yield ManualSection("OPTIONS", rows=tuple(_flags("chat")))
    for name, entry in COMMANDS.items():
        rows = (*actions_of(command_class(name)), *_flags(name, but=set(_flags("chat"))))
        yield ManualSection(
            f"SANDBUR {name.upper()}", f"{entry.summary[:1].upper()}{entry.summary[1:]}.", rows
        )
    yield ManualSection("RULES", RULES)
    yield ManualSection("EXIT STATUS", rows=tuple((str(code), meaning) for code, meaning in EXIT_CODES))
    yield ManualSection("ENVIRONMENT", rows=tuple(variables()))
    yield ManualSection("FILES", rows=_FILES)
    yield ManualSection("EXAMPLES", rows=tuple(_examples()))


def _usage(name: str) -> tuple[str, str]:
    parser = parser_for(name)
    words = parser.format_usage().removeprefix("usage: ").split()
    return " ".join(words if len(words) < 16 else [parser.prog, "[FLAGS]", *parser.words]), ""


def _flags(name: str, but: set[tuple[str, str]] | None = None) -> Iterator[tuple[str, str]]:
    for one in flags_of(parser_for(name)):
        value = "" if one.nargs == 0 else f" {one.metavar or one.dest.upper()}"
        if one.nargs == argparse.OPTIONAL:
            value = f" [{value.strip()}]"
        row = (", ".join(one.option_strings) + value, (one.help or "").replace("%%", "%"))
        if row not in (but or ()):
            yield row


def _examples() -> Iterator[tuple[str, str]]:
    for name in ("chat", *COMMANDS):
        command = command_class(name)
        yield from command.EXAMPLES
        for action in command.ACTIONS.values():
            yield from action.examples


def text(found: tuple[ManualSection, ...]) -> str:
    """Return the manual as plain text of 100 columns."""

    parts: list[str] = []
    for section in found:
        parts.append(section.title)
        if section.prose:
            lines = section.prose.split("\n")
            parts += [fill(line, 100, initial_indent="    ", subsequent_indent="    ") for line in lines]
        for term, meaning in section.rows:
            short = len(term) < 30 and meaning
            parts.append(f"    {term:<30}  {meaning}" if short else f"    {term}")
            if meaning and not short:
                parts.append(f"    {'':<30}  {meaning}")
        parts.append("")
    return "\n".join(parts).rstrip()


def man_page(found: tuple[ManualSection, ...]) -> str:
    """Return the manual as roff, with the macros of man(7)."""
    lines = [f'.TH SANDBUR 1 "" "sandbur {VERSION}" "User Commands"']
    for section in found:
        lines.append(f'.SH "{_roff(section.title)}"')
        if section.prose:
            lines += ["\n.br\n".join(_roff(line) for line in section.prose.split("\n"))]
        for term, meaning in section.rows:
            lines += [".TP", f"\\fB{_roff(term)}\\fR", _roff(meaning) or "\\&"]
    return "\n".join(lines)


def _roff(text: str) -> str:
    """Escape a text for roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
