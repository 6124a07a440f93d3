"""Logs an unexpected exception while a verdict is computed, and lets the run continue."""

from __future__ import annotations

import logging
from types import TracebackType

from ...state.errors import SandburError


class BugsLogged:
    """A context manager that logs an unexpected exception of its block and does not raise it.

    The code after the block must give the careful answer, such as a verdict that asks. A `SandburError` is
    raised, unless `stops_all`.
    """

    def __init__(self, what: str, stops_all: bool = False) -> None:
        """`what` names for the log what the block computes."""
        self._what = what
        self._stops_all = stops_all
        self.bug = ""
        """The class name of the exception; empty if there was none."""

    def __enter__(self) -> BugsLogged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        is_deliberate = isinstance(error, SandburError) and not self._stops_all
        if not isinstance(error, Exception) or is_deliberate:
            return False
        self.bug = type(error).__name__
        logging.getLogger("sandbur").error(
            "unexpected error while working out %s", self._what, exc_info=error
        )
        return True
