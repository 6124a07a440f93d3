"""Runs a task in a new trial, or resumes one: in a process of its own, which works in the copy."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .....actions.workspace.copies.folder_copy import TooLarge
from .....actions.workspace.copies.namespace import find_mounted, is_failed_launch, launch_words
from .....agent.config.load import load_settings, store_files
from .....agent.config.settings import Settings
from .....agent.review.trials.making import MadeTrial, TrialRequest, make_trial
from .....agent.review.trials.outcome import end_trial, find_outside_effects, remove_without_session
from .....agent.review.trials.trial import MOUNT_NAME, VARIABLE, Trial, TrialPlace, remove_unfinished
from .....state.errors import SandburError, UsageError
from .....state.process.installation import make_own_command
from .....state.store.store import Store
from ....cli.open_session import read_overrides
from ....terminal.line_question import confirm
from ....terminal.terminal import is_interactive, say
from ....terminal.text.sanitize import plain
from .command import BEGINS, OF_CHAT
from .report import can_decide, decide_at_end, report_outcome

if TYPE_CHECKING:
    from .command import TryCommand

_MB = 1_000_000
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_task(command: TryCommand) -> int:
    """Make the copy, run the task in it, and print what it changed; return the exit code of the run."""
    settings = read_trial_settings(command)
    of_chat = os.environ.pop(OF_CHAT, "")
    made = begin_trial(command, settings, of_chat or str(uuid.uuid4()))
    trial, place = made.trial, TrialPlace(settings.home, made.trial.id)
    if not command.quiet:
        say(plain("\n".join((f"Trial {trial.id}", *made.notices))))
    try:
        code = await run_inside(place, trial, begin_words(command, settings, trial), begins=True)
    except SandburError:
        place.remove()
        raise
    # A chat that began the trial asks itself.
    asks = can_decide(command, code) and not of_chat
    if finish_run(settings, place, trial, command.quiet or bool(of_chat), asks) and asks:
        await decide_at_end(command, settings, trial)
    return code


def read_trial_settings(command: TryCommand) -> Settings:
    """Return the settings of a trial; raises `UsageError` inside of another trial."""
    settings = load_settings(read_overrides(command), os.environ)
    if os.environ.get(VARIABLE) or find_mounted(MOUNT_NAME, settings.cwd):
        raise UsageError(
            "This folder is the copy of a trial already, and a copy of a copy cannot be applied.",
            "Begin the trial from a terminal outside of this one.",
        )
    remove_unfinished(settings.home)
    remove_without_session(settings)
    return settings


def begin_trial(command: TryCommand, settings: Settings, trial_id: str, group: str = "") -> MadeTrial:
    """Make the copy; ask first if it would be large. Raises `UsageError` if there is none."""
    limit = None if command.any_size else settings.of("trial_copy_mb") * _MB
    request = TrialRequest(
        trial_id, command.prompt or "", settings.cwd, tuple(settings.add_dirs), limit, group,
        store=settings.store,
    )  # fmt: skip
    private = store_files(settings.store)
    try:
        return make_trial(settings.home, request, private)
    except TooLarge as large:
        if command.print or not is_interactive() or command.is_several:
            raise UsageError(
                large.message, "Add --any-size to copy it nevertheless, or work in a folder below it."
            ) from None
        say(plain(large.message))
        if not confirm("Copy it nevertheless?"):
            raise UsageError("Nothing was copied.", "Work in a folder below it.") from None
        unlimited = replace(request, max_bytes=None)
        return make_trial(settings.home, unlimited, private)


def begin_words(command: TryCommand, settings: Settings, trial: Trial, *more: str) -> list[str]:
    """Return the command line of the process that begins the trial's session.

    A trial edits without questions, unless another mode is set.
    """
    extra = ["-C", os.fspath(trial.path_inside(settings.cwd)), *more]
    if command.overrides.get("mode") is None and "mode" not in settings.sources:
        extra += ["--mode", "auto-edit"]
    words = list(command.line)
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *extra, *words[at:]]


async def run_inside(
    place: TrialPlace, trial: Trial, words: Sequence[str], begins: bool = False, cwd: Path | None = None
) -> int:
    """Run `sandbur` with these words in the copy, on this terminal; return its exit code."""
    program = make_own_command(*words)
    environment = make_environment(trial, begins)
    with forward_signals() as running:
        # Ctrl-C reaches every process of the terminal; elsewhere only this process gets the signal.
        process = await asyncio.create_subprocess_exec(
            *words_inside(place, trial, program, cwd),
            env=environment,
            cwd="/",
            start_new_session=not sys.stdin.isatty(),
        )
        with running.include(process):
            code = await process.wait()
    if is_failed_launch(code):
        raise UsageError(f"The copy of trial {trial.id} cannot be entered.", "The line above says why.")
    return code if code >= 0 else 128 - code


def words_inside(
    place: TrialPlace, trial: Trial, program: Sequence[str], cwd: Path | None = None
) -> list[str]:
    """Return the words of a process that runs a program in the copy, and ends with this process."""
    return launch_words(
        trial.mount_name,
        place.mounts(trial),
        trial.path_inside(cwd or Path.cwd()),
        program,
        place.lock,
        os.getpid(),
    )


def make_environment(trial: Trial, begins: bool = False) -> Mapping[str, str]:
    environment = {**os.environ, VARIABLE: trial.id}
    if begins:
        environment[BEGINS] = trial.id
        if not trial.is_mounted:
            cwd = Path(trial.cwd)
            others = (one.copy_path for one in trial.folders if not cwd.is_relative_to(one.root))
            environment[f"{BEGINS}_FOLDERS"] = "\0".join(others)
    return environment


class Stoppable(Protocol):
    """A process, or something else that a signal stops."""

    def send_signal(self, signal: int, /) -> None: ...


class RunningProcesses:
    """The processes that get the signals which end this process."""

    def __init__(self) -> None:
        self.stopped_by = 0
        """The number of the last signal; 0: none came."""
        self._found: list[Stoppable] = []

    @contextmanager
    def include(self, process: Stoppable) -> Generator[None]:
        self._found.append(process)
        try:
            yield
        finally:
            self._found.remove(process)

    def forward(self, number: signal.Signals) -> None:
        self.stopped_by = number
        is_there_already = number == signal.SIGINT and sys.stdin.isatty()
        for process in () if is_there_already else tuple(self._found):
            with suppress(ProcessLookupError):
                process.send_signal(number)


@contextmanager
def forward_signals() -> Generator[RunningProcesses]:
    """Send the signals that would end this process to the processes that are included meanwhile."""
    running, loop = RunningProcesses(), asyncio.get_running_loop()
    for number in _FORWARDED:
        loop.add_signal_handler(number, running.forward, number)
    try:
        yield running
    finally:
        for number in _FORWARDED:
            loop.remove_signal_handler(number)


def finish_run(
    settings: Settings, place: TrialPlace, trial: Trial, is_quiet: bool = False, asks: bool = False
) -> bool:
    """Record the end of a run in a trial, and print what it changed; return whether it changed anything.

    A trial whose run did not begin a session is removed. With `asks`, a person is asked next what becomes of
    the changes.
    """
    store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    try:
        if not store.index.exists(trial.id):
            with suppress(SandburError, OSError):
                place.remove()
            return False
        differences = end_trial(place, trial)
        effects = find_outside_effects(store, trial.id)
    finally:
        store.close()
    if not is_quiet:
        report_outcome(trial, differences, effects, asks)
    return any(differences)
