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
    def settings(self) -> Overrides:
        return {**self.overrides, "model": self.model, "mode": "yolo" if self.yolo else None}

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
