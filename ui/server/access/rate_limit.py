"""Limits how many requests a key, such as a token or an address, may send in a minute."""

import time
from collections import OrderedDict

_MOST_KEYS = 10_000


class RateLimit:
    """A bucket of requests for each key: it refills steadily, and a full one allows a burst.

    The oldest buckets are forgotten, so that many keys cost a bounded memory.
    """

    def __init__(self, per_minute: int, burst: int) -> None:
        self._per_s = per_minute / 60
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key -> the requests that are left, and when that was so."""

    def take(self, key: str) -> float:
        """Count a request. Return 0.0 if it may pass, or the seconds until one may."""
        now = time.monotonic()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._per_s
        self._buckets[key] = (left if wait_s else left - 1, now)
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return wait_s

    def is_empty(self, key: str) -> bool:
        """Return whether the next request of this key would have to wait, without counting one."""
        left, since = self._buckets.get(key, (self._burst, 0.0))
        return left + (time.monotonic() - since) * self._per_s < 1
