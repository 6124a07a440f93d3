"""The flags of `sandbur eval`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from .....state.errors import UsageError
from ....cli.argument_types import amount, count, names, path
from ....cli.grammar import Command, Example, flag, switch, word

_MOST_REPEATS = 1_000
_MOST_PARALLEL = 64


class EvalCommand(Command):
    HOME = "run_evaluation.run_evaluation"
    GROUPS = ("result", "run", "limits", "place")
    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        ("sandbur eval smoke -m scripted", "the shipped tasks, without a model"),
        ("sandbur eval tool-choice -m A,B", "which functions two models call"),
        ("sandbur eval tasks/ -m A,B --repeats 5", "two models, five runs at each task"),
        ("sandbur eval tasks/ --oracle", "the tasks themselves: their solutions have to pass"),
        ("sandbur eval tasks/ -m A --json > base.json", "keep the result"),
        ("sandbur eval tasks/ -m B --baseline base.json", "exit code 4 if it is worse"),
    )
    suite: str = word(
        "DIR|SUITE", "a folder of tasks, or a shipped suite: smoke, tool-choice, injection, memory", ""
    )
    repeats: int = flag("--repeats", "runs of each contender at each task (1)", 1, type=count, metavar="N")
    parallel: int = flag("--parallel", "runs at once (2)", 2, type=count, metavar="P")
    budget: float | None = flag(
        "--budget", "begin no further run when this is spent", type=amount, metavar="USD"
    )
    tasks: tuple[str, ...] = flag("--task", "only these tasks", (), type=names, metavar="A,B")
    run_name: str = flag("--name", "another name begins other runs of the same tasks", "", metavar="NAME")
    oracle: bool = switch("--oracle", "run the solutions of the tasks in place of an agent")
    quiet: bool = switch("-q --quiet", "no line for each run on stderr")
    json: bool = switch("--json", "the result as JSON on stdout", "result")
    html: Path | None = flag(
        "--html", "write a page with all runs", None, "result", type=path, metavar="FILE"
    )
    baseline: Path | None = flag(
        "--baseline", "exit code 4 if a contender is worse than in this result", None, "result", type=path,
        metavar="FILE",
    )  # fmt: skip

    @property
    def models(self) -> tuple[str, ...]:
        """The models; `-m A,B` names two. Without one, that of the settings."""
        return _split(self.overrides.get("model")) or ("",)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents; `--agent X,Y` names two. Without one, the agent of the command."""
        return _split(self.overrides.get("agent")) or ("",)

    def check(self) -> None:
        if self.oracle and (self.overrides.get("model") or self.overrides.get("agent")):
            raise UsageError("--oracle runs no agent.", "Leave -m and --agent out.")
        if self.overrides.get("mode") not in (None, "yolo"):
            raise UsageError("The runs of an evaluation are in the mode yolo.", "Leave --mode out.")
        if self.repeats > _MOST_REPEATS or self.parallel > _MOST_PARALLEL:
            raise UsageError(f"--repeats is at most {_MOST_REPEATS} and --parallel at most {_MOST_PARALLEL}.")


def _split(text: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (one.strip() for one in str(text or "").split(",")))))
