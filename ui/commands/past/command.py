"""The flags of the commands that read recorded runs, or continue from one of their steps."""

from __future__ import annotations

from ....state.errors import UsageError
from ...cli.argument_types import amount, count, edit, position
from ...cli.grammar import ID, Command, flag, switch, word


class BisectCommand(Command):
    HOME = "bisect.bisect"
    session: str = word("ID", ID)
    test: str = flag(
        "--test", "a shell command; exit 0: good, 125: skip, else: bad", "", required=True, metavar="CMD"
    )
    timeout: float = flag(
        "--timeout", "after which CMD counts as failed (default 600)", 600.0, type=amount, metavar="SECONDS"
    )
    json: bool = switch("--json", "JSON on stdout")


class StatsCommand(Command):
    HOME = "stats.show_stats"
    days: int | None = flag("--days", "only the last N days", type=count, metavar="N")
    json: bool = switch("--json", "JSON on stdout")


class DiffCommand(Command):
    HOME = "diff.diff_runs"
    session: str = word("ID1", ID)
    other: str = word("ID2", ID)
    json: bool = switch("--json", "JSON on stdout")


class ForkCommand(Command):
    HOME = "fork.fork_session"
    session: str = word("ID", ID)
    at: int | None = flag(
        "--at", "the step to fork from (default: the last step)", type=position, metavar="SEQ"
    )
    edits: tuple[str, ...] = flag(
        "--set", "change the state at that step; repeatable", (), action="append", type=edit,
        metavar="PATH=VALUE",
    )  # fmt: skip
    """Edits of the state, each as PATH=VALUE."""
    files: bool = switch("--files", "restore the files in the session's folder, or -C DIR, as of that step")
    yes: bool = switch("--yes", "with --files: change files without a question")

    def check(self) -> None:
        if self.yes and not self.files:
            raise UsageError("--yes goes with --files.")
