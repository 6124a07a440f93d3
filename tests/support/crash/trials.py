"""One trial: run the real command, let it die as planned, carry it on, and see whether anything is wrong."""

import shutil
import signal
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from support.crash.checks import check_audit, check_files, check_journal, check_requests, check_world
from support.crash.place import Ended, Place
from support.crash.points import reached
from support.crash.scenarios import SCENARIOS, Scenario, word_of
from support.models.server import ModelServer

MOST_PROCESSES = 14
"""That many starts have to be enough for any trial."""


@dataclass(frozen=True)
class Trial:
    scenario: str
    crashes: tuple[str, ...] = ()
    """How each process in turn ends, as `LinePosition.run` takes it; later ones are left alone."""
    wire: str = "chat"
    store: str = ""
    """A store's URL; empty: a SQLite file of the trial's own."""
    row: str = ""
    """Of the table; empty: by the first crash."""
    settle: str = "honest"
    """What the person says about an unknown outcome: the truth, or always the same."""

    def __str__(self) -> str:
        return f"{self.scenario}/{self.wire} {' '.join(self.crashes) or 'undisturbed'}"


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    problems: tuple[str, ...]
    deaths: int
    seconds: float
    points: tuple[Counter[str], ...] = ()
    """How often each process in turn reached each crash point; only of a recorded trial."""
    lengths_s: tuple[float, ...] = ()
    """How long each process ran."""


def run_trial(trial: Trial, folder: Path | None = None, record: bool = False) -> Outcome:
    """Run in `folder`, or in one that is gone afterwards unless something was wrong."""
    own = Path(tempfile.mkdtemp(prefix="sandbur-trial-")) if folder is None else folder
    began = time.monotonic()
    scenario = SCENARIOS[trial.scenario]
    with ModelServer(scenario.responder()) as server:
        place = Place(own, server, trial.wire, trial.store)
        course = Course(place, scenario, trial, record)
        with scenario.world(own) if scenario.world else nullcontext():
            problems = list(course.problems())
    if problems:
        problems.append(f"see {own}")
    seconds = time.monotonic() - began
    points = tuple(reached(trace) for trace in course.traces) if record else ()
    outcome = Outcome(trial, tuple(problems), course.deaths, seconds, points, tuple(course.lengths_s))
    if folder is None and not problems:
        shutil.rmtree(own, ignore_errors=True)
    return outcome


class Course:
    """The processes of one trial, one after the other."""

    def __init__(self, place: Place, scenario: Scenario, trial: Trial, record: bool) -> None:
        self.deaths = 0
        self.is_begun = False
        """True if the store holds what an earlier process left."""
        self.traces: list[Path] = []
        self.lengths_s: list[float] = []
        self.told = 0
        """Unknown outcomes that a person was asked about."""
        self._place = place
        self._scenario = scenario
        self._trial = trial
        self._record = record
        self._crashes = deque(trial.crashes)
        self._sessions = [place.session_id]

    def problems(self) -> Iterator[str]:
        """Yield what is wrong; stop at what makes going on pointless."""
        database = self._place.home / "sandbur.db"
        if self._scenario.prepare:
            self._scenario.prepare(database)
        for number, message in enumerate(self._scenario.messages):
            if number and self._scenario.forks:
                yield from self._fork()
            if number and self._scenario.between:
                self._scenario.between(database)
            stuck = yield from self._until_answered(message, self._scenario.answers[number], number == 0)
            if stuck:
                return
        place, scenario = self._place, self._scenario
        yield from check_requests(place, scenario.messages)
        yield from check_world(place, scenario, self.deaths, self._trial.settle, self.is_begun)
        yield from check_files(place, scenario, is_over=True)
        for session_id in self._sessions:
            yield from check_journal(place, session_id)
            if scenario.name != "damaged":
                yield from check_audit(place, session_id)

    def _until_answered(self, message: str, answer: str, is_first: bool) -> Iterator[str]:
        """Start processes until the answer is there; returns whether it never came."""
        session = self._sessions[-1]
        resume = ("-p", "-r", session, "-C", str(self._place.workspace))
        send = ("-p", message, "-r", session)
        create = ("-p", message, "-m", self._place.model, "--session-id", session, *self._scenario.flags)
        words = send if not is_first else resume if self.is_begun else create
        for _ in range(MOST_PROCESSES):
            ended = self._run(*words, "--output-format", "json")
            yield from self._look(ended)
            status = ended.result.get("status")
            if ended.code == -signal.SIGKILL:
                words = resume
            elif ended.code == 2 and "There is no session" in ended.err and is_first:
                words = create
            elif status == "done" and ended.code == 0 and ended.result["result"] == answer:
                return False
            elif status == "done" and not self._was_taken_in(message):
                words = send
            elif status == "needs_approval" and ended.code == 3:
                words = ("approve", session, "--all")
            elif status == "needs_decision" and ended.code == 3:
                words = yield from self._settled(session, ended)
            else:
                said = f"{ended.out[-300:]} {ended.err[-600:]}"
                yield f"`{' '.join(words[:3])}` ended with {ended.code}: {said}"
                return True
        yield f"not answered after {MOST_PROCESSES} processes: {ended.out[-300:]}"
        return True

    def _run(self, *words: str) -> Ended:
        crash = self._crashes.popleft() if self._crashes else ""
        began = time.monotonic()
        self.traces.append(self._place.folder / f"trace-{len(self.traces)}")
        ended = self._place.run(*words, crash=crash, trace=self.traces[-1] if self._record else None)
        self.lengths_s.append(time.monotonic() - began)
        self.deaths += ended.code == -signal.SIGKILL
        return ended

    def _look(self, ended: Ended) -> Iterator[str]:
        """Look at what must hold whenever no process runs."""
        if "Traceback" in ended.err or "internal error" in ended.err:
            yield f"a traceback: {ended.err[-600:]}"
        if left := self._place.left_running():
            yield f"still running: {left}"
        yield from check_files(self._place, self._scenario, is_over=False)

    def _was_taken_in(self, message: str) -> bool:
        """Tell whether the model was ever shown the message: then it must not be lost any more."""
        return any(message in request.raw.decode() for request in self._place.server.requests)

    def _settled(self, session: str, ended: Ended) -> Iterator[str]:
        """Return the words that settle the first call whose outcome is unknown."""
        unknown = [one for one in ended.result["pending"] if one["kind"] == "outcome_unknown"]
        if not unknown:
            yield f"a decision is needed, but about what? {ended.out}"
            return ("-p", "-r", session)
        self.told += 1
        if self.told > self.deaths:
            yield f"asked {self.told} times about {self.deaths} deaths"
        word = word_of(unknown[0]["arguments"])
        is_done = bool(word) and f"{word}-end" in self._place.effects
        honest = "done" if is_done else "rerun"
        how = honest if self._trial.settle == "honest" else self._trial.settle
        return ("settle", session, unknown[0]["call_id"], "--as", how)

    def _fork(self) -> Iterator[str]:
        while (ended := self._run("fork", self._sessions[-1])).code == -signal.SIGKILL:
            pass
        if ended.code:
            yield f"fork ended with {ended.code}: {ended.err}"
        self._sessions.append(ended.out.strip().split()[-1])


def in_parallel(trials: Iterable[Trial], workers: int, record: bool = False) -> "list[Future[Outcome]]":
    """Start the trials; each future has the outcome of one."""
    pool = ThreadPoolExecutor(workers)
    started = [pool.submit(run_trial, trial, None, record) for trial in trials]
    pool.shutdown(wait=False)
    return started
