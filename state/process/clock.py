"""Timestamps in the format of the store, and the clock of a machine that several processes share."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def now() -> str:
    """Return the current time in UTC, ISO 8601 with milliseconds."""
    return format_time(datetime.now(UTC))


def count_milliseconds(start: str, end: str) -> int:
    """Return the milliseconds between two stored times; 0 if one is unknown, or if a clock was set back."""
    try:
        taken = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    except (ValueError, TypeError):
        return 0
    return max(int(taken.total_seconds() * 1000), 0)


def format_time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


_MEASURED_EVERY_S = 30.0
_LONGEST_MEASURING_S = 1.0
"""A measurement that took longer is used only if there is no other."""


class RemoteClock:
    """The clock of another machine, such as a database server.

    Between two measurements it goes on with the uptime of this machine, which no change of this machine's own
    clock moves. Until the first measurement it is the clock of this machine.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remote: datetime | None = None
        self._uptime_s = 0.0
        self._is_outdated = True

    def now(self) -> datetime:
        """Return the time on the other machine, in UTC. Asks no server."""
        with self._lock:
            if self._remote is None:
                return datetime.now(UTC)
            return self._remote + timedelta(seconds=_read_uptime_s() - self._uptime_s)

    @property
    def is_due(self) -> bool:
        """Return whether the clock should be measured again."""
        return self._is_outdated or _read_uptime_s() - self._uptime_s > _MEASURED_EVERY_S

    def expire(self) -> None:
        """Measure the clock again soon, because another machine may answer now."""
        self._is_outdated = True

    def measure(self, ask: Callable[[], int]) -> None:
        """Take the time from `ask`, which returns the milliseconds since 1970 on the other machine."""
        began_s = _read_uptime_s()
        milliseconds = ask()
        ended_s = _read_uptime_s()
        with self._lock:
            if self._remote is None or ended_s - began_s < _LONGEST_MEASURING_S:
                self._remote = datetime.fromtimestamp(milliseconds / 1000, UTC)
                self._uptime_s = (began_s + ended_s) / 2
                self._is_outdated = False


def _read_uptime_s() -> float:
    """Return the seconds since the start of the system. On Linux they include those of a suspended system."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
