"""The border around what is worked out for a question: a bug in it goes to the log, and the run goes on."""

from __future__ import annotations

from types import TracebackType

from ...state.errors import SandburError


class BugsLogged:
    """While entered, an unforeseen exception ends the block, is logged, and is not raised.

    What follows the block is the careful answer: a plain question, or a verdict that asks. Deliberate errors
    are raised, unless it `stops_all`.
    """

    def __init__(self, what: str, stops_all: bool = False) -> None:
        """`what` names the thing that was worked out, for the log."""
        self._what = what
        self._stops_all = stops_all
        self.bug = ""
        """The kind of the exception; empty if there was none."""

    def __enter__(self) -> BugsLogged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        is_deliberate = isinstance(error, SandburError) and not self._stops_all
        if not isinstance(error, Exception) or is_deliberate:
            return False
        self.bug = type(error).__name__
        import logging  # a list of sessions starts without it

        logging.getLogger("sandbur").error(
            "unexpected error while working out %s", self._what, exc_info=error
        )
        return True
