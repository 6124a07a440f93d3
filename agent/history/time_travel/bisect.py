"""Finds the step of a run after which a command fails, by running it on the files after single steps."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Literal

from ....actions.tools.shell.command_output import capture
from ....actions.tools.shell.execution.process import run_supervised, shell_words
from ....actions.tools.shell.execution.spool import CommandLimits, Ended, Spool
from ....state.lazy_dataclass import dataclass
from ....state.process.cancellation import run_to_end, wait_until_done
from ....state.process.temporaries import make_prefix
from .restore import Skipped
from .touched_files import TouchedFiles
from .workspace_copy import WorkspaceCopy

_Verdict = Literal["good", "bad", "skip"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The last good and the first bad index. None: no state is good, or none is bad."""

    good: int | None
    bad: int | None

    @property
    def is_exact(self) -> bool:
        """Return whether the two indexes are neighbours, so that no state between them was skipped."""
        return self.good is not None and self.bad is not None and self.bad - self.good == 1


async def first_bad(count: int, judge: Callable[[int], Awaitable[_Verdict]]) -> Boundary:
    """Find the first bad of `count` states. Judge as few states as possible, each at most once.

    The first state that can be judged has to be good and the last one bad, otherwise the search ends.
    """
    verdicts: dict[int, _Verdict] = {}

    async def verdict(place: int) -> _Verdict:
        if place not in verdicts:
            verdicts[place] = await judge(place)
        return verdicts[place]

    async def first_of(places: Sequence[int]) -> int | None:
        for place in places:
            if await verdict(place) != "skip":
                return place
        return None

    good = await first_of(range(count))
    if good is None or verdicts[good] == "bad":
        return Boundary(None, good)
    bad = await first_of(range(count - 1, good, -1))
    if bad is None or verdicts[bad] == "good":
        return Boundary(good if bad is None else bad, None)
    while (place := await first_of(list(_from_the_middle(good, bad)))) is not None:
        if verdicts[place] == "good":
            good = place
        else:
            bad = place
    return Boundary(good, bad)


def _from_the_middle(low: int, high: int) -> Iterator[int]:
    """Yield the indexes between `low` and `high`, beginning in the middle."""
    middle = (low + high) // 2
    yield from sorted(range(low + 1, high), key=lambda place: abs(place - middle))


_MAX_OUTPUT_BYTES = 50_000_000
_SKIP = 125


@dataclass(frozen=True, slots=True)
class ProbedStep:
    """The verdict of the command about the files after one step."""

    step: int
    """The step after which the files were tested; -1: before the run."""
    verdict: _Verdict
    ending: str
    """How the command ended, or why it did not run."""
    seconds: float = 0
    output: str = ""
    """The output of the command. The middle of a long output is cut out."""


@dataclass(frozen=True, slots=True)
class Bisection:
    probes: tuple[ProbedStep, ...]
    steps: tuple[int, ...]
    """The steps that changed files."""
    good: int | None
    """The last good step. -1: the state before the run is good; None: no state is good."""
    bad: int | None
    """The first step after which the command failed, or None if it never failed."""
    is_exact: bool
    """Whether no step between `good` and `bad` had to be skipped."""

    @property
    def suspects(self) -> list[int]:
        """Return the steps that may have caused the failure; an empty list if there was none."""
        good, bad = self.good, self.bad
        return [] if good is None or bad is None else [step for step in self.steps if good < step <= bad]


class Bisector:
    """Runs a command on copies of the workspace. The workspace itself is only read."""

    def __init__(
        self,
        touched: TouchedFiles,
        root: Path,
        left_out: Sequence[Path],
        command: str,
        timeout_s: float,
        on_probe: Callable[[ProbedStep], None],
        withheld: Set[str] = frozenset(),
    ) -> None:
        """`withheld` are the environment variables that the command does not see, because a model wrote the
        files."""
        self._touched = touched
        self._root = Path(os.path.realpath(root))
        self._left_out = tuple(Path(os.path.realpath(path)) for path in left_out)
        self._command = command
        self._limits = CommandLimits(timeout_s, timeout_s, _MAX_OUTPUT_BYTES)
        self._on_probe = on_probe
        self._withheld = withheld
        self._probes: list[ProbedStep] = []
        self.unread: tuple[str, ...] = ()
        """The files that could not be copied."""

    @property
    def elsewhere(self) -> list[str]:
        """Return the files that the run touched outside of the copied folder."""
        return [path for path in self._touched.paths if not Path(path).is_relative_to(self._root)]

    async def search(self) -> Bisection:
        """Find the first step after which the command fails; raises `UsageError`."""
        steps = self._touched.steps
        states = [-1, *steps]
        with tempfile.TemporaryDirectory(prefix=make_prefix("bisect"), ignore_cleanup_errors=True) as folder:
            place = Path(os.path.realpath(folder)) / (self._root.name or "copy")
            copy = WorkspaceCopy(self._root, place, self._left_out)
            try:
                found = await first_bad(len(states), lambda number: self._judge(copy, states[number]))
            finally:
                copy.remove()
            self.unread = tuple(copy.unread)
        return Bisection(
            tuple(self._probes),
            tuple(steps),
            None if found.good is None else states[found.good],
            None if found.bad is None else states[found.bad],
            found.is_exact,
        )

    async def _judge(self, copy: WorkspaceCopy, step: int) -> _Verdict:
        lacking = await self._prepare(copy, step)
        if lacking:
            path, reason = lacking[0]
            more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
            probe = ProbedStep(step, "skip", f"{os.path.relpath(path, self._root)}: {reason}{more}")
        else:
            probe = await self._run(copy.place, step)
        self._probes.append(probe)
        self._on_probe(probe)
        return probe.verdict

    async def _prepare(self, copy: WorkspaceCopy, step: int) -> list[Skipped]:
        def prepare() -> list[Skipped]:
            copy.make()
            return copy.bring_to(self._touched, step)

        def stop() -> None:
            copy.is_stopped = True

        work = asyncio.ensure_future(asyncio.to_thread(prepare))
        if cancelled := await wait_until_done(work, stop):
            raise cancelled
        return work.result()

    async def _run(self, place: Path, step: int) -> ProbedStep:
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix=make_prefix("command"), ignore_cleanup_errors=True) as folder,
            Spool(Path(folder) / "command", secrets.token_hex(8)) as spool,
        ):
            ended = await run_supervised(
                shell_words(self._command), place, self._limits, spool, lambda: False, self._withheld
            )
            output = (await run_to_end(asyncio.to_thread(capture, spool.output, False))).text
        verdict, ending = _judge_end(ended, self._limits)
        return ProbedStep(step, verdict, ending, time.monotonic() - began, output)


def _judge_end(ended: Ended, limits: CommandLimits) -> tuple[_Verdict, str]:
    if ended.reason in ("timeout", "idle"):
        return "bad", f"not finished after {limits.timeout_s:g} s"
    if ended.problem:
        return "bad", ended.problem
    if ended.status is None:
        return "skip", "another program killed the command"
    if ended.status < 0:
        return "bad", f"signal {-ended.status}"
    if ended.status == _SKIP:
        return "skip", f"exit {_SKIP}"
    return ("bad" if ended.status else "good"), f"exit {ended.status}"
