"""Logs an unexpected exception that occurs while a verdict is computed, so that the run continues."""

from __future__ import annotations

import logging
from types import TracebackType

from ...state.errors import SandburError


class BugsLogged:
    """A context manager that logs an unexpected exception of its block instead of raising it.

    The code after the block must return a safe verdict, such as one that asks. A `SandburError` is raised
    again, unless `stops_all` is true.
    """

    def __init__(self, what: str, stops_all: bool = False) -> None:
        """`what` is the text that the log uses for the computation in the block."""
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
        logging.getLogger("sandbur").error("unexpected error while computing %s", self._what, exc_info=error)
        return True
