"""The flags and the actions of `sandbur policy`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import one_of
from ...cli.grammar import Action, ActionCommand, flag, switch, word
from ...cli.time_types import duration

_USUAL_DAYS = 30


class PolicyCommand(ActionCommand):
    GROUPS = ("run", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "check": Action("COMMAND | -", "the gate's verdict on a command here, and why",
                        ("--json", "--mode", "--plan"), (
            ("sandbur policy check 'git push origin main'", ""),
            ("sandbur policy check - --json < calls.jsonl", "a verdict for each line, in order"),
        ), home="check.check"),
        "test": Action("[FILE]", "the verdicts of other rules on past calls", ("--last", "--json"), (
            ("sandbur policy test strict.toml --last 30d", ""),
        ), home="past.test_rules"),
        "suggest": Action("", "rules that would have avoided questions", ("--last", "--json"),
                          home="past.suggest_rules"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), "check a command, test rules on the past, suggest rules", "",
                       type=one_of(tuple(ACTIONS)))  # fmt: skip
    what: str = word(
        "WHAT",
        "check: a shell command, or - for calls as JSON lines on stdin; test: a file with other rules",
        nargs="?",
    )
    last: timedelta = flag(
        "--last", f"test, suggest: use the calls of this time, such as 12h or {_USUAL_DAYS}d (the default)",
        timedelta(days=_USUAL_DAYS), type=duration, metavar="AGE",
    )  # fmt: skip
    plan: str = flag("--plan", "check: under the approved plan of this session", "", metavar="ID")
    json: bool = switch("--json", "JSON on stdout")

    def check(self) -> None:
        if self.action == "check" and not self.what:
            raise UsageError(
                "`sandbur policy check` needs a shell command.",
                "For example: sandbur policy check 'git status'",
            )
        if self.action == "check" and self.what == "-" and not self.json:
            raise UsageError("`sandbur policy check -` reads and writes JSON lines.", "Add --json.")
        if self.action == "suggest" and self.what:
            raise UsageError(f"`{self.what}` is one word too many.", "See `sandbur policy --help`.")
        if self.action == "check" and self.last != PolicyCommand().last:
            raise UsageError("--last belongs to `sandbur policy test` and `sandbur policy suggest`.")
