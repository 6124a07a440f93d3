"""The flags and the actions of `sandbur try`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from .....agent.config.settings import Overrides
from .....state.errors import UsageError
from ....cli.argument_types import count, nearest
from ....cli.grammar import Example, flag, switch, word
from ....terminal.terminal import is_piped
from ...chat import ChatCommand

BEGINS = "SANDBUR_TRIAL_BEGINS"
"""The environment variable that a process finds once if it begins the session of a trial."""
OF_CHAT = "SANDBUR_TRIAL_OF_CHAT"
"""The environment variable with the id for the trial that a chat begins; the chat shows what it changed."""
TRIAL_ACTIONS = {
    "list": "managing.list_all",
    "diff": "managing.show_diff",
    "apply": "applying.apply",
    "undo": "applying.undo",
    "drop": "managing.drop",
}
_LIKE_ACTIONS = {
    **dict.fromkeys(("ls", "status", "show-all", "history"), "list"),
    **dict.fromkeys(("show", "changes", "review"), "diff"),
    **dict.fromkeys(("accept", "keep", "merge", "commit"), "apply"),
    **dict.fromkeys(("revert", "restore", "rollback"), "undo"),
    **dict.fromkeys(("delete", "remove", "rm", "discard", "reject"), "drop"),
}
"""Words of other programs -> the action that means the same."""
_MOST_ATTEMPTS = 20


class TryCommand(ChatCommand):
    WORDS: ClassVar[tuple[str, ...]] = tuple(TRIAL_ACTIONS)
    GROUPS = ("attempts", "run", "limits", "output", "place")
    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        ('sandbur try "upgrade pydantic"', "a chat in a copy of this folder"),
        ('sandbur try -p "upgrade pydantic"', "headless; the changes wait for you"),
        ("sandbur try diff", "the changes of the newest trial of this folder"),
        ("sandbur try apply --merge", "apply them, joined with changes made meanwhile"),
        ("sandbur try undo", "take the applied changes back"),
        ("sandbur try drop 3f2a", "remove a trial with its copy"),
        ('sandbur try "fix the test" -n 3 --check "pytest -q"', "three attempts, compared by a check"),
        ('sandbur try "fix the test" -m A,B', "one attempt for each model"),
    )
    prompt: str | None = word("TASK", "what to do; or list, diff, apply, undo, drop", None, nargs="?")
    trial: str | None = word("ID", "diff, apply, undo, drop: a trial; without it the newest", None, nargs="?")
    print: bool = switch("-p --print", "headless: run to the end, print the answer")
    any_size: bool = switch("--any-size", "copy the folder without a question, however large it is")
    ignored: bool = switch("--ignored", "diff, apply: files that git ignores, too")
    merge: bool = switch("--merge", "apply: join both changes of files that changed meanwhile")
    skip_conflicts: bool = switch("--skip-conflicts", "apply: leave out files that changed meanwhile")
    yes: bool = switch("--yes", "apply, undo, drop: without a question")
    json: bool = switch("--json", "list, diff: JSON on stdout, one object per line")
    attempts: int | None = flag(
        "-n --attempts", "run the task N times, each time in a copy of its own", group="attempts", type=count,
        metavar="N",
    )  # fmt: skip
    check_command: str = flag(
        "--check", "run CMD in each copy after the task; exit code 0 is a success", "", "attempts",
        metavar="CMD",
    )  # fmt: skip
    apply_best: bool = switch("--apply-best", "apply the best attempt without a question", "attempts")

    @property
    def action(self) -> str:
        """The action instead of a task, or an empty text."""
        return self.prompt if self.prompt in TRIAL_ACTIONS else ""

    @property
    def models(self) -> tuple[str, ...]:
        """The models of several attempts; `-m A,B` names two."""
        names = str(self.overrides.get("model") or "").split(",")
        return tuple(filter(None, (name.strip() for name in names)))

    @property
    def is_several(self) -> bool:
        return self.attempts is not None or len(self.models) > 1 or bool(self.check_command)

    def check(self) -> None:
        """Check that words and flags belong to the action."""
        super().check()
        if self.trial and not self.action:
            hint = 'A task of several words needs quotes: sandbur try "..."'
            raise UsageError(f"`{self.trial}` is one word too many.", hint)
        if self.ignored and self.action not in ("diff", "apply"):
            raise UsageError("--ignored belongs to `sandbur try diff` and `sandbur try apply`.")
        if self.json and self.action not in ("list", "diff"):
            hint = "For the result of a run: --output-format json"
            raise UsageError("--json belongs to `sandbur try list` and `sandbur try diff`.", hint)
        if self.yes and self.action not in ("apply", "undo", "drop"):
            raise UsageError("--yes belongs to `sandbur try apply`, `undo` and `drop`.")
        self._check_task()
        self._check_conflict_flags()
        if self.action and self.is_several:
            raise UsageError("-n, --check and several models belong to a task.", "Leave them out.")
        if self.attempts is not None and self.attempts > _MOST_ATTEMPTS:
            raise UsageError(f"-n {self.attempts}: at most {_MOST_ATTEMPTS} attempts are possible.")
        if self.apply_best and not self.check_command:
            raise UsageError("--apply-best needs a check that finds the best attempt.", "Add --check CMD.")
        if self.is_several and self.prompt is None:
            raise UsageError("Several attempts need a TASK.", 'sandbur try "..." -n 3')

    def _check_task(self) -> None:
        """Raise `UsageError` if there is no task, or a single word that sounds like an action."""
        if BEGINS in os.environ:
            return
        if self.prompt is None and not self.is_several and not is_piped():
            raise UsageError(
                "A trial needs a task.", 'sandbur try "..."; `sandbur try list` lists the trials'
            )
        word = (self.prompt or "").strip().lower()
        if self.print or word in TRIAL_ACTIONS or " " in word:
            return
        if meant := _LIKE_ACTIONS.get(word) or nearest(word, TRIAL_ACTIONS):
            hint = f"Did you mean `sandbur try {meant}`? A task of one word needs -p."
            raise UsageError(f"`sandbur try` has no action `{word}`.", hint)

    def _check_conflict_flags(self) -> None:
        if (self.merge or self.skip_conflicts) and self.action != "apply":
            raise UsageError("--merge and --skip-conflicts belong to `sandbur try apply`.")
        if self.merge and self.skip_conflicts:
            raise UsageError("--merge and --skip-conflicts contradict each other.", "Keep one of them.")

    @property
    def settings(self) -> Overrides:
        """The settings of the flags. Where the copy does not take the place of the folder, `--add-dir` names
        the copies."""
        folders = os.environ.get(f"{BEGINS}_FOLDERS")
        if folders is None or not self.overrides.get("add_dirs"):
            return self.overrides
        return {**self.overrides, "add_dirs": tuple(map(Path, filter(None, folders.split("\0"))))}

    async def run(self) -> int:
        if self.action:
            return await self._load(TRIAL_ACTIONS[self.action])(self)
        if (trial_id := os.environ.pop(BEGINS, None)) is not None:
            return await super(TryCommand, self.but(session_id=trial_id)).run()
        return await self._load("attempts.run_attempts" if self.is_several else "running.run_task")(self)
