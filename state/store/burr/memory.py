"""What a process remembers of the Burr states it wrote: the newest of each, within limits, and the time."""

import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta

from state.store.burr.rows import AppKey, Known

_MAX_BYTES = 32 * 1024 * 1024


class KnownStates:
    """Whose state is known, up to a number of bytes; the one that was used last stays longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[AppKey, Known] = OrderedDict()
        self._bytes = 0

    def take(self, key: AppKey) -> Known | None:
        with self._lock:
            known = self._states.pop(key, None)
            self._bytes -= known.size_bytes if known else 0
            return known

    def put(self, key: AppKey, known: Known) -> None:
        self.take(key)
        with self._lock:
            self._states[key] = known
            self._bytes += known.size_bytes
            while self._bytes > _MAX_BYTES and len(self._states) > 1:
                self._bytes -= self._states.popitem(last=False)[1].size_bytes


class Clock:
    """Gives times that rise, so that they tell what was written last even if the clock stands still."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = datetime.min.replace(tzinfo=UTC)

    def now(self) -> str:
        with self._lock:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last.isoformat(timespec="microseconds")
