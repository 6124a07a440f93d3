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
        ("sandbur eval --compare old.json,new.json", "two results side by side, without a run"),
    )
    suite: str = word(
        "DIR|SUITE", "a folder of tasks, or a shipped suite: smoke, tool-choice, injection, memory", "",
        nargs="?",
    )  # fmt: skip
    sessions: tuple[str, ...] = flag(
        "--sessions", "past sessions as tasks, by id or tag, in place of a suite", (), type=names,
        metavar="ID,TAG",
    )  # fmt: skip
    workspace: Path | None = flag(
        "--workspace", "with --sessions: a folder with the other files", type=path, metavar="DIR"
    )
    decisions: bool = switch(
        "--decisions", "with --sessions: ask the models what the sessions asked; no tool runs"
    )
    repeats: int = flag("--repeats", "runs of each contender at each task (1)", 1, type=count, metavar="N")
    parallel: int = flag("--parallel", "runs at once (2)", 2, type=count, metavar="P")
    budget: float | None = flag(
        "--budget", "begin no further run when this is spent", type=amount, metavar="USD"
    )
    tasks: tuple[str, ...] = flag("--task", "only these tasks", (), type=names, metavar="A,B")
    run_name: str = flag("--name", "another name begins other runs of the same tasks", "", metavar="NAME")
    workers: bool = switch("--workers", "workers of the store carry out the runs: sandbur worker")
    labels: tuple[str, ...] = flag(
        "--labels", "with --workers: those with these labels, which share the data folder", (), type=names,
        metavar="A,B",
    )  # fmt: skip
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
    compare: tuple[str, ...] = flag(
        "--compare", "compare earlier results of --json; nothing runs", (), "result", type=names,
        metavar="FILE,FILE",
    )  # fmt: skip
    pythons: tuple[str, ...] = flag(
        "--python", "run with the versions of Sandbur of these interpreters", (), type=names,
        metavar="PATH,PATH",
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
        self._check_comparison()
        self._check_sessions()
        self._check_workers()
        if self.oracle and (self.overrides.get("model") or self.overrides.get("agent")):
            raise UsageError("--oracle runs no agent.", "Leave -m and --agent out.")
        if self.overrides.get("mode") not in (None, "yolo"):
            raise UsageError("The runs of an evaluation are in the mode yolo.", "Leave --mode out.")
        if self.repeats > _MOST_REPEATS or self.parallel > _MOST_PARALLEL:
            raise UsageError(f"--repeats is at most {_MOST_REPEATS} and --parallel at most {_MOST_PARALLEL}.")

    def _check_comparison(self) -> None:
        if self.compare and (self.suite or self.sessions or self.baseline or self.pythons):
            raise UsageError("--compare runs nothing.", "Name only the results: --compare old.json,new.json")
        if len({Path(one).expanduser().resolve() for one in self.compare}) == 1:
            raise UsageError(f"--compare has one result, {self.compare[0]}.", "Name at least two files.")

    def _check_sessions(self) -> None:
        if not (self.compare or self.suite or self.sessions):
            raise UsageError("`sandbur eval` needs DIR|SUITE or --sessions.", "See `sandbur eval --help`.")
        if self.sessions and (self.suite or self.oracle or self.pythons):
            raise UsageError("--sessions goes with neither a suite, --oracle nor --python.")
        if (self.decisions or self.workspace) and not self.sessions:
            raise UsageError("--decisions and --workspace go with --sessions.")
        if self.decisions and (self.workspace or self.tasks or self.repeats > 1 or "scripted" in self.models):
            raise UsageError(
                "--decisions asks real models once for each request.",
                "Leave --workspace, --task, --repeats and the model scripted out.",
            )

    def _check_workers(self) -> None:
        if self.labels and not self.workers:
            raise UsageError("--labels goes with --workers.")
        if self.workers and (self.decisions or self.oracle or self.pythons):
            raise UsageError("--workers goes with neither --decisions, --oracle nor --python.")
        if self.workers and not all(self.agents):
            raise UsageError(
                "--workers needs --agent: workers load agents by MODULE:NAME, or from agent files.",
                "Name the same one here and there: sandbur worker --agent agent.yaml",
            )


def _split(text: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (one.strip() for one in str(text or "").split(",")))))
