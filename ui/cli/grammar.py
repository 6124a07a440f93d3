"""The declaration of commands and their flags, and the argparse parser that is built from it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from ...agent.config.setting import Declaration, Declared, Kind, declarations_of
from ...agent.config.settings import (
    EFFORTS,
    MODES,
    SANDBOXES,
    SETTINGS,
    Overrides,
    load_extensions,
)
from ...agent.extensions.extension import CommandEntry, load
from ...agent.extensions.registry import PACKAGES, list_shipped
from ...state.errors import UsageError
from ..terminal.terminal import put
from .argument_types import amount, count, names, one_of, path

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

FORMATS = ("text", "json", "stream-json")
ID = "id, start of an id, or title"


ArgumentSpec = tuple[Sequence[str], str, str, dict[str, Any]]
"""The declaration of a field for the parser: the names of the flag, its group in the help, the commands that
have it (empty: all that share the class), and the keywords of `add_argument`."""


def flag(names: str, help: str, default: Any = None, group: str = "", only: str = "", **how: Any) -> Any:
    """Declare a field as a flag. `only` names the commands that have it; empty: all that share the class.

    `how` are further keywords of argparse's `add_argument`.
    """
    how |= {"help": help, "default": [] if how.get("action") == "append" else default}
    return Declaration(default, (names.split(), group, only, how))


def switch(names: str, help: str, group: str = "", only: str = "") -> Any:
    """Declare a field as a flag without a value; the field is true if the flag is given."""
    return flag(names, help, False, group, only, action="store_true")


def word(metavar: str, help: str | None = None, default: Any = "", **how: Any) -> Any:
    """Declare a positional argument; with `nargs` it may be optional."""
    how |= {"help": help, "metavar": metavar, "default": default}
    return Declaration(default, ((), "", "", how))


Example = tuple[str, str]
"""An example command line, and a description of what it does."""


class Action(NamedTuple):
    """An action of a command that has several, such as `prune` of `sandbur sessions`."""

    words: str
    """The placeholder of the action's arguments in the help."""
    about: str
    flags: tuple[str, ...] = ()
    """The long names of the command's flags that this action accepts."""
    examples: tuple[Example, ...] = ()
    home: str = ""
    """`module.function` in the command's package, which runs the action."""


class Command(Declared):
    """One parsed command line: the fields are the flags, and `run` executes the command."""

    GROUPS: ClassVar[tuple[str, ...]] = ("place",)
    """The groups of the command's flags and settings, in the order of the help."""
    EXAMPLES: ClassVar[tuple[Example, ...]] = ()
    ACTIONS: ClassVar[Mapping[str, Action]] = {}
    WORDS: ClassVar[tuple[str, ...]] = ()
    """Words that are actions where the command otherwise takes any text."""
    TAKES_PROGRAM: ClassVar[bool] = False
    """Whether the words after `--` are a program and its arguments."""
    name: str = ""
    line: tuple[str, ...] = ()
    """The words of the command line, with the name of the command."""
    overrides: Overrides = MappingProxyType({})
    """The settings that the flags set."""

    @property
    def settings(self) -> Overrides:
        """The settings from the flags and from the command itself."""
        return self.overrides

    @property
    def tells_more(self) -> bool:
        """Whether tracebacks are printed."""
        return False

    @property
    def answers_in(self) -> str:
        """The output format of the command."""
        return "text"

    @property
    def opens_stored(self) -> bool:
        """Whether the command may continue a stored session."""
        return False

    def run_at_once(self) -> int | None:
        """Run the command without an event loop and return the exit code; None if it needs an event loop."""
        return None

    def check(self) -> None:
        """Raise `UsageError` for flags that contradict each other."""

    def list_words(self, action: str) -> Iterable[tuple[str, str]]:
        """Return what a shell completes as the first argument of an action: words with descriptions."""
        return ()

    HOME: ClassVar[str] = ""
    """`module.function` in the package of the class, which runs the command."""

    async def run(self) -> int:
        """Import the module of the command, run it, and return the exit code."""
        return await self._load(self.HOME)(self)

    def _load(self, home: str) -> Callable[..., Any]:
        """Import and return a function, named `module.function` in the command's package."""
        module, _, function = home.rpartition(".")
        return getattr(import_module(f".{module}", type(self).__module__.rpartition(".")[0]), function)


class ActionCommand(Command):
    """A command with several actions; each action has one function."""

    action: str

    async def run(self) -> int:
        return await self._load(self.ACTIONS[self.action].home)(self)


class Progress(NamedTuple):
    """The output format of a run."""

    output_format: str
    is_quiet: bool = False
    is_verbose: bool = False


class RunCommand(Command):
    """A command that runs a session to its end."""

    GROUPS = ("limits", "output", "place")
    output_format: str = flag(
        "--output-format", " | ".join(FORMATS), "text", "output", type=one_of(FORMATS), metavar="FORMAT"
    )
    quiet: bool = switch("-q --quiet", "no progress on stderr", "output")
    verbose: bool = switch("-v --verbose", "more details, and tracebacks of errors", "output")

    @property
    def answers_in(self) -> str:
        return self.output_format

    @property
    def progress(self) -> Progress:
        return Progress(self.output_format, self.quiet, self.verbose)

    @property
    def tells_more(self) -> bool:
        return self.verbose


class Listed(NamedTuple):
    home: str
    """The class of the command: `module.Class` in `commands`, or `module:Class` of an extension."""
    summary: str


def insert_commands(commands: dict[str, Listed], added: Iterable[CommandEntry]) -> None:
    """Insert the commands of an extension, each after the command that its entry names.

    Commands whose name exists already are left out.
    """
    for entry in added:
        if entry.name in commands:
            continue
        later: dict[str, Listed] = {}
        if entry.after in commands:
            names = list(commands)
            later = {name: commands.pop(name) for name in names[names.index(entry.after) + 1 :]}
        commands[entry.name] = Listed(entry.home, entry.summary)
        commands.update(later)


COMMANDS: dict[str, Listed] = {
    "sessions": Listed(
        "sessions.command.SessionsCommand",
        "list, show, rename, verify, delete, prune, export or import sessions",
    ),
    "approve": Listed("runs.command.DecideCommand", "approve waiting tool calls of a session, and resume it"),
    "deny": Listed("runs.command.DecideCommand", "deny waiting tool calls of a session, and resume it"),
    "settle": Listed(
        "runs.command.SettleCommand",
        "record the outcome of a call if it is unknown, and resume the session",
    ),
    "steer": Listed(
        "runs.command.SteerCommand",
        "send a message to a session that runs in another process or is resumed later",
    ),
    "resume": Listed(
        "runs.command.ResumeCommand",
        "resume every session that is due (for cron or a timer)",
    ),
    "fork": Listed("past.command.ForkCommand", "start a new session from a step of another"),
    "policy": Listed(
        "policy.command.PolicyCommand",
        "check the gate's verdict on calls, now and in past sessions, and suggest rules",
    ),
    "graph": Listed("setup.command.GraphCommand", "print the state machine"),
    "doctor": Listed("setup.command.DoctorCommand", "check this installation"),
    "update": Listed("setup.update.UpdateCommand", "print the command that updates this installation"),
    "diff": Listed("past.command.DiffCommand", "compare two runs: steps, decisions, files, cost"),
    "bisect": Listed(
        "past.command.BisectCommand",
        "find the step after which a command fails, by the files as they were then",
    ),
    "stats": Listed(
        "past.command.StatsCommand",
        "tokens, cost, time, failures and approvals of the stored sessions",
    ),
    "config": Listed("setup.command.ConfigCommand", "list, get or set the settings"),
    "completion": Listed(
        "setup.completion.scripts.CompletionCommand", "print the completion script of a shell"
    ),
    "manual": Listed("setup.manual.ManualCommand", "print the whole manual, or its man page"),
    "trust": Listed("setup.command.TrustCommand", "list the trusted folders, or stop trusting one"),
}
"""Name -> command. `load_commands` inserts the commands of installed packages."""
for _extension in list_shipped():
    insert_commands(COMMANDS, _extension.commands)
CHAT = Listed("chat.ChatCommand", "the terminal agent you can kill at any moment")
COMPLETE = "_complete"
"""The command that returns completions to a shell. No help lists it, and its words are not parsed."""


def load_commands() -> bool:
    """Load the extensions of installed packages at the first call; return whether any were loaded now."""
    if not load_extensions():
        return False
    for extension in PACKAGES.loaded:
        insert_commands(COMMANDS, extension.commands)
    return True


def command_class(name: str) -> type[Command]:
    """Return the class of a command; `chat` means `sandbur` without a command name."""
    home = (
        "setup.completion.candidates.CompleteCommand" if name == COMPLETE else COMMANDS.get(name, CHAT).home
    )
    if ":" in home:
        return load(home)
    module, _, kind = home.rpartition(".")
    return getattr(import_module(f"..commands.{module}", __package__), kind)


class HelpLayout(argparse.HelpFormatter):
    """The help formatter of argparse, with the width of the window; it breaks lines only at spaces."""

    def __init__(self, prog: str) -> None:
        width = window_width() - 2
        super().__init__(prog, width=width, max_help_position=24 if width > NARROW else 8)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return the names of a flag, and its value once, as newer versions of Python do."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


NARROW = 56
"""In a window of fewer columns a description begins on the line after its term."""


@cache
def window_width() -> int:
    """Return the width of the window in columns. `shutil` is avoided, because it imports archive modules."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises `UsageError` instead of exiting."""

    asked: str = ""
    """The action after the command name, for the help of one action."""

    def __init__(self, name: str, description: str) -> None:
        self.name = name
        super().__init__(
            prog=f"sandbur {'' if name == 'chat' else name}".strip(),
            description=description,
            formatter_class=HelpLayout,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        # The name of an action is the list of all actions, which the message names anyway.
        text = re.sub(r"^[\w-]+(?:\|[\w-]+)+: ", "", message.removeprefix("argument "))
        if text.startswith("the following arguments are required: "):
            missing = text.removeprefix("the following arguments are required: ").split(",")[0]
            text = f"`{self.prog}` needs {missing}"
        hint = f"See `{self.prog} --help`."
        raise UsageError(text if text.endswith("?") else f"{text}.", hint)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        from ..commands.setup.help import help_text

        put(help_text(self), end="")

    @property
    def options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    @property
    def switches(self) -> set[str]:
        """The flags that take no value."""
        return {option for action in self._actions if action.nargs == 0 for option in action.option_strings}

    @property
    def words(self) -> list[str]:
        """The positional arguments."""
        return [str(action.metavar or action.dest) for action in self._actions if not action.option_strings]


def parser_for(name: str) -> Parser:
    """Return the parser of a command; `chat` means `sandbur` without a command name."""
    summary = COMMANDS.get(name, CHAT).summary
    parser = Parser(name, f"{summary[:1].upper()}{summary[1:]}.")
    for title in ("", *command_class(name).GROUPS):
        group = parser.add_argument_group(title) if title else parser
        for spelled, how in _arguments(name, title):
            group.add_argument(*spelled, **how)
    return parser


def options_with_value(name: str) -> set[str]:
    """Return the flags of a command that take a value, without building a parser."""
    takes = (
        names
        for names, how in arguments_of(name)
        if "nargs" not in how and how.get("action", "append") == "append"
    )
    return {option for names in takes for option in names if option.startswith("-")}


def arguments_of(name: str) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield the names and the `add_argument` keywords of each flag and positional argument of a command."""
    for title in ("", *command_class(name).GROUPS):
        yield from _arguments(name, title)


def _arguments(name: str, group: str) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield the names and keywords of the arguments in one group of the help."""
    for field, one in declarations_of(command_class(name)).items():
        spec: ArgumentSpec = one.argument or ((), "not on the command line", "", {})
        spelled, place, only, how = spec
        if place == group and (not only or name in only.split()):
            yield spelled or (field,), how | ({"dest": field} if spelled else {})
    for row in SETTINGS if group else ():
        if row.group == group and row.flag is not None:
            flags, metavar, help = row.flag
            value = {"metavar": metavar} if metavar else {}
            yield flags, {**_HOW[row.kind], **value, "dest": row.key, "help": help}
            if row.kind == "mode":
                every = "--mode yolo: run everything but denied calls"
                yield ("-y", "--yolo"), {"action": "store_true", "dest": YOLO, "help": every}


_HOW: Mapping[Kind, dict[str, Any]] = {
    "line": {},
    "names": {"type": names, "default": ()},
    "mode": {"type": one_of(MODES)},
    "sandbox": {"type": one_of(SANDBOXES)},
    "effort": {"type": one_of(EFFORTS)},
    "domains": {"action": "append", "default": [], "nargs": "?", "const": "*"},
    "rules": {"action": "append", "default": []},
    "variables": {"action": "append", "default": []},
    "folders": {"action": "append", "default": [], "type": path},
    "folder": {"type": path},
    "count": {"type": count},
    "amount": {"type": amount},
    "seconds": {"type": amount},
    "switch": {"action": "store_const", "const": True},
}
"""Kind of a setting -> the `add_argument` keywords of its flag."""


YOLO = "mode yolo"
"""The attribute that the parser sets if `-y` is given."""
