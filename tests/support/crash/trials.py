"""Runs a trial: starts the real command, kills it as planned, resumes the session, and checks the result."""

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

from support.crash.checks import (
    check_audit,
    check_files,
    check_journal,
    check_requests,
    check_world,
    family,
)
from support.crash.place import Ended, Place
from support.crash.points import count_reached
from support.crash.scenarios import SCENARIOS, Scenario, word_of
from support.models.server import ModelServer

from sandbur.state.store.sessions.deaths import MOST_DEATHS

MOST_PROCESSES = 14
"""The most processes of a trial; a trial that needs more has failed."""


@dataclass(frozen=True)
class Trial:
    scenario: str
    crashes: tuple[str, ...] = ()
    """The crash of each process in turn, as for `Place.run`; later processes are not killed."""
    wire: str = "chat"
    store: str = ""
    """The URL of a store; empty for an own SQLite file."""
    row: str = ""
    """The row of the table; empty if the first crash names it."""
    settle: str = "honest"
    """How the person settles an unknown outcome: `honest` for the truth, or always the same answer."""

    def __str__(self) -> str:
        return f"{self.scenario}/{self.wire} {' '.join(self.crashes) or 'undisturbed'}"


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    problems: tuple[str, ...]
    deaths: int
    seconds: float
    points: tuple[Counter[str], ...] = ()
    """For each process, how often it reached each crash point; only in a recorded trial."""
    lengths_s: tuple[float, ...] = ()
    """The time of each process in seconds."""


def run_trial(trial: Trial, folder: Path | None = None, record: bool = False) -> Outcome:
    """Run a trial in `folder`, or in a temporary folder that is removed if the trial has no problem."""
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
    points = tuple(count_reached(trace) for trace in course.traces) if record else ()
    outcome = Outcome(trial, tuple(problems), course.deaths, seconds, points, tuple(course.lengths_s))
    if folder is None and not problems:
        shutil.rmtree(own, ignore_errors=True)
    return outcome


class Course:
    """The processes of one trial, one after the other."""

    def __init__(self, place: Place, scenario: Scenario, trial: Trial, record: bool) -> None:
        self.deaths = 0
        self.is_begun = False
        """True if an earlier trial began the session."""
        self.traces: list[Path] = []
        self.lengths_s: list[float] = []
        self.asked = 0
        """The number of unknown outcomes that a person was asked about."""
        self._place = place
        self._scenario = scenario
        self._trial = trial
        self._record = record
        self._crashes = deque(trial.crashes)
        self._sessions = [place.session_id]

    def problems(self) -> Iterator[str]:
        """Yield the problems of the trial; stop at a problem after which no check makes sense."""
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
        for session_id in (one for root in self._sessions for one in family(place, root)):
            yield from check_journal(place, session_id)
            if scenario.name != "damaged":
                yield from check_audit(place, session_id)

    def _until_answered(self, message: str, answer: str, is_first: bool) -> Iterator[str]:
        """Start processes until the answer arrives, and yield problems; return whether it never arrived."""
        session = self._sessions[-1]
        resume = ("-p", "-r", session, "-C", str(self._place.workspace))
        send = ("-p", message, "-r", session)
        create = ("-p", message, "-m", self._place.model, "--session-id", session, *self._scenario.flags)
        words = send if not is_first else resume if self.is_begun else create
        if self._scenario.program:
            # A program does the same each time.
            words = send = resume = create = (session, self._place.model)
        for _ in range(MOST_PROCESSES):
            ended = self._run(*words, *(() if self._scenario.program else ("--output-format", "json")))
            yield from self._look(ended)
            status = ended.result.get("status")
            if ended.code == -signal.SIGKILL:
                words = resume
            elif ended.code == 2 and "There is no session" in ended.err and is_first:
                words = create
            elif status == "done" and ended.code == 0 and ended.result["result"] == answer:
                self._sessions += ended.result.get("sessions", ())
                return False
            elif status == "done" and not self._was_taken_in(message):
                words = send
            elif status == "needs_approval" and ended.code == 3:
                words = ("approve", session, "--all")
            elif status == "needs_decision" and ended.code == 3:
                words = yield from self._settle_words(session, ended)
            else:
                output = f"{ended.out[-300:]} {ended.err[-600:]}"
                yield f"`{' '.join(words[:3])}` ended with {ended.code}: {output}"
                return True
        yield f"not answered after {MOST_PROCESSES} processes: {ended.out[-300:]}"
        return True

    def _run(self, *words: str) -> Ended:
        crash = self._crashes.popleft() if self._crashes else ""
        began = time.monotonic()
        self.traces.append(self._place.folder / f"trace-{len(self.traces)}")
        trace = self.traces[-1] if self._record else None
        ended = self._place.run(*words, crash=crash, trace=trace, program=self._scenario.program)
        self.lengths_s.append(time.monotonic() - began)
        self.deaths += ended.code == -signal.SIGKILL
        return ended

    def _look(self, ended: Ended) -> Iterator[str]:
        """Yield the problems of the checks that must hold whenever no process runs."""
        if "Traceback" in ended.err or "internal error" in ended.err:
            yield f"a traceback: {ended.err[-600:]}"
        if left := self._place.left_running():
            yield f"still running: {left}"
        yield from check_files(self._place, self._scenario, is_over=False)

    def _was_taken_in(self, message: str) -> bool:
        """Return whether a request contained the message, which then must not be lost."""
        return any(message in request.raw.decode() for request in self._place.server.requests)

    def _settle_words(self, session: str, ended: Ended) -> Iterator[str]:
        """Return the words that settle the first call of unknown outcome, or let a parked session go on."""
        if (ended.result.get("error") or {}).get("code") == "session_parked":
            if self.deaths < MOST_DEATHS:
                yield f"parked after {self.deaths} deaths"
            return ("approve", session)
        unknown = [one for one in ended.result["pending"] if one["kind"] == "outcome_unknown"]
        if not unknown:
            yield f"a decision is needed, but about what? {ended.out}"
            return ("-p", "-r", session)
        self.asked += 1
        if self.asked > self.deaths * self._scenario.at_once:
            yield f"asked {self.asked} times about {self.deaths} deaths"
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
