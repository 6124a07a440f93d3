"""The flags and commands as argparse parsers, one parser a command."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

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


Add = Callable[[argparse.ArgumentParser], None]

REVIEW_COMMANDS = {
    "ui": "open the tracking UI on the store: runs, steps, state, model and tool calls",
    "replay": "walk a recorded run through today's graph, offline, and show the first difference",
    "test": "turn a recorded run into a test of your project: sandbur test add ID",
    "diff": "compare two runs: steps, decisions, files, cost",
    "bisect": "find the step after which a command fails, by the files as they were then",
    "stats": "tokens, cost, time, failures and approvals of what is in the store",
}
_ID = "id, start of an id, or title"


def parsers(surroundings: Add) -> dict[str, Add]:
    """Return what adds the flags of each command; `surroundings` adds those that all of them take."""

    def with_surroundings(add: Add) -> Add:
        def both(parser: argparse.ArgumentParser) -> None:
            add(parser)
            surroundings(parser)

        return both

    adding = {"ui": _ui, "replay": _replay, "test": _test, "diff": _diff, "bisect": _bisect, "stats": _stats}
    return {name: with_surroundings(add) for name, add in adding.items()}


def _ui(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=7241, metavar="N", help="0: any free one (default 7241)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS",
                        help="where to listen (default 127.0.0.1); elsewhere a token is needed")  # fmt: skip
    parser.add_argument("--no-open", action="store_true", help="open no browser")


def _replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help=f"{_ID}; or a recording FILE")
    parser.add_argument(
        "--from", dest="from_seq", type=position, metavar="SEQ", help="begin behind this step"
    )
    parser.add_argument("--live", type=names, default=(), metavar="model|tools",
                        help="ask the real model, or run the real tools (asks first)")  # fmt: skip
    parser.add_argument("--ignore-tools", action="store_true",
                        help="tools in other words, new or gone are no difference")  # fmt: skip
    parser.add_argument("-m", "--model", metavar="PROVIDER/MODEL",
                        help="what if: go on behind SEQ with this model, in a fork, for real")  # fmt: skip
    parser.add_argument("--files", action="store_true", help="with -m: bring the files back first")
    parser.add_argument("-y", "--yolo", action="store_true", help="ask nothing before real tools run")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def _test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", type=one_of(("add",)), metavar="add")
    parser.add_argument("session", metavar="ID", help=_ID)
    parser.add_argument(
        "--name", default="", metavar="NAME", help="of the test; made of the title if left out"
    )
    parser.add_argument("--to", default="tests", metavar="DIR", help="where your tests are (default tests)")
    parser.add_argument("--force", action="store_true", help="replace a recording of this name")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID1", help=_ID)
    parser.add_argument("other", metavar="ID2", help=_ID)
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def _bisect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help=_ID)
    parser.add_argument("--test", required=True, metavar="CMD",
                        help="a shell command; exit 0: good, 125: skip, else: bad")  # fmt: skip
    parser.add_argument("--timeout", type=amount, default=600.0, metavar="SECONDS",
                        help="after which CMD counts as failed (default 600)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def _stats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=count, metavar="N", help="only the last N days")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


MODES = ("interactive", "plan", "auto-edit", "yolo")
SETTLEMENTS = ("done", "failed", "rerun")
FORMATS = ("text", "json", "stream-json")
COMMANDS = {
    "sessions": "list, show, verify, delete, prune, export or import sessions",
    "approve": "let waiting tool calls of a session run, and carry it on",
    "deny": "refuse waiting tool calls of a session, and carry it on",
    "settle": "say what came of a call that nobody knows the outcome of, and carry the session on",
    "resume": "carry on every session whose time has come (for cron or a timer)",
    "fork": "start a new session from a point of another",
    "graph": "print the state machine",
    "doctor": "check this installation",
    **REVIEW_COMMANDS,
    "demo": "watch it work with the shipped scripted model: no key, no network",
}

_CALLS = "the calls meant; needless if only one waits"
EXPORT_FORMATS = ("jsonl", "html", "md")


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
        "settle": _settle,
        "resume": _resume,
        "fork": _fork,
        "graph": _graph,
        "doctor": _surroundings,
        "demo": _demo,
        **parsers(_surroundings),
    }[command](parser)
    return parser


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
    start.add_argument("--session-id", type=uuid, metavar="UUID", help="the id of the new session")
    _run_flags(parser)
    _output_flags(parser)
    _surroundings(parser)
    return parser


def _run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument(
        "-m", "--model", metavar="PROVIDER/MODEL", help="such as anthropic/..., ollama/..., demo"
    )
    run.add_argument("--fallback-model", type=names, default=(), metavar="A,B", help="used if MODEL is down")
    run.add_argument("--mode", type=one_of(MODES), metavar="MODE", help=" | ".join(MODES))
    run.add_argument("-y", "--yolo", action="store_true", help="--mode yolo: run everything but denied calls")
    rule = "tool or tool(glob); repeatable"
    run.add_argument("--allow", action="append", default=[], metavar="RULE", help=f"never ask: {rule}")
    run.add_argument("--deny", action="append", default=[], metavar="RULE", help=f"never run: {rule}")
    run.add_argument("--add-dir", action="append", type=Path, default=[], metavar="DIR",
                     help="one more folder to work in; repeatable")  # fmt: skip
    _limit_flags(parser)


def _output_flags(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", type=one_of(FORMATS), default="text", metavar="FORMAT",
                        help=" | ".join(FORMATS))  # fmt: skip
    output.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
    output.add_argument("-v", "--verbose", action="store_true", help="more of everything, tracebacks too")


def _surroundings(parser: argparse.ArgumentParser) -> None:
    place = parser.add_argument_group("place")
    place.add_argument("-C", "--cd", type=Path, metavar="DIR", help="work in DIR")
    place.add_argument("--store", metavar="URL", help="sqlite:///PATH, postgresql://..., mysql://...")


def _decision(parser: argparse.ArgumentParser, calls: str, what: str) -> None:
    parser.add_argument("session", metavar="ID", help="id, start of an id, or title")
    parser.add_argument("calls", nargs=calls, metavar="CALL", help=what)
    parser.add_argument("--record-only", action="store_true", help="record the decision, run nothing")
    _limit_flags(parser)
    _output_flags(parser)
    _surroundings(parser)


def _limit_flags(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-turns", type=count, metavar="N", help="stop after N model calls")
    limits.add_argument("--max-budget-usd", type=amount, metavar="X",
                        help="stop when X US dollars are spent")  # fmt: skip
    limits.add_argument("--timeout", type=amount, metavar="SECONDS", help="stop after this time")


def _approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--edit", type=Path, metavar="FILE", help="run the call with the JSON arguments in FILE"
    )
    parser.add_argument("--all", action="store_true", help="every waiting call")
    _decision(parser, "*", _CALLS)


def _deny(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="told to the model")
    parser.add_argument("--all", action="store_true", help="every waiting call")
    _decision(parser, "*", _CALLS)


def _settle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="settle_as", type=one_of(SETTLEMENTS), metavar="OUTCOME",
                        help="done: it took effect; failed: it did not; rerun: run it once more")  # fmt: skip
    parser.add_argument(
        "--result", default="", metavar="TEXT", help="what the model reads, with done or failed"
    )
    _decision(parser, "*", "the call meant; needless if only one waits")


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--due", action="store_true", help="every run whose time has come, one after the other"
    )
    parser.add_argument("--limit", type=count, metavar="N", help="at most N runs")
    parser.add_argument("--dry-run", action="store_true", help="only say which")
    _limit_flags(parser)
    _output_flags(parser)
    _surroundings(parser)


def _fork(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="id, start of an id, or title")
    parser.add_argument(
        "--at", type=position, metavar="SEQ", help="the step to fork from; the last one if left out"
    )
    parser.add_argument("--set", dest="edits", action="append", type=edit, default=[], metavar="PATH=VALUE",
                        help="change the state at that step; repeatable")  # fmt: skip
    parser.add_argument("--files", action="store_true", help="bring the files back to what they were then")
    _surroundings(parser)


def _graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", type=one_of(("mermaid", "dot")), default="mermaid", metavar="FORMAT",
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
    actions = ("list", "show", "verify", "delete", "prune", "export", "import")
    parser.add_argument("action", nargs="?", type=one_of(actions), default="list", metavar="|".join(actions))
    parser.add_argument("session", nargs="?", default="", metavar="ID",
                        help="id, start of an id, or title; for import: FILE, or - for stdin")  # fmt: skip
    parser.add_argument(
        "file", nargs="?", default="", metavar="FILE", help="where export writes; - is stdout"
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")
    parser.add_argument("--steps", action="store_true", help="show: every step in one line")
    parser.add_argument("-v", "--verbose", action="store_true", help="verify: every move of every call")
    parser.add_argument("--format", dest="export_format", type=one_of(EXPORT_FORMATS),
                        default="jsonl", metavar="FORMAT",
                        help="export: jsonl (to import again) | html | md (to read)")  # fmt: skip
    prune = parser.add_argument_group("prune")
    prune.add_argument("--older-than", type=duration, metavar="AGE", default=timedelta(days=30),
                       help="not used for so long, such as 12h, 30d (the default), 8w")  # fmt: skip
    prune.add_argument("--keep", type=position, metavar="N", default=20,
                       help="the newest N always stay (default 20)")  # fmt: skip
    prune.add_argument("--max-size", type=size, metavar="SIZE",
                       help="the oldest go too until the rest takes no more, such as 500MB")  # fmt: skip
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    _surroundings(parser)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
