"""The flags and the actions of `sandbur plan`."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from .....state.errors import UsageError
from ....cli.argument_types import one_of
from ....cli.grammar import ID, Action, RunCommand, flag, switch, word


class PlanCommand(RunCommand):
    GROUPS = ("run", "limits", "output", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the saved plans of this folder, and your own", ("--json",),
                       home="saved.list_plans"),
        "show": Action("NAME", "a saved plan, and what it may do", ("--json",), (
            ("sandbur plan show release", ""),
        ), home="saved.show_plan"),
        "use": Action("NAME [KEY=VALUE...] [TEXT]", "carry out a saved plan, headless",
                      ("--approve", "--resume"), (
            ("sandbur plan use release version=2.1 --approve", "with all that it may do"),
        ), home="saved.use_plan"),
        "save": Action("NAME ID", "write the plan of a session to a file, to be edited and used again",
                       ("--user",), (
            ("sandbur plan save release 3f2a", "in .sandbur/plans of this project"),
        ), home="saved.save_session_plan"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "list, show, use or save plans", "list", nargs="?", type=one_of(tuple(ACTIONS))
    )
    plan: str = word("NAME", "the name of the plan", nargs="?")
    words: tuple[str, ...] = word("WORD", "use: values and further text; save: the session", (), nargs="*")
    approve: bool = switch("--approve", "use: approve the plan with all that it may do")
    resume: str = flag("--resume", f"use: in the session with this {ID}", "", metavar="ID")
    user: bool = switch("--user", "save: in your own folder, for all projects")
    json: bool = switch("--json", "list, show: JSON on stdout, one object per line")

    async def run(self) -> int:
        return await self._load(self.ACTIONS[self.action].home)(self)

    def list_words(self, action: str) -> Iterable[tuple[str, str]]:
        return self._load("saved.list_names")() if action in ("show", "use") else ()

    def check(self) -> None:
        """Check that there is a name where one is needed, and that flags are for this action."""
        if self.action == "list" and self.plan:
            raise UsageError(
                f"`{self.plan[:40]}` is one word too many.", "Did you mean: sandbur plan show NAME"
            )
        if self.action != "list" and not self.plan:
            raise UsageError(
                f"`sandbur plan {self.action}` needs the NAME of a plan.", "`sandbur plan list` lists them."
            )
        if self.action == "save" and len(self.words) != 1:
            raise UsageError("`sandbur plan save` needs a session.", "For example: sandbur plan save NAME ID")
        if self.action == "show" and self.words:
            raise UsageError(f"`{self.words[0][:40]}` is one word too many.")
        if (self.approve or self.resume) and self.action != "use":
            raise UsageError("--approve and --resume belong to `sandbur plan use`.")
        if self.user and self.action != "save":
            raise UsageError("--user belongs to `sandbur plan save`.")
        if self.json and self.action not in ("list", "show"):
            raise UsageError("--json belongs to `sandbur plan list` and `sandbur plan show`.")
