"""Runs a command under its supervisor and brings back how it ended; nothing of it is left afterwards."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actions.tools import supervisor
from actions.tools.shell_environment import CALL_VARIABLE, shell_environment

Reason = Literal["", "timeout", "idle", "output", "cancelled"]
"""Why it was stopped; empty if it was not."""

_STOPPING_S = supervisor.STOP_GRACE_S + supervisor.KILLING_S + 1
_DRAINING_S = 0.3


@dataclass(frozen=True, slots=True)
class Limits:
    timeout_s: float
    idle_s: float
    """Without any output."""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int | None
    """Exit code, or a negative signal; None if the supervisor was killed."""
    reason: Reason
    leftovers: tuple[str, ...] = ()
    """Processes that were still there when the command ended, as `pid name`."""
    too_many: int = 0
    """Processes at once, if that was why it was killed."""
    survivors: int = 0
    """Processes that not even SIGKILL ended in time."""
