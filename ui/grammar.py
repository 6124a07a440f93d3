"""How a command declares its flags, and the argparse parser that is made of them."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn
from uuid import UUID

from ..agent.config.settings import MODES, SETTINGS, Kind, Said
from ..state.errors import UsageError
from .terminal.terminal import put

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MOST_DAYS = 36_500


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text in names:
            return text
        near = nearest(text, names)
        wish = f"did you mean `{near}`?" if near else "it is one of " + ", ".join(names)
        raise argparse.ArgumentTypeError(f"`{text}` does not fit; {wish}")

    return check


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.7)), None)


def count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")


def position(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number")


def port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a port, 0 to 65535")


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if isfinite(value) and value > 0:
        return value
    raise argparse.ArgumentTypeError(f"`{text}` is not a number above 0")


def uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a UUID") from None


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def duration(text: str) -> timedelta:
    """Read an age such as 30d."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text, re.ASCII)
    age = timedelta(seconds=int(found[1]) * _SECONDS[found[2]]) if found else None
    if age is None or age.days > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"`{text}` is no age; write such as 30d, 12h or 2w")
    return age


def size(text: str) -> int:
    """Read a size such as 1GB; KB is a thousand bytes, KiB is 1024."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([kmgt]?)(i?)b?", text.lower(), re.ASCII)
    if not found or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"`{text}` is no size; write such as 500MB or 1GB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])


def edit(text: str) -> str:
    """Check that an edit of the state names what it changes."""
    if not re.match(r"[A-Za-z_]\w*(\.-?\w+)*=", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"`{text[:60]}` is not PATH=VALUE, such as current_goal=...")
    return text


FORMATS = ("text", "json", "stream-json")
ID = "id, start of an id, or title"


def flag(names: str, help: str, default: Any = None, group: str = "", only: str = "", **how: Any) -> Any:
    """Declare a field that is a flag, of the commands `only` if some are named.

    `how` is what argparse's `add_argument` takes.
    """
    how |= {"help": help, "default": [] if how.get("action") == "append" else default}
    return field(default=default, metadata={"names": names.split(), "group": group, "only": only, "how": how})


def switch(names: str, help: str, group: str = "", only: str = "") -> Any:
    """Declare a field that is true if the flag is there."""
    return flag(names, help, False, group, only, action="store_true")


def word(metavar: str, help: str | None = None, default: Any = "", **how: Any) -> Any:
    """Declare a field that is a word without a flag; with `nargs` it may be left out."""
    how |= {"help": help, "metavar": metavar, "default": default}
    return field(default=default, metadata={"names": (), "group": "", "only": "", "how": how})


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command line: a command's fields are its flags, and `run` does it."""

    GROUPS: ClassVar[tuple[str, ...]] = ("place",)
    """Of its own flags and of settings, in the order of its help."""
    name: str = ""
    said: Said = field(default_factory=dict[str, Any])
    """The settings that the flags set."""

    @property
    def settings(self) -> Said:
        """The settings that the flags set, and those that the command itself does."""
        return self.said

    @property
    def tells_more(self) -> bool:
        """Whether tracebacks are shown."""
        return False

    def check(self) -> None:
        """Raise `UsageError` for flags that do not go together."""

    async def run(self) -> int:
        """Do it; return the exit code."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """A command that runs a session to its end."""

    GROUPS = ("limits", "output", "place")
    output_format: str = flag(
        "--output-format", " | ".join(FORMATS), "text", "output", type=one_of(FORMATS), metavar="FORMAT"
    )
    quiet: bool = switch("-q --quiet", "no progress on stderr", "output")
    verbose: bool = switch("-v --verbose", "more of everything, tracebacks too", "output")

    @property
    def tells_more(self) -> bool:
        return self.verbose


class Listed(NamedTuple):
    home: str
    """Its module in `commands`, and its class there."""
    summary: str


COMMANDS: Mapping[str, Listed] = {
    "sessions": Listed(
        "sessions.SessionsCommand",
        "list, show, verify, delete, prune, export or import sessions",
    ),
    "approve": Listed("decide.DecideCommand", "let waiting tool calls of a session run, and carry it on"),
    "deny": Listed("decide.DecideCommand", "refuse waiting tool calls of a session, and carry it on"),
    "settle": Listed(
        "decide.SettleCommand",
        "say what came of a call that nobody knows the outcome of, and carry the session on",
    ),
    "resume": Listed(
        "resume.ResumeCommand",
        "carry on every session whose time has come (for cron or a timer)",
    ),
    "fork": Listed("fork.ForkCommand", "start a new session from a point of another"),
    "graph": Listed("graph.GraphCommand", "print the state machine"),
    "doctor": Listed("doctor.DoctorCommand", "check this installation"),
    "ui": Listed(
        "tracking.UiCommand",
        "open the tracking UI on the store: runs, steps, state, model and tool calls",
    ),
    "replay": Listed(
        "replay.ReplayCommand",
        "walk a recorded run through today's graph, offline, and show the first difference",
    ),
    "test": Listed(
        "replay.AddTestCommand",
        "turn a recorded run into a test of your project: sandbur test add ID",
    ),
    "diff": Listed("diff.DiffCommand", "compare two runs: steps, decisions, files, cost"),
    "bisect": Listed(
        "bisect.BisectCommand",
        "find the step after which a command fails, by the files as they were then",
    ),
    "stats": Listed(
        "stats.StatsCommand",
        "tokens, cost, time, failures and approvals of what is in the store",
    ),
    "demo": Listed("chat.DemoCommand", "watch it work with the shipped scripted model: no key, no network"),
}
CHAT = Listed("chat.ChatCommand", "the terminal agent you can kill at any moment")


def declared(name: str) -> type[Command]:
    """Return the class of a command; `chat` is the one without a name."""
    module, _, kind = COMMANDS.get(name, CHAT).home.partition(".")
    return getattr(import_module(f".commands.{module}", __package__), kind)


class Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are errors of ours."""

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"sandbur {command}".strip(),
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ")
        if text.startswith("the following arguments are required: "):
            missing = text.removeprefix("the following arguments are required: ").split(",")[0]
            text = f"`{self.prog}` needs {missing}"
        raise UsageError(text if text.endswith("?") else f"{text}.", f"`{self.prog} --help` shows what fits.")

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        put(self.format_help(), end="")

    @property
    def options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    @property
    def options_with_value(self) -> set[str]:
        return {
            option for action in self._actions if action.nargs is None for option in action.option_strings
        }


def parser_for(name: str) -> Parser:
    """Return the parser of a command; `chat` is the one without a name."""
    is_chat = name == "chat"
    listed = "\n".join(f"  {known:<22}{entry.summary}" for known, entry in COMMANDS.items())
    summary = COMMANDS.get(name, CHAT).summary
    parser = Parser(
        "" if is_chat else name,
        f"{summary[:1].upper()}{summary[1:]}.",
        f"commands:\n{listed}" if is_chat else "",
    )
    command = declared(name)
    for title in ("", *command.GROUPS):
        group = parser.add_argument_group(title) if title else parser
        for names, how in _own_flags(command, name, title):
            group.add_argument(*names, **how)
        for row in SETTINGS:
            if title and row.group == title and row.flag is not None:
                flags, metavar, help = row.flag
                group.add_argument(*flags, dest=row.key, metavar=metavar, help=help, **_HOW[row.kind])
                if row.kind == "mode":
                    group.add_argument("-y", "--yolo", action="store_true", dest=YOLO,
                                       help="--mode yolo: run everything but denied calls")  # fmt: skip
    return parser


def _own_flags(
    command: type[Command], name: str, group: str
) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield the names and the rest of what argparse is told of each flag and word in a group."""
    for one in fields(command):
        told = one.metadata
        if told and told["group"] == group and (not told["only"] or name in told["only"].split()):
            yield told["names"] or (one.name,), told["how"] | ({"dest": one.name} if told["names"] else {})


_HOW: Mapping[Kind, dict[str, Any]] = {
    "line": {},
    "names": {"type": names, "default": ()},
    "mode": {"type": one_of(MODES)},
    "rules": {"action": "append", "default": []},
    "folders": {"action": "append", "default": [], "type": Path},
    "folder": {"type": Path},
    "count": {"type": count},
    "amount": {"type": amount},
    "seconds": {"type": amount},
}
"""Kind of a setting -> how its flag is read."""


YOLO = "mode yolo"
"""Where the parser leaves that `-y` was there."""
