"""The flags and the actions of `sandbur flows`."""

from collections.abc import Mapping
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import one_of
from ...cli.grammar import Action, ActionCommand, switch, word


class FlowsCommand(ActionCommand):
    GROUPS = ("run", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the flows and the skills with triggers, in the order in which they are tried",
                       ("--json",), home="show.list_flows"),
        "test": Action("TEXT", "what a message would start, why, and what that would do; nothing is done",
                       ("--json",), (
            ("sandbur flows test 'where is order 4711?'", ""),
        ), home="show.test_flows"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), "list the flows, or test a text", "", type=one_of(tuple(ACTIONS)))
    text: str = word("TEXT", "test: a message", nargs="?")
    json: bool = switch("--json", "JSON on stdout")

    def check(self) -> None:
        if self.action == "test" and not self.text:
            raise UsageError("`sandbur flows test` needs a text.", "For example: sandbur flows test 'hello'")
        if self.action == "list" and self.text:
            raise UsageError(f"`{self.text[:40]}` is one word too many.", "See `sandbur flows --help`.")
