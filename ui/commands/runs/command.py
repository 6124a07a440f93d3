"""The flags of the commands that decide about calls, send messages, or resume sessions."""

from __future__ import annotations

from pathlib import Path

from ....state.errors import UsageError
from ...cli.argument_types import count, one_of
from ...cli.grammar import ID, Command, RunCommand, flag, switch, word
from ...terminal.standard_output import keep_stdout_for_answers

_CALLS = "the ids of the calls; not needed if only one waits"


class DecideCommand(RunCommand):
    """The commands `approve`, `deny` and `settle`."""

    HOME = "decide.decide"

    edit: Path | None = flag(
        "--edit", "run the call with the JSON arguments in FILE", only="approve", type=Path, metavar="FILE"
    )
    reason: str = flag("--reason", "sent to the model", "", only="deny", metavar="TEXT")
    settle_as: str | None = flag(
        "--as", "done: it took effect; failed: it did not; rerun: run it once more; check: the model checks",
        only="settle", type=one_of(("done", "failed", "rerun", "check")), metavar="OUTCOME",
    )  # fmt: skip
    result: str = flag(
        "--result", "what the model reads, with done, failed or check", "", only="settle", metavar="TEXT"
    )
    all: bool = switch("--all", "every waiting call", only="approve deny")
    plan: bool = switch("--plan", "the plan that waits, with all that it names", only="approve deny")
    session: str = word("ID", f"{ID}; without it, the only one of this folder that waits", "", nargs="?")
    calls: tuple[str, ...] = word("CALL", _CALLS, (), nargs="*")
    record_only: bool = switch("--record-only", "record the decision, run nothing")

    @property
    def opens_stored(self) -> bool:
        return not self.record_only

    async def run(self) -> int:
        with keep_stdout_for_answers():
            return await super().run()

    def check(self) -> None:
        if not (self.session or self.all or self.plan):
            raise UsageError(
                f"`sandbur {self.name}` needs ID, --all or --plan.",
                f"Without ID, it is the only session here that waits: sandbur {self.name} --help",
            )
        if self.calls and self.all:
            raise UsageError("CALL and --all contradict each other.", "Keep one of them.")
        if self.plan and (self.calls or self.all):
            raise UsageError("--plan names the call already.", "Leave CALL and --all out.")


class SettleCommand(DecideCommand):
    calls: tuple[str, ...] = word("CALL", "the id of the call; not needed if only one waits", (), nargs="*")

    def check(self) -> None:
        if self.settle_as is None:
            raise UsageError("`sandbur settle` needs --as.", "Add --as done, failed, rerun or check.")
        if self.result and self.settle_as == "rerun":
            raise UsageError(
                "--result needs --as done, failed or check.", "A call that runs again has its own result."
            )
        if len(self.calls) > 1:
            raise UsageError("`sandbur settle` takes one call at a time.")


class SteerCommand(Command):
    HOME = "steer.leave_message"
    EXAMPLES = (
        ('sandbur steer 3f2a "use tabs"', "the model reads it before its next call"),
        ('sandbur steer 3f2a --queue "then run the tests"', "sent when the run is over"),
        ("git diff | sandbur steer 3f2a -", "the message is on stdin"),
    )
    session: str = word("ID", ID)
    text: str = word("TEXT", "the message; - reads it from stdin")
    queue: bool = switch("--queue", "send it when the run is over, as the next message")
    json: bool = switch("--json", "JSON on stdout")


class ResumeCommand(RunCommand):
    HOME = "resume.resume_due"
    due: bool = switch("--due", "every run that is due, one after the other")
    limit: int | None = flag("--limit", "at most N runs", type=count, metavar="N")
    dry_run: bool = switch("--dry-run", "only list the runs")

    async def run(self) -> int:
        with keep_stdout_for_answers():
            return await super().run()

    def check(self) -> None:
        if not self.due:
            raise UsageError("`sandbur resume` needs --due.", "To resume one session: sandbur -r ID")
