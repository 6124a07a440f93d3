"""The flags of `sandbur replay` and of `sandbur test add`."""

from __future__ import annotations

from ....agent.config.settings import Overrides
from ....state.errors import UsageError
from ...cli.argument_types import names, one_of, position
from ...cli.grammar import ID, Command, flag, switch, word

_LIVE = ("model", "tools")


class ReplayCommand(Command):
    HOME = "replay.replay_run"
    session: str = word("ID", f"{ID}; or a recording FILE")
    from_seq: int | None = flag("--from", "begin after this step", type=position, metavar="SEQ")
    live: tuple[str, ...] = flag(
        "--live", "use the real model, or the real tools (after a question)", (), type=names,
        metavar="model|tools",
    )  # fmt: skip
    """`model`, `tools` or both."""
    ignore_tools: bool = switch("--ignore-tools", "ignore changed, new and removed tools")
    model: str | None = flag(
        "-m --model", "what if: continue after SEQ with this model in a fork; its calls really run",
        metavar="PROVIDER/MODEL",
    )  # fmt: skip
    files: bool = switch("--files", "with -m: restore the files in the session's folder first")
    yes: bool = switch("--yes", "with --files: change files without a question")
    yolo: bool = switch("-y --yolo", "run real tools without a question")
    json: bool = switch("--json", "JSON on stdout")

    @property
    def settings(self) -> Overrides:
        return {**self.overrides, "model": self.model, "mode": "yolo" if self.yolo else None}

    def check(self) -> None:
        for part in self.live:
            if part not in _LIVE:
                raise UsageError(f"--live: there is no {part!r}.", "Use model, tools or model,tools.")
        if self.model is not None and self.live:
            raise UsageError("-m and --live contradict each other: with -m model and tools are real.")
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
    test_name: str = flag("--name", "the name of the test (default: from the title)", "", metavar="NAME")
    to: str = flag("--to", "the folder of your tests (default tests)", "tests", metavar="DIR")
    force: bool = switch("--force", "replace a recording with this name")
