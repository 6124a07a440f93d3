"""Parses the command line into a typed command."""

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from ...agent.config.settings import SETTINGS
from ...agent.extensions.extension import load
from ...agent.extensions.registry import list_shipped
from ...state.errors import UsageError
from ..commands.chat import ChatCommand
from .argument_types import nearest
from .grammar import (
    COMMANDS,
    COMPLETE,
    YOLO,
    Command,
    Parser,
    RunCommand,
    command_class,
    load_commands,
    options_with_value,
    parser_for,
)

ELSEWHERE = {
    "--dangerously-skip-permissions": "-y",
    "--dangerously-bypass-approvals-and-sandbox": "-y",
    "--auto-approve": "-y",
    "--full-auto": "--mode auto-edit",
    "--permission-mode": "--mode",
    "--approval-mode": "--mode",
    "--ask-for-approval": "--mode interactive",
    "--allowed-tools": "--allow RULE",
    "--allowedTools": "--allow RULE",
    "--disallowedTools": "--disallowed-tools",
    "--json": "--output-format json",
    "--stream-json": "--output-format stream-json",
    "--cwd": "-C",
    "--image": "--attach",
    "--reasoning-effort": "--effort",
    "--max-budget": "--max-budget-usd",
    "--mcp-config": "`sandbur mcp add`",
    "--append-system-prompt": "an AGENTS.md in the folder",
    "--system-prompt": "an AGENTS.md in the folder",
    "--settings": "`sandbur config`",
}
"""Flags of other agents -> the equivalent flags of Sandbur."""


def parse(argv: Sequence[str]) -> Command:
    """Parse the command line; raises `UsageError`, or `SystemExit` after printing help."""
    words = list(argv)
    if words[:1] == [COMPLETE]:
        return command_class(COMPLETE)().but(words=tuple(words[1:]))
    if len(words) == 2 and words[0] == "help" and _is_command(words[1]):
        words = [words[1], "--help"]
    at = find_command(words, _is_command)
    name = words.pop(at) if at is not None else "chat"
    parser = parser_for(name)
    words, last = _split_at_dashes(words)
    parser.asked = words[0] if words else ""
    if words == ["--help"]:
        # argparse would format a usage text first, which is never printed.
        parser.print_help()
        raise SystemExit(0)
    _refuse_values(parser, words)
    found, extra = parser.parse_known_intermixed_args(words)
    if last and command_class(name).TAKES_PROGRAM:
        found.rest, last = tuple(last), []
    is_literal = bool(last) and vars(found).get("prompt", "") is None
    if is_literal:
        found.prompt = last.pop(0)
    if extra and load_commands():
        # The unknown words may be a flag of an extension that is loaded only now.
        return parse(argv)
    if extra or last:
        _refuse(parser, [*extra, *last], vars(found).get("prompt"))
    command = _command(name, vars(found)).but(line=tuple(argv))
    _check(command)
    return _read_lone_word(command) if isinstance(command, ChatCommand) and not is_literal else command


def prepare_resume(command: Command) -> None:
    """Let extensions prepare a command that opens a stored session; raises `SandburError`, or `SystemExit` if
    one of them ran the command elsewhere."""
    for extension in list_shipped():
        if extension.before_resume:
            home = load(".agent.config.paths:data_home")(os.environ)
            load(extension.before_resume)(home, command)


def _command(name: str, found: dict[str, Any]) -> Command:
    """Build the command from the parsed values."""
    lists = {key: tuple(cast("list[Any]", value)) for key, value in found.items() if isinstance(value, list)}
    values = found | lists
    overrides = {row.key: values.pop(row.key) for row in SETTINGS if row.group in command_class(name).GROUPS}
    if values.pop(YOLO, False):
        _refuse_both(f"-y and --mode {overrides['mode']}", overrides["mode"] not in (None, "yolo"))
        overrides["mode"] = "yolo"
    return command_class(name)(name=name, overrides=overrides, **values)


def _is_command(word: str) -> bool:
    """Return whether a word is a command, including those of installed extensions."""
    if word in COMMANDS or not word.isidentifier():
        return word in COMMANDS
    return load_commands() and word in COMMANDS


def find_command(words: Sequence[str], is_command: Callable[[str], bool]) -> int | None:
    """Return the index of the command name, or None if there is none.

    The name is the first word that belongs to no flag. After `-p`, `-c` or `-r` this word is a prompt.
    """
    with_value = options_with_value("chat")
    position = 0
    while position < len(words):
        word = words[position]
        if re.match(r"-[qvy]*[pcr]|--(print|continue|resume)\b|--$", word):
            return None
        if not word.startswith("-") or word == "-":
            return position if is_command(word) else None
        position += 2 if word in with_value else 1
    return None


def _split_at_dashes(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before `--`, and the words after it, which are never flags."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _refuse_values(parser: Parser, words: Sequence[str]) -> None:
    """Raise `UsageError` for a flag without a value that gets one, such as `-p=x`: argparse takes it for
    `-p -h`."""
    for word in words:
        flag, equals, value = word.partition("=")
        if equals and flag in parser.switches:
            raise UsageError(f"{flag} takes no value.", f"Write `{flag}` and `{value}` as two words.")


def _refuse(parser: Parser, extra: list[str], prompt: str | None) -> NoReturn:
    word = extra[0]
    manual = f"See `{parser.prog} --help`."
    if word.startswith("-") and word != "-":
        flag = word.split("=")[0]
        near = _find_equivalent(flag, parser) or nearest(flag, parser.options)
        raise UsageError(f"There is no flag {flag} here.", f"Did you mean {near}?" if near else manual)
    if parser.prog == "sandbur" and prompt in COMMANDS:
        hint = "A prompt of several words needs quotes; a command has no -p, -c or -r before it."
        raise UsageError(f"`{word}` is one word too many.", hint)
    if parser.prog == "sandbur" and prompt:
        meant = load(".ui.cli.lone_words:find_meant")(prompt)
        hint = meant or f"A prompt of several words needs quotes. {manual}"
        raise UsageError(f"There is no command `{prompt}`.", hint)
    raise UsageError(f"`{word}` is one word too many.", manual)


def _find_equivalent(flag: str, parser: Parser) -> str | None:
    """Return this command's equivalent of another agent's flag, or None if it has none."""
    ours = ELSEWHERE.get(flag)
    is_here = ours is not None and (not ours.startswith("-") or ours.split()[0] in parser.options)
    return ours if is_here else None


def _check(command: Command) -> None:
    _refuse_both("-q and -v", isinstance(command, RunCommand) and command.quiet and command.verbose)
    command.check()


def _refuse_both(pair: str, is_there: bool) -> None:
    if is_there:
        raise UsageError(f"{pair} contradict each other.", "Keep one of them.")


def _read_lone_word(command: ChatCommand) -> Command:
    """Return the chat, or the command that a single word means, such as `version`.

    Raises `UsageError` if the word looks like a command of Sandbur, of the chat or of another agent, and
    nobody at a terminal says that it is a message.
    """
    word = command.prompt
    is_message = command.print or command.continues or command.name != "chat"
    if word is None or is_message or len(word.split()) > 1:
        return command
    if word == "help":
        parser_for("chat").print_help()
        raise SystemExit(0)
    if word == "version":
        return command.but(version=True, prompt=None)
    load(".ui.cli.lone_words:require_message")(word)
    return command
