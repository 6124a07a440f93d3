"""Describes waiting calls for a person, and collects evidence about a call of unknown outcome.

A bug in a description is logged, and the person is asked without it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from ...actions.ports import LeavesProcesses, Ports, implements
from ...actions.turn.bugs_logged import BugsLogged
from ...actions.turn.calls.tool_runner import make_context
from ...actions.workspace.tree import FileFilter, list_search_files
from ...state.application import ApplicationState
from ...state.calls import FileChange, PendingCall
from ..policy.approval_context import ApprovalContext, build_approval_context
from ..policy.rules.rule_suggestions import RuleSuggestion, suggest_rules_for_call
from ..policy.shell.repository import find_repository, why_git_may_run_more

_PATIENCE_S = 2.0
_WALK_S = 1.0
_GIT_S = 1.0
_MOST_FILES = 8
_MOST_GIT_BYTES = 100_000
_MOST_CHARS = 300
_MAY_BE_EARLIER_S = 0.05
"""How far the clock of a file system may be behind, in seconds."""
_MEANINGS = {"??": "new", "D": "removed", "M": "changed", "A": "added", "R": "renamed"}


class Aftermath(NamedTuple):
    """Evidence about a call of unknown outcome. File names are relative to the workspace; they may contain
    text of a model."""

    made: tuple[str, ...] = ()
    """Descriptions of the file changes that the call itself recorded."""
    since: tuple[str, ...] = ()
    """Files that any process changed after the call started; newest first, limited in number."""
    more: int = 0
    """The number of further changed files."""
    is_complete: bool = True
    """False if not all files were checked."""
    git: tuple[str, ...] = ()
    """The changed files according to `git status`, regardless of the time of the change."""
    running: tuple[str, ...] | None = None
    """Processes of the call that still run, or None if that is unknown."""


async def aftermath(call: PendingCall, ports: Ports) -> Aftermath:
    """Collect the evidence about a call. Checks that take too long are left out."""
    stop = Event()
    made = [
        _describe_change(change, ports.places.cwd)
        for change in await ports.journal.load_changes(call.call_id)
    ]
    known = tuple(made[:_MOST_FILES])
    try:
        async with asyncio.timeout(_PATIENCE_S):
            since, git, running = await asyncio.gather(
                asyncio.to_thread(_list_changes_since, call.recovery.started_at, ports, stop),
                asyncio.to_thread(_git, ports.places.cwd),
                asyncio.to_thread(_running, call, ports),
            )
    except TimeoutError:
        return Aftermath(known, is_complete=False)
    finally:
        stop.set()
    return Aftermath(known, *since, git, running)


def _describe_change(change: FileChange, cwd: Path) -> str:
    verb = "created" if change.before_mode is None else "removed" if change.after is None else "changed"
    return f"{verb} {os.path.relpath(change.path, cwd)}"[:_MOST_CHARS]


def _list_changes_since(started_at: str, ports: Ports, stop: Event) -> tuple[tuple[str, ...], int, bool]:
    """Return the newest changed files, how many more there are, and whether all files were checked."""
    try:
        start = datetime.fromisoformat(started_at).timestamp() - _MAY_BE_EARLIER_S
    except ValueError:
        return (), 0, False
    deadline = time.monotonic() + _WALK_S
    listing = list_search_files(ports.places.cwd.resolve(), FileFilter(hidden=True), deadline, stop)
    found: list[tuple[float, str]] = []
    is_complete = listing.is_complete
    own = [os.path.realpath(place) for place in ports.places.private]
    for number, path in enumerate(listing.paths):
        if number % 256 == 0 and (stop.is_set() or time.monotonic() > deadline + _WALK_S / 2):
            is_complete = False
            break
        with suppress(OSError):
            status = os.lstat(ports.places.cwd / path)
            # A program that sets the modification time back changes the other time stamp (ctime) to now.
            if (latest := max(status.st_mtime, status.st_ctime)) >= start and not _is_below(
                str(ports.places.cwd / path), own
            ):
                found.append((latest, path[:_MOST_CHARS]))
    newest = [path for _, path in sorted(found, reverse=True)[:_MOST_FILES]]
    return tuple(newest), len(found) - len(newest), is_complete


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _git(cwd: Path) -> tuple[str, ...]:
    """Return the changed files from `git status`; empty if git might run another program."""
    if find_repository(str(cwd)) is None or why_git_may_run_more(str(cwd)) is not None:
        return ()
    words = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain=v1", "-z", "--no-renames", "--", "."]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            words, cwd=cwd, env=_make_quiet_env(os.environ), capture_output=True, timeout=_GIT_S, check=True
        )
        return tuple(_parse_status(done.stdout[:_MOST_GIT_BYTES].decode("utf-8", "replace")))
    return ()


def _make_quiet_env(env: Mapping[str, str]) -> dict[str, str]:
    return {**env, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _parse_status(text: str) -> Iterator[str]:
    entries = [entry for entry in text.split("\0") if len(entry) > len("XY ")]
    for entry in entries[:_MOST_FILES]:
        sign = entry[:2].strip()
        yield f"{_MEANINGS.get(sign, _MEANINGS.get(sign[-1:], sign))} {entry[3:]}"[:_MOST_CHARS]
    if len(entries) > _MOST_FILES:
        yield f"and {len(entries) - _MOST_FILES} more"


def _running(call: PendingCall, ports: Ports) -> tuple[str, ...] | None:
    tool = ports.toolbox.get(call.tool)
    if not implements(tool, LeavesProcesses):
        return None
    return tuple(tool.still_running(make_context(ports, call, lambda chunk: None)))[:_MOST_FILES]


if TYPE_CHECKING:
    from .waiting_calls import SessionRules


class CallDescriptions:
    """Describes waiting calls and suggests rules for them."""

    @staticmethod
    def suggest_rules(
        call: PendingCall, ports: Ports, rules: SessionRules, state: ApplicationState
    ) -> tuple[RuleSuggestion, ...]:
        """Suggest rules for a waiting call. Each rule would allow this call."""
        with BugsLogged(f"the rules that would let a call of {call.tool} pass"):
            mode = state.execution_mode
            return suggest_rules_for_call(call, ports, rules.settings, rules.gate_of, mode)
        return ()

    @staticmethod
    def describe(
        call: PendingCall, ports: Ports, state: ApplicationState, is_edited: bool
    ) -> ApprovalContext:
        """Describe why a waiting call asks, which files and hosts it names, and in which sandbox it runs."""
        with BugsLogged(f"the description of a call of {call.tool}") as border:
            return build_approval_context(call, ports, state, is_edited)
        return ApprovalContext(f"{call.reason}; the rest is not known: a bug in Sandbur ({border.bug})")

    @staticmethod
    def describe_relayed(call: PendingCall) -> ApprovalContext:
        """Describe a waiting call whose tool only the session of its sub-agent has."""
        return ApprovalContext(call.reason, changes=call.changes)

    @staticmethod
    async def inspect(call: PendingCall, ports: Ports) -> Aftermath:
        """Collect, for at most two seconds, the evidence about a call of unknown outcome."""
        with BugsLogged(f"what a call of {call.tool} has left"):
            return await aftermath(call, ports)
        return Aftermath(is_complete=False)
