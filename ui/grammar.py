"""The flags and commands as argparse parsers, one parser a command."""

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from state.errors import UsageError
from ui.review_grammar import COMMANDS as REVIEW_COMMANDS
from ui.review_grammar import parsers as review_parsers
from ui.terminal import put
from ui.values import amount, count, duration, edit, names, one_of, position, size, uuid

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

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
        **review_parsers(_surroundings),
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
