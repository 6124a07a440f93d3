"""How often and how long a failed model call is tried again."""

import random
import time
from dataclasses import dataclass

from agent.models.failures import Transient
from state.errors import ModelError, Overloaded


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_tries: int = 5
    max_total_s: float = 60
    """From the first failure on; a server that asks for a longer wait ends the call at once."""
    first_delay_s: float = 1.0
    """Doubled with every failure; the wait is a random part of it."""
    max_delay_s: float = 20


class Tries:
    """The tries of one model call."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._first_failure: float | None = None

    def after(self, failure: Transient) -> tuple[float, str]:
        """Return the wait in seconds and its announcement; raises what the failure becomes if it is final."""
        now = time.monotonic()
        self._first_failure = self._first_failure or now
        self._failures += 1
        max_tries = min(self._policy.max_tries, failure.max_tries or self._policy.max_tries)
        if self._failures >= max_tries:
            raise self._final(failure, f"gave up after {self._failures} tries")
        wait_s = self._wait_s(failure)
        if now - self._first_failure + wait_s > self._policy.max_total_s:
            if failure.retry_after_s is None:
                raise self._final(failure, f"gave up after {round(now - self._first_failure)} s")
            raise self._final(failure, f"it asks to wait {spoken(wait_s)}", f"Try again in {spoken(wait_s)}.")
        return wait_s, (
            f"{failure.what}, trying again in {spoken(wait_s)} ({self._failures + 1} of {max_tries})"
        )

    def _wait_s(self, failure: Transient) -> float:
        ceiling = self._policy.first_delay_s * 2 ** (self._failures - 1)
        jittered = random.uniform(0, min(ceiling, self._policy.max_delay_s))
        if failure.retry_after_s is None:
            return jittered
        return failure.retry_after_s + min(jittered, 0.1 * failure.retry_after_s)

    def _final(self, failure: Transient, end: str, hint: str = "") -> ModelError:
        what = failure.what[:1].upper() + failure.what[1:]
        error = failure.lasting(f"{what}; {end}.", hint)
        if isinstance(error, Overloaded):
            error.retry_after_s = failure.retry_after_s
        return error


def spoken(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} minutes"
