"""The flags and commands as argparse parsers, one parser a command."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from state.errors import UsageError
from ui.terminal import put

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

MODES = ("interactive", "plan", "auto-edit", "yolo")
FORMATS = ("text", "json", "stream-json")
COMMANDS = {
    "sessions": "list, show, delete or export sessions",
    "approve": "let waiting tool calls of a session run, and carry it on",
    "deny": "refuse waiting tool calls of a session, and carry it on",
    "fork": "start a new session from a point of another",
    "graph": "print the state machine",
    "doctor": "check this installation",
    "demo": "watch it work with the shipped scripted model: no key, no network",
}

LATER_COMMANDS = ("settle", "replay", "ui", "diff", "bisect", "stats", "test")
_LATER_ACTIONS = ("prune", "import", "verify")


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


def parser_for(command: str) -> Parser:
    """Return the parser of a command; `chat` is the one without a name."""
    if command == "chat":
        return _chat()
    parser = Parser(command, _sentence(COMMANDS[command]))
    {
        "sessions": _sessions,
        "approve": _approve,
        "deny": _deny,
        "fork": _fork,
        "graph": _graph,
        "doctor": _surroundings,
        "demo": _demo,
    }[command](parser)
    return parser


def not_yet(command: str, hint: str) -> UsageError:
    """Return the error for a name that is kept for a later version."""
    return UsageError(f"`sandbur {command}` is not part of this version yet.", hint)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.7)), None)


def _chat() -> Parser:
    epilog = "commands:\n" + "\n".join(f"  {name:<22}{what}" for name, what in COMMANDS.items())
    parser = Parser("", "The terminal agent you can kill at any moment.", epilog)
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to do; `-` reads it from stdin")
    parser.add_argument("--version", action="store_true", help="print the version")
    start = parser.add_argument_group("session")
    start.add_argument(
        "-p", "--print", action="store_true", help="headless: run to the end, print the answer"
    )
    start.add_argument("-c", "--continue", action="store_true", dest="continue_newest",
                       help="continue the newest session of this folder")  # fmt: skip
    start.add_argument("-r", "--resume", nargs="?", const="", metavar="ID",
                       help="resume a session: id, start of an id, title; none: pick one")  # fmt: skip
    start.add_argument("--fork-session", action="store_true", help="with -c or -r: go on in a copy")
    start.add_argument("--session-id", type=_uuid, metavar="UUID", help="the id of the new session")
    _run_flags(parser)
    _output_flags(parser)
    _surroundings(parser)
    return parser


def _run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument(
        "-m", "--model", metavar="PROVIDER/MODEL", help="such as anthropic/..., ollama/..., demo"
    )
    run.add_argument("--fallback-model", type=_names, default=(), metavar="A,B", help="used if MODEL is down")
    run.add_argument("--mode", type=_one_of(MODES), metavar="MODE", help=" | ".join(MODES))
    run.add_argument("-y", "--yolo", action="store_true", help="--mode yolo: run everything but denied calls")
    rule = "tool or tool(glob); repeatable"
    run.add_argument("--allow", action="append", default=[], metavar="RULE", help=f"never ask: {rule}")
    run.add_argument("--deny", action="append", default=[], metavar="RULE", help=f"never run: {rule}")
    run.add_argument("--add-dir", action="append", type=Path, default=[], metavar="DIR",
                     help="one more folder to work in; repeatable")  # fmt: skip
    run.add_argument("--max-turns", type=_count, metavar="N", help="stop after N model calls")
    run.add_argument("--max-budget-usd", type=_amount, metavar="X", help="stop when X US dollars are spent")
    run.add_argument("--timeout", type=_amount, metavar="SECONDS", help="stop after this time")


def _output_flags(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", type=_one_of(FORMATS), default="text", metavar="FORMAT",
                        help=" | ".join(FORMATS))  # fmt: skip
    output.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
    output.add_argument("-v", "--verbose", action="store_true", help="more of everything, tracebacks too")


def _surroundings(parser: argparse.ArgumentParser) -> None:
    place = parser.add_argument_group("place")
    place.add_argument("-C", "--cd", type=Path, metavar="DIR", help="work in DIR")
    place.add_argument("--store", metavar="URL", help="sqlite:///PATH")


def _decision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="id, start of an id, or title")
    parser.add_argument(
        "calls", nargs="*", metavar="CALL", help="the calls meant; needless if only one waits"
    )
    parser.add_argument("--all", action="store_true", help="every waiting call")
    parser.add_argument("--record-only", action="store_true", help="record the decision, run nothing")
    _run_flags_of_decision(parser)
    _output_flags(parser)
    _surroundings(parser)


def _run_flags_of_decision(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument("--max-turns", type=_count, metavar="N", help="stop after N model calls")
    run.add_argument("--max-budget-usd", type=_amount, metavar="X", help="stop when X US dollars are spent")
    run.add_argument("--timeout", type=_amount, metavar="SECONDS", help="stop after this time")


def _approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--edit", type=Path, metavar="FILE", help="run the call with the JSON arguments in FILE"
    )
    _decision(parser)


def _deny(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="told to the model")
    _decision(parser)


def _fork(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="id, start of an id, or title")
    parser.add_argument(
        "--at", type=_position, metavar="SEQ", help="the step to fork from; the last one if left out"
    )
    _surroundings(parser)


def _graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", type=_one_of(("mermaid", "dot")), default="mermaid", metavar="FORMAT",
                        help="mermaid | dot")  # fmt: skip


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="a goal; there is one if you name none")
    parser.add_argument(
        "-p", "--print", action="store_true", help="headless: run to the end, print the answer"
    )
    _run_flags(parser)
    _output_flags(parser)
    _surroundings(parser)


def _sessions(parser: argparse.ArgumentParser) -> None:
    actions = ("list", "show", "delete", "export")
    parser.add_argument("action", nargs="?", type=_session_action(actions), default="list",
                        metavar="|".join(actions))  # fmt: skip
    parser.add_argument("session", nargs="?", default="", metavar="ID", help="id, start of an id, or title")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    _surroundings(parser)


def _session_action(names: Sequence[str]) -> Callable[[str], str]:
    check = _one_of(names)

    def known(text: str) -> str:
        if text in _LATER_ACTIONS:
            raise not_yet(f"sessions {text}", "`sandbur sessions --help` shows what fits.")
        return check(text)

    return known


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text in names:
            return text
        near = nearest(text, names)
        wish = f"did you mean `{near}`?" if near else "it is one of " + ", ".join(names)
        raise argparse.ArgumentTypeError(f"`{text}` does not fit; {wish}")

    return check


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")


def _position(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number")


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if isfinite(value) and value > 0:
        return value
    raise argparse.ArgumentTypeError(f"`{text}` is not a number above 0")


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a UUID") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
