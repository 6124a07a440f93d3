"""The folder of one shell command. The command can be started once from it, and its output is stored
in it.
"""

import os
import secrets
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self, cast, get_args

from .....state.lazy_dataclass import dataclass
from .....state.process.identity import make_runner_name
from .....state.process.temporaries import make_prefix
from ....workspace.paths import format_size, make_private
from ..supervisor.claim import OUTPUT, READY
from .abandoned import CallMark, this_boot

_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def provide_folder(scratch: Path | None, stack: ExitStack) -> Path:
    """Return the folder of a call. A call without one gets a folder that exists until `stack` is closed."""
    if scratch is not None:
        return scratch
    folder = tempfile.TemporaryDirectory(prefix=make_prefix("command"), ignore_cleanup_errors=True)
    return Path(stack.enter_context(folder))


class Spool:
    """The folder of one command. The agent reads it while the supervisor writes to it."""

    def __init__(self, folder: Path, marker: str) -> None:
        """Prepare the folder for a command whose processes have this marker. Raises `OSError`."""
        # The supervisor has another working folder, so the path must be absolute.
        self.folder = folder.absolute()
        self.marker = marker
        make_private(self.folder)
        self.output = os.open(self.folder / OUTPUT, os.O_RDONLY | _NEW_FILE, 0o600)
        try:
            self._write_ready()
        except OSError:
            os.close(self.output)
            # An order that is incomplete would be taken for one of an earlier start of the machine.
            self.folder.joinpath(f"{READY}{marker}").unlink(missing_ok=True)
            raise
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.output)

    def news(self, most_bytes: int) -> tuple[bytes, int]:
        """Return the end of the new output, at most `most_bytes`, and the number of new bytes before it."""
        size = os.fstat(self.output).st_size
        came, self._seen = size - self._seen, size
        taken = min(came, most_bytes)
        return os.pread(self.output, taken, size - taken), came - taken

    def renew(self) -> bool:
        """Invalidate the order to start the command. Return False if the command has started already.

        Afterwards the command can be started with a new marker.
        """
        marker = secrets.token_hex(len(self.marker) // 2)
        ready = self.folder / f"{READY}{marker}"
        try:
            self.folder.joinpath(f"{READY}{self.marker}").rename(ready)
        except OSError:
            return False
        self.marker = marker
        with ready.open("r+b") as file:
            file.write(marker.encode("ascii"))
        return True

    def _write_ready(self) -> None:
        with os.fdopen(
            os.open(self.folder / f"{READY}{self.marker}", os.O_WRONLY | _NEW_FILE, 0o600), "w"
        ) as file:
            file.write("\n".join(CallMark(self.marker, this_boot(), make_runner_name())))


Reason = Literal["", "timeout", "idle", "cancelled", "output", "flood", "signal", "agent", "input"]
"""Why a command was stopped; empty if it was not stopped. `timeout`: it ran too long. `idle`: it had no
output for too long. `cancelled`: the call was cancelled. `output`: it wrote too much, or its output could not
be stored. `flood`: it started too many processes. `signal`: the supervisor received a signal. `agent`: the
agent was gone. `input`: it waited for keyboard input.
"""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    timeout_s: float
    idle_s: float
    """The most seconds without any output."""
    max_bytes: int
    """The most bytes of output."""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int | None
    """The exit code, or a negative signal number; None if the supervisor was killed."""
    reason: Reason = ""
    problem: str = ""
    """Why the output was cut off; empty if it was not."""
    leftovers: tuple[str, ...] = ()
    """The processes that still ran when the command ended, each as `pid name`."""
    too_many: int = 0
    """The number of simultaneous processes, if the command was killed for this reason; else 0."""
    survivors: int = 0
    """The number of processes that SIGKILL did not end in time."""
    after_s: float = 0
    """The seconds from the start of the command to its end."""
    asking: str = ""
    """The program that waited for keyboard input; empty if none did."""
    moved: tuple[str, ...] = ()
    """The new locations of protected files that the command created. A sandbox protects only existing files,
    so they were moved.
    """
    is_refused: bool = False
    """Whether the command did not run, because another process had settled the call."""


def parse_report(report: bytes, asked: Reason, limits: CommandLimits) -> Ended:
    """Parse a report, which may be incomplete. `asked` is the reason for which the agent stopped the
    command.
    """
    facts: dict[str, list[str]] = {}
    for line in report.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        facts.setdefault(name, []).append(value)
    if "status" not in facts:
        return Ended(None, asked, is_refused="refused" in facts)
    stopped = facts.get("stopped", [""])[0]
    return Ended(
        status=_number(facts, "status"),
        reason=cast(Reason, stopped if stopped in get_args(Reason) else ""),
        problem=_problem(facts, limits),
        leftovers=tuple(facts.get("left", ())),
        asking=facts.get("asking", [""])[0],
        moved=tuple(facts.get("moved", ())),
        too_many=_number(facts, "too_many"),
        survivors=_number(facts, "survivors"),
        after_s=float(facts.get("after", ["0"])[0]),
    )


def _number(facts: dict[str, list[str]], name: str) -> int:
    return int(facts.get(name, ["0"])[0])


def _problem(facts: dict[str, list[str]], limits: CommandLimits) -> str:
    if "lost" in facts:
        return f"its output could not be stored any more ({os.strerror(_number(facts, 'lost'))})"
    return f"it wrote more than {format_size(limits.max_bytes)} of output" if "full" in facts else ""
