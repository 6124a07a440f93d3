"""The flags of the commands that look at recorded runs, or go on from one of their steps."""

from __future__ import annotations

from ....agent.config.settings import Said
from ....state.errors import UsageError
from ...cli.argument_types import amount, count, edit, names, one_of, position
from ...cli.grammar import ID, Command, flag, switch, word

_LIVE = ("model", "tools")


class ReplayCommand(Command):
    HOME = "replay.replay_run"
    session: str = word("ID", f"{ID}; or a recording FILE")
    from_seq: int | None = flag("--from", "begin after this step", type=position, metavar="SEQ")
    live: tuple[str, ...] = flag(
        "--live", "ask the real model, or run the real tools (asks first)", (), type=names,
        metavar="model|tools",
    )  # fmt: skip
    """`model`, `tools` or both."""
    ignore_tools: bool = switch("--ignore-tools", "tools in other words, new or gone are no difference")
    model: str | None = flag(
        "-m --model", "what if: go on after SEQ with this model, in a fork, for real",
        metavar="PROVIDER/MODEL",
    )  # fmt: skip
    files: bool = switch("--files", "with -m: bring the files in the session's folder back first")
    yes: bool = switch("--yes", "with --files: change them unasked")
    yolo: bool = switch("-y --yolo", "ask nothing before real tools run")
    json: bool = switch("--json", "JSON on stdout")

    @property
    def settings(self) -> Said:
        return {**self.said, "model": self.model, "mode": "yolo" if self.yolo else None}

    def check(self) -> None:
        for part in self.live:
            if part not in _LIVE:
                raise UsageError(f"--live: there is no {part!r}.", "It is model, tools, or model,tools.")
        if self.model is not None and self.live:
            raise UsageError("-m and --live contradict each other: with -m everything is real.")
        if self.model is not None and self.from_seq is None:
            raise UsageError(
                "-m needs --from SEQ: the step after which the other model takes over.",
                f"See the steps: sandbur sessions show {self.session} --steps",
            )
        if self.model is not None and self.ignore_tools:
            raise UsageError("-m and --ignore-tools contradict each other: with -m nothing is compared.")
        if self.files and self.model is None:
            raise UsageError("--files goes with -m: a replay changes no file.")
        if self.yes and not self.files:
            raise UsageError("--yes goes with --files.")


class AddTestCommand(Command):
    HOME = "replay.add_test"
    action: str = word("add", None, "add", type=one_of(("add",)))
    session: str = word("ID", ID)
    test_name: str = flag("--name", "of the test; made of the title if left out", "", metavar="NAME")
    to: str = flag("--to", "where your tests are (default tests)", "tests", metavar="DIR")
    force: bool = switch("--force", "replace a recording of this name")


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
        "--at", "the step to fork from; the last one if left out", type=position, metavar="SEQ"
    )
    edits: tuple[str, ...] = flag(
        "--set", "change the state at that step; repeatable", (), action="append", type=edit,
        metavar="PATH=VALUE",
    )  # fmt: skip
    """PATH=VALUE each."""
    files: bool = switch(
        "--files", "bring the files in the session's folder, or -C DIR, back to what they were"
    )
    yes: bool = switch("--yes", "with --files: change them unasked")

    def check(self) -> None:
        if self.yes and not self.files:
            raise UsageError("--yes goes with --files.")
