"""Composes the texts of `--help`, and the parts that the manual shares: exit codes, variables, rules."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING

from ....agent.config.settings import DEFAULT_MODELS, SETTINGS
from ...cli.grammar import (
    COMMANDS,
    NARROW,
    Action,
    Command,
    Example,
    HelpLayout,
    command_class,
    window_width,
)

if TYPE_CHECKING:
    from ...cli.grammar import Parser

EXIT_CODES = (
    (0, "done"),
    (1, "error of the agent or the provider"),
    (2, "the command line is wrong"),
    (3, "stopped: a decision is needed, or a call was denied"),
    (4, "the goal was not reached, the model repeated itself, a replay differs, or an evaluation is worse"),
    (41, "no credentials, or wrong ones"),
    (44, "the sandbox that was asked for is not available"),
    (52, "the configuration is wrong"),
    (53, "the limit of model calls is reached"),
    (55, "the data folder or the store belongs to another user"),
    (75, "rate limited or overloaded: try later"),
    (124, "the time limit is reached"),
    (125, "the budget is used up"),
    (129, "the terminal was closed (SIGHUP)"),
    (130, "interrupted (SIGINT)"),
    (143, "terminated (SIGTERM)"),
)
RULES = """\
A rule is TOOL, for every call of a tool, or TOOL(PATTERN); TOOL may be a glob.
A pattern is compared with each command of a shell line (`run_shell_command(git log *)`), \
with the path of a file tool (`write_file(docs/**)`), or with the address of a web tool.
Deny beats ask, ask beats allow, and no source removes a rule of another source.
`sandbur policy check COMMAND` prints the gate's verdict on a command, and why."""
OTHER_VARIABLES = (
    ("SANDBUR_HOME", "the data folder, else $XDG_DATA_HOME/sandbur"),
    ("XDG_CONFIG_HOME", "the folder of sandbur/config.toml, else ~/.config"),
    ("VISUAL, EDITOR", "the editor for messages and calls"),
    ("NO_COLOR", "no colours"),
    ("SANDBUR_DEBUG", "show tracebacks"),
)
_COLUMN = 28
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
"""A word of a command line, with its quotes."""


def help_text(parser: Parser) -> str:
    """Return the help of a command, or of one of its actions."""
    command = command_class(parser.name)
    action = command.ACTIONS.get(parser.asked)
    if action is not None:
        return _action_help(parser, parser.asked, action)
    text = parser.format_help()
    if parser.name == "chat":
        text += f"\ncommands:\n{table([(name, one.summary) for name, one in COMMANDS.items()], 24)}\n"
    if command.ACTIONS:
        text += f"\nactions:\n{table(actions_of(command))}\n"
    if command.EXAMPLES:
        text += f"\nexamples:\n{_examples(command.EXAMPLES)}\n"
    if parser.name == "chat":
        codes = table([(str(code), meaning) for code, meaning in EXIT_CODES], 24)
        rules = "\n".join(_fill(line, "  ", "    ") for line in RULES.splitlines())
        text += f"\nexit codes:\n{codes}\n\nrules:\n{rules}\n"
        text += "\n" + _fill("`sandbur manual` describes every command, variable and file.", "", "") + "\n"
    return _fit(text)


def _fit(text: str) -> str:
    """Return a help whose usage and lists of alternatives fit into the window."""
    usage, gap, rest = text.partition("\n\n")
    if any(len(line) > window_width() for line in usage.splitlines()):
        # A flag and its value stay in one line.
        parts = re.findall(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\S*|\S+", usage)
        joined = _fill(" ".join(part.replace(" ", "\0") for part in parts), "", " " * 7)
        usage = joined.replace("\0", " ")
    return "\n".join(map(_break_alternatives, f"{usage}{gap}{rest}".split("\n")))


def _break_alternatives(line: str) -> str:
    """Return a line that is too long, such as `list|show|edit`, in several lines that end in `|`."""
    if len(line) <= window_width() or "|" not in line:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return _fill(line.replace("|", "| "), "", indent + " ").replace("| ", "|")


def _action_help(parser: Parser, name: str, action: Action) -> str:
    usage = f"usage: {parser.prog} {name} {action.words}".rstrip() + (" [FLAGS]" if action.flags else "")
    help_parser = argparse.ArgumentParser(
        prog=f"{parser.prog} {name}",
        usage=_fill(usage, "", " " * 7).removeprefix("usage: "),
        description=f"{action.about[:1].upper()}{action.about[1:]}.",
        formatter_class=HelpLayout,
    )
    for one in flags_of(parser):
        if set(one.option_strings) & {*action.flags, "--store", "--cd"}:
            about = _of_action(parser, one.help or "")
            if one.nargs == 0:
                help_parser.add_argument(*one.option_strings, action="store_true", help=about)
            else:
                help_parser.add_argument(*one.option_strings, metavar=one.metavar, help=about)
    text = help_parser.format_help()
    return _fit(f"{text}\nexamples:\n{_examples(action.examples)}\n" if action.examples else text)


def _of_action(parser: Parser, help: str) -> str:
    """Return the description of a flag without the names of the actions that have it."""
    names, colon, rest = help.partition(": ")
    is_named = all(word.strip() in command_class(parser.name).ACTIONS for word in names.split(","))
    return rest if colon and is_named else help


def flags_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser that are flags."""
    yield from (one for one in parser._actions if one.option_strings)  # pyright: ignore[reportPrivateUsage]


def actions_of(command: type[Command]) -> list[tuple[str, str]]:
    """Return the usage and the description of each action of a command."""
    return [(f"{name} {one.words}".strip(), one.about) for name, one in command.ACTIONS.items()]


def variables() -> list[tuple[str, str]]:
    """Return every environment variable that Sandbur reads, with its description."""
    return [
        *((name, f"the key of {model.partition('/')[0]}") for name, model in DEFAULT_MODELS),
        *((row.variable, row.about) for row in SETTINGS if row.variable),
        *OTHER_VARIABLES,
    ]


def table(rows: list[tuple[str, str]], column: int = _COLUMN) -> str:
    """Return terms with their descriptions, which begin at a column, or below the term in a narrow window."""
    is_narrow = window_width() - 2 <= NARROW
    if is_narrow and (longest := max(len(left) for left, _ in rows)) < 10:
        is_narrow, column = False, longest + 4
    lines: list[str] = []
    for left, right in rows:
        if is_narrow or len(left) + 4 > column:
            lines += [_fill(left, "  ", "    "), _fill(right, *([" " * (6 if is_narrow else column)] * 2))]
        else:
            lines.append(_fill(right, f"  {left}".ljust(column), " " * column))
    return "\n".join(lines)


def _examples(examples: tuple[Example, ...]) -> str:
    longest = max(len(line) for line, _ in examples)
    return "\n".join(_example(line, what, longest) for line, what in examples)


def _example(line: str, what: str, longest: int) -> str:
    """Return a command line with its comment, which has lines of its own if the window is too narrow."""
    beside = f"  {line:<{longest}}  # {what}" if what else f"  {line}"
    if len(beside) < window_width():
        return beside
    wrapped = _wrap_command(line)
    return f"{_fill(what, '  # ', '  # ')}\n{wrapped}" if what else wrapped


def _wrap_command(line: str) -> str:
    """Return a command line in lines that a shell reads as one; a flag and its value stay together."""
    rows = [" "]
    for word in re.findall(rf"--?\w[\w-]* (?!-){_WORD}|{_WORD}", line):
        if len(rows[-1]) + len(word) + 3 < window_width() or not rows[-1].strip():
            rows[-1] += f" {word}"
        else:
            rows.append(f"      {word}")
    return " \\\n".join(rows)


def _fill(text: str, first: str, later: str) -> str:
    """Return a text in lines that fit into the window, broken only at spaces."""
    return fill(
        text,
        window_width() - 1,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
