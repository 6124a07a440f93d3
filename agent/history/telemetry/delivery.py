"""Watches the delivery of telemetry, keeps OpenTelemetry's log messages off the terminal, and limits the wait
at the end."""

import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from urllib.parse import urlsplit

from .telemetry_settings import Signal

CLOSE_S = 2.0
"""How long the end of a process may wait for a collector, in seconds."""
GRACE_S = 0.25
"""How long to wait for an exporter that fails, in seconds, because a retry may still succeed."""
_ROOT = logging.getLogger("opentelemetry")
_STATUS = re.compile(r"\bcode: (\d{3})\b|^Transient error ([A-Z][A-Za-z -]{1,40}) encountered")
_NO_ANSWER = "no answer came"
_EXPORTING = threading.local()
"""Thread-local data. Its attribute `channel` is the channel that this thread exports to at the moment."""


class Channel:
    """The state of delivery for one signal."""

    def __init__(self, signal: Signal, url: str) -> None:
        self.problem = ""
        """A sentence that says which data was lost and why; empty if none was."""
        self._signal = signal
        self._address = _without_user(url)
        self._reason = _NO_ANSWER
        self.is_failing = False
        """Whether the last known result is a failure."""

    @contextmanager
    def exporting(self) -> Generator[None]:
        """Attribute the log messages of OpenTelemetry in this thread to this channel, while the context
        lasts."""
        _EXPORTING.channel = self
        try:
            yield
        finally:
            del _EXPORTING.channel

    def note_failure(self, reason: str) -> None:
        """Note a failure. A later success cancels it."""
        self._reason = reason
        self.is_failing = True

    def note_loss(self) -> None:
        """Note that the newest failure is final, so that data was lost."""
        off = f"OTEL_{self._signal.upper()}_EXPORTER=none"
        self.problem = self.problem or (
            f"Telemetry ({self._signal}) did not reach {self._address}: {self._reason}."
            f" {off} switches it off."
        )

    def note_delivery(self) -> None:
        self._reason = _NO_ANSWER
        self.is_failing = False


class DeliveryErrors(logging.Handler):
    """Handles the log messages of OpenTelemetry, so that none of them reaches the terminal."""

    def __init__(self, channels: Mapping[Signal, Channel]) -> None:
        super().__init__(logging.WARNING)
        self._channels = channels
        self._other = ""
        _ROOT.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        channel: Channel | None = getattr(_EXPORTING, "channel", None)
        if channel is None:
            self._other = self._other or f"OpenTelemetry: {text}"
        elif channel in self._channels.values():
            answer = _STATUS.search(text)
            channel.note_failure(f"the answer was {answer[1] or answer[2]}" if answer else _NO_ANSWER)
            if record.levelno >= logging.ERROR:
                channel.note_loss()

    def end(self, late: Sequence[threading.Thread]) -> str:
        """Wait for the `late` exporters; return a message for the person, or an empty text."""
        if late:
            threading.Thread(target=self._outlast, args=(late,), daemon=True).start()
        else:
            _ROOT.removeHandler(self)
        problems = [channel.problem for channel in self._channels.values()]
        return next((text for text in (*problems, self._other) if text), "")

    def _outlast(self, late: Sequence[threading.Thread]) -> None:
        for thread in late:
            thread.join()
        _ROOT.removeHandler(self)


class JobThread:
    """Runs jobs one after the other in a thread, in the order of their submission."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], None]) -> None:
        """Submit a job without blocking."""
        self._work.put(work)

    def end(self, timeout_s: float) -> None:
        """Wait until all jobs are done, but at most `timeout_s` seconds."""
        self._work.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def end(
    channels: Mapping[Signal, Channel], shutdowns: Mapping[Signal, Callable[[], None]]
) -> Sequence[threading.Thread]:
    """Send the waiting data. Wait a moment for a collector that fails, and a little longer for a slow one.

    Return the threads that still try to send.
    """
    work = [
        (channels[signal], threading.Thread(target=each, daemon=True)) for signal, each in shutdowns.items()
    ]
    for _, thread in work:
        thread.start()
    begun = time.monotonic()
    for channel, thread in work:
        while thread.is_alive() and time.monotonic() - begun < (GRACE_S if channel.is_failing else CLOSE_S):
            thread.join(0.01)
        if thread.is_alive():
            channel.note_loss()
    return [thread for _, thread in work if thread.is_alive()]


def _without_user(url: str) -> str:
    """Return an address without the user name and password that it may contain."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
