"""Several attempts at one task: each in a process and a copy of its own, checked, compared and ranked."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .....actions.tools.shell.execution.process import run_supervised, shell_words
from .....actions.tools.shell.execution.spool import CommandLimits, Ended, Spool
from .....actions.workspace.copies.diff_text import ChangeText, count_lines, diff_files
from .....actions.workspace.copies.folder_copy import remove_tree
from .....actions.workspace.copies.namespace import CopyMount, launch_words
from .....agent.config.settings import Settings
from .....agent.review.trials.outcome import end_trial
from .....agent.review.trials.trial import Trial, TrialPlace
from .....state.lazy_dataclass import dataclass
from .....state.process.cancellation import run_to_end
from .....state.process.installation import make_own_command
from .....state.process.temporaries import make_prefix
from ....terminal.line_question import confirm
from ....terminal.terminal import encode, is_interactive, put, say
from ....terminal.text.sanitize import one_line, plain
from .applying import apply_changes
from .running import (
    RunningProcesses,
    begin_trial,
    begin_words,
    forward_signals,
    make_environment,
    read_trial_settings,
    words_inside,
)

if TYPE_CHECKING:
    from .command import TryCommand

_CHECK_S = 1800.0
"""The most time of one check in seconds, unless `--timeout` sets another."""
_TIMED_OUT = 124
_MOST_OUTPUT_BYTES = 50_000_000
_MOST_ERROR_CHARS = 400
_NOT_REACHED = 4


@dataclass(slots=True)
class TrialAttempt:
    """One attempt, with what is known about it so far."""

    number: int
    trial: Trial
    model: str
    status: str = "running"
    exit_code: int = 1
    check: int | None = None
    """The exit code of the check; None without one, or before it ran."""
    cost_usd: float | None = None
    seconds: float = 0.0
    changes: list[ChangeText] = field(default_factory=list[ChangeText])
    error: str = ""

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and self.check in (None, 0)

    @property
    def rank(self) -> tuple[bool, bool, float, int, int]:
        """The order of attempts, the best first: by success, cost, and size of the change."""
        lines = sum((one.size.added or 0) + (one.size.removed or 0) for one in self.changes)
        return self.check not in (None, 0), self.exit_code != 0, self.cost_usd or 0.0, lines, self.number


async def run_attempts(command: TryCommand) -> int:
    """Run the attempts, print a table, and apply the best one if that is wished; return the exit code."""
    settings = read_trial_settings(command)
    attempts = _begin_all(command, settings)
    limit = asyncio.Semaphore(settings.of("trials_at_once"))
    with forward_signals() as running:

        async def run(attempt: TrialAttempt) -> None:
            async with limit:
                if running.stopped_by:
                    attempt.status, attempt.exit_code = "interrupted", 128 + running.stopped_by
                else:
                    await _run_one(command, settings, attempt, running)

        async with asyncio.TaskGroup() as tasks:
            for attempt in attempts:
                tasks.create_task(run(attempt))
    best = min(attempts, key=lambda one: one.rank)
    _print_all(command, attempts, best)
    if not best.is_good:
        return best.exit_code or _NOT_REACHED
    if best.changes and (command.apply_best or _is_wanted(command, best)):
        return await apply_changes(command, best.trial, is_agreed=True)
    return 0


def _begin_all(command: TryCommand, settings: Settings) -> list[TrialAttempt]:
    """Make all copies, before any attempt can change something outside of them."""
    models = command.models or (settings.model or "",)
    count = command.attempts or len(models)
    ids = [str(uuid.uuid4()) for _ in range(count)]
    attempts: list[TrialAttempt] = []
    try:
        for number, trial_id in enumerate(ids):
            made = begin_trial(command, settings, trial_id, ids[0])
            attempts.append(TrialAttempt(number + 1, made.trial, models[number % len(models)]))
            if number == 0 and not command.quiet:
                say(plain("\n".join(made.notices)))
    except BaseException:
        for attempt in attempts:
            TrialPlace(settings.home, attempt.trial.id).remove()
        raise
    return attempts


async def _run_one(
    command: TryCommand, settings: Settings, attempt: TrialAttempt, running: RunningProcesses
) -> None:
    began, trial = time.monotonic(), attempt.trial
    place = TrialPlace(settings.home, trial.id)
    more = ["-p", "-q", "--output-format", "json", *(("-m", attempt.model) if attempt.model else ())]
    words = begin_words(command, settings, trial, *more)
    program = make_own_command(*words)
    process = await asyncio.create_subprocess_exec(
        *words_inside(place, trial, program),
        env=make_environment(trial, begins=True), cwd="/", stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with running.include(process):
        out, err = await process.communicate()
    _read_result(attempt, process.returncode or 0, out, err)
    differences = await asyncio.to_thread(end_trial, place, trial)
    attempt.changes = [change for one in differences for change in diff_files(one)]
    if command.check_command and attempt.exit_code == 0:
        attempt.check = await _check(command, place, trial, running)
    attempt.seconds = time.monotonic() - began
    if not command.quiet:
        say(f"Attempt {attempt.number} has ended: {_describe_end(attempt)}.")


def _read_result(attempt: TrialAttempt, code: int, out: bytes, err: bytes) -> None:
    attempt.exit_code = code if code >= 0 else 128 - code
    try:
        result: dict[str, Any] = json.loads(out)
        attempt.status = str(result["status"])
        attempt.cost_usd = result["usage"]["cost_usd"]
        failure = result.get("error")
        attempt.error = str(failure["message"]) if failure else ""
    except (ValueError, KeyError, TypeError):
        attempt.status = "error"
    if attempt.exit_code and not attempt.error:
        attempt.error = err.decode(errors="replace").strip()[-_MOST_ERROR_CHARS:]


async def _check(command: TryCommand, place: TrialPlace, trial: Trial, running: RunningProcesses) -> int:
    """Run the check in the copy; return its exit code. What it writes there is no part of the changes, where
    the copy is an overlay."""
    program = shell_words(command.check_command)
    timeout_s = float(command.overrides.get("timeout_s") or _CHECK_S)
    limits = CommandLimits(timeout_s, timeout_s, _MOST_OUTPUT_BYTES)
    scratch = Path(tempfile.mkdtemp(dir=place.folder, prefix=make_prefix("check", place.folder)))
    try:
        mounts = place.mounts(trial)
        if trial.kind == "overlay":
            mounts = [_mount_above(mount, scratch, at) for at, mount in enumerate(mounts)]
        words = launch_words(f"{trial.mount_name}-check", mounts, trial.path_inside(Path(trial.cwd)), program)
        with Spool(scratch / "command", secrets.token_hex(8)) as spool:
            check = asyncio.ensure_future(run_supervised(words, Path("/"), limits, spool, lambda: False))
            with running.include(_Stopped(check)):
                ended = await check
        return _TIMED_OUT if ended.reason in ("timeout", "idle") else _exit_code(ended)
    except asyncio.CancelledError:
        if not running.stopped_by:
            raise
        return 128 + running.stopped_by
    finally:
        await run_to_end(asyncio.to_thread(remove_tree, scratch))


class _Stopped:
    """Cancels a check when a signal comes."""

    def __init__(self, check: asyncio.Future[Ended]) -> None:
        self._check = check

    def send_signal(self, signal: int, /) -> None:
        self._check.cancel()


def _exit_code(ended: Ended) -> int:
    if ended.problem or ended.status is None:
        return 1
    return ended.status if ended.status >= 0 else 128 - ended.status


def _mount_above(mount: CopyMount, scratch: Path, number: int) -> CopyMount:
    """Return a mount that shows an overlay and takes all writes itself."""
    upper, work = scratch / f"{number}-upper", scratch / f"{number}-work"
    upper.mkdir()
    work.mkdir()
    return CopyMount("overlay", mount.folder, upper, work, mount.content)


def _describe_end(attempt: TrialAttempt) -> str:
    check = "" if attempt.check is None else f", check {'passed' if attempt.check == 0 else 'failed'}"
    return f"{one_line(attempt.status)}{check}{': ' if attempt.error else ''}{one_line(attempt.error)}"


def _print_all(command: TryCommand, attempts: Sequence[TrialAttempt], best: TrialAttempt) -> None:
    if command.output_format != "text":
        put(encode(_object(attempts, best)))
        return
    rows = [("", "trial", "model", "status", "check", "cost", "time", "changes")]
    rows += [_row(attempt, attempt is best and best.is_good) for attempt in attempts]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        put("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    if command.quiet:
        return
    if best.is_good:
        say(f"The best attempt is {best.number}:")
        say(f"  sandbur try diff {best.trial.id}    show the changes")
        say(f"  sandbur try apply {best.trial.id}   apply them to the folder")
    else:
        say("No attempt succeeded.")
    say("`sandbur try drop ID` removes an attempt.")


def _row(attempt: TrialAttempt, is_best: bool) -> tuple[str, ...]:
    check = "" if attempt.check is None else "passed" if attempt.check == 0 else f"exit {attempt.check}"
    cost = "" if attempt.cost_usd is None else f"${attempt.cost_usd:.4f}"
    return (
        f"{'*' if is_best else ' '} {attempt.number}",
        attempt.trial.id,
        one_line(attempt.model),
        one_line(attempt.status),
        check,
        cost,
        f"{attempt.seconds:.1f}s",
        count_lines(attempt.changes),
    )


def _object(attempts: Sequence[TrialAttempt], best: TrialAttempt) -> dict[str, Any]:
    return {
        "type": "attempts",
        "best": best.trial.id if best.is_good else None,
        "attempts": [
            {
                "id": one.trial.id,
                "model": one.model or None,
                "status": one.status,
                "exit_code": one.exit_code,
                "check_exit_code": one.check,
                "cost_usd": one.cost_usd,
                "duration_ms": round(one.seconds * 1000),
                "files": len(one.changes),
                "added_lines": sum(change.size.added or 0 for change in one.changes),
                "removed_lines": sum(change.size.removed or 0 for change in one.changes),
                "error": one.error or None,
            }
            for one in attempts
        ],
    }


def _is_wanted(command: TryCommand, best: TrialAttempt) -> bool:
    if command.output_format != "text" or command.print or not is_interactive():
        return False
    return confirm(f"Apply attempt {best.number}?")
