"""The flags of the commands that look at recorded runs: watch, replay, compare, measure."""

import argparse
from collections.abc import Callable

from ui.values import amount, count, names, one_of, port, position

Add = Callable[[argparse.ArgumentParser], None]

COMMANDS = {
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
