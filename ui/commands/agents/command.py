"""The flags and the actions of `sandbur agents`."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import one_of
from ...cli.grammar import Action, ActionCommand, switch, word


class AgentsCommand(ActionCommand):
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the agents that a session of this folder can start", ("--json",),
                       home="listing.list_agents"),
        "show": Action("NAME", "what the file of an agent sets, and its instructions", ("--json",), (
            ("sandbur agents show reviewer", ""),
        ), home="listing.show_agent"),
        "new": Action("NAME", "write the file of a new agent, to be edited", ("--user",), (
            ("sandbur agents new reviewer", "in .sandbur/agents of this project"),
            ("sandbur agents new reviewer --user", "for all projects"),
        ), home="template.write_agent"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "list or show agents, or write a new one", "list", nargs="?",
        type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    agent: str = word("NAME", "show, new: the name of the agent", nargs="?")
    user: bool = switch("--user", "new: in your own folder, for all projects")
    json: bool = switch("--json", "list, show: JSON on stdout, one object per line")

    def list_words(self, action: str) -> Iterable[tuple[str, str]]:
        return self._load("listing.list_names")() if action == "show" else ()

    def check(self) -> None:
        """Check that there is a name where one is needed, and that flags are for this action."""
        if self.action == "list" and self.agent:
            raise UsageError(
                f"`{self.agent}` is one word too many.", f"Did you mean: sandbur agents show {self.agent}"
            )
        if self.action != "list" and not self.agent:
            raise UsageError(
                f"`sandbur agents {self.action}` needs the NAME of an agent.",
                "`sandbur agents list` lists them.",
            )
        if self.user and self.action != "new":
            raise UsageError("--user belongs to `sandbur agents new`.")
        if self.json and self.action == "new":
            raise UsageError("--json belongs to `sandbur agents list` and `sandbur agents show`.")
