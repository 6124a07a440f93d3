"""Runs the command of a hook under a supervisor, so that no process of the hook outlives the agent."""

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Set
from pathlib import Path

from ....actions.tools.shell.execution.process import run_supervised, shell_words
from ....actions.tools.shell.execution.spool import CommandLimits, Spool
from ....actions.tools.shell.sandbox.launch import Launch
from ....actions.turn.calls.tool_results import remove_if_empty
from ....state.lazy_dataclass import dataclass
from ....state.process.crashpoints import reach
from ....state.process.temporaries import make_prefix
from .declared import HookCommand

MAX_STDOUT_BYTES = 1_000_000
MAX_STDERR_BYTES = 65_536

# stdout and stderr of a hook have different meanings, and the supervisor keeps only one stream.
_SCRIPT = """
folder=$SANDBUR_HOOK_FOLDER; unset SANDBUR_HOOK_FOLDER
{ { "$0" "$folder/command" <"$folder/input" 2>&1 >&3 3>&-; echo $? >"$folder/status"; } |
  { head -c %d >"$folder/stderr"; cat >/dev/null; }; } 3>&1
read -r status <"$folder/status" && exit "$status"
"""


@dataclass(frozen=True, slots=True)
class HookPlace:
    """The place where the hooks of a session run: folders and environment."""

    cwd: Path
    scratch: Path | None
    """The folder that holds the temporary folder of each hook run. None: the system's temporary folder."""
    withheld: Set[str] = frozenset()
    """The environment variables that hooks do not see."""


@dataclass(frozen=True, slots=True)
class HookEnd:
    status: int | None = None
    """The exit code, or the negative number of a signal. None: the hook was stopped or never started."""
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why the hook did not end normally; empty if it did."""


async def run_hook(hook: HookCommand, given: str, place: HookPlace) -> HookEnd:
    """Run a hook with `given` on its standard input. A cancellation ends all of its processes."""
    try:
        folder = _new_folder(place.scratch)
    except OSError as error:
        return HookEnd(problem=f"its input cannot be written: {error.strerror}")
    try:
        return await _run(hook, given, place, folder)
    except OSError as error:
        return HookEnd(problem=f"it cannot be started: {error.strerror}")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        remove_if_empty(place.scratch)


def _new_folder(scratch: Path | None) -> Path:
    if scratch is None:
        return Path(tempfile.mkdtemp(prefix=make_prefix("hook")))
    folder = scratch / f"hook-{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700, parents=True)
    return folder


async def _run(hook: HookCommand, given: str, place: HookPlace, folder: Path) -> HookEnd:
    for name, content in (("command", hook.command), ("input", given)):
        (folder / name).write_text(content, "utf-8", "replace")
    environment = {"SANDBUR_HOOK_FOLDER": str(folder)}
    environment |= dict.fromkeys(("SANDBUR_PROJECT_DIR", "CLAUDE_PROJECT_DIR"), str(place.cwd))
    limits = CommandLimits(hook.timeout_s, hook.timeout_s + 1, MAX_STDOUT_BYTES)
    reach("hook_starts")
    with Spool(folder, secrets.token_hex(8)) as spool:
        ended = await run_supervised(
            shell_words(_SCRIPT % MAX_STDERR_BYTES),
            place.cwd,
            limits,
            spool,
            lambda: bool(spool.news(0)[0]),
            place.withheld,
            Launch(environment=environment),
        )
        stdout = os.pread(spool.output, MAX_STDOUT_BYTES, 0).decode("utf-8", "replace")
    reach("hook_ran")
    if ended.reason == "timeout":
        return HookEnd(problem=f"it took longer than {hook.timeout_s:g} s")
    if ended.problem or ended.reason:
        return HookEnd(problem=ended.problem or f"it was stopped ({ended.reason})")
    return HookEnd(ended.status, stdout, _stderr(folder))


def _stderr(folder: Path) -> str:
    try:
        return (folder / "stderr").read_text("utf-8", "replace")
    except OSError:
        return ""
