"""Composes the texts of `--help`, and the parts that the manual shares: exit codes, variables, rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....agent.config.settings import SETTINGS
from ...cli.grammar import Action, Command, Example, HelpLayout, command_class

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
A pattern is compared with each command of a shell line (`run_shell_command(git log *)`),
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


def help_text(parser: Parser) -> str:
    """Return the help of a command, or of one of its actions."""
    command = command_class(parser.name)
    action = command.ACTIONS.get(parser.asked)
    if action is not None:
        return _action_help(parser, parser.asked, action)
    text = parser.format_help()
    if command.ACTIONS:
        text += f"\nactions:\n{table(actions_of(command))}\n"
    if command.EXAMPLES:
        text += f"\nexamples:\n{_examples(command.EXAMPLES)}\n"
    if parser.name == "chat":
        codes = "\n".join(f"  {code:<22}{meaning}" for code, meaning in EXIT_CODES)
        text += f"\nexit codes:\n{codes}\n\nrules:\n{_indent(RULES)}\n"
        text += "\n`sandbur manual` describes every command, variable and file.\n"
    return text


def _action_help(parser: Parser, name: str, action: Action) -> str:
    help_parser = argparse.ArgumentParser(
        prog=f"{parser.prog} {name}",
        usage=f"{parser.prog} {name} {action.words}".rstrip() + (" [FLAGS]" if action.flags else ""),
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
    return f"{text}\nexamples:\n{_examples(action.examples)}\n" if action.examples else text


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
    from ....agent.models.connect import DEFAULTS

    return [
        *((name, f"the key of {model.partition('/')[0]}") for name, model in DEFAULTS),
        *((row.variable, row.about) for row in SETTINGS if row.variable),
        *OTHER_VARIABLES,
    ]


def table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(
        f"  {left:<{_COLUMN}}{right}" if len(left) < _COLUMN else f"  {left}\n  {'':<{_COLUMN}}{right}"
        for left, right in rows
    )


def _examples(examples: tuple[Example, ...]) -> str:
    width = max(len(line) for line, _ in examples)
    return "\n".join(f"  {line:<{width}}  # {what}" if what else f"  {line}" for line, what in examples)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
