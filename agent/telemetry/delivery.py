"""Watches whether telemetry arrives, keeps OpenTelemetry's own log off the screen, and ends in time."""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from agent.telemetry.settings import Signal

CLOSE_S = 2.0
"""How long the end of a process may wait for a collector."""
_ROOT = logging.getLogger("opentelemetry")
_SILENCE = logging.NullHandler()
_STATUS = re.compile(r"\bcode: (\d{3})\b|^Transient error ([A-Z][A-Za-z -]{1,40}) encountered")
_NO_ANSWER = "no answer came"


class Channel:
    """One signal on its way out."""

    def __init__(self, signal: Signal, url: str) -> None:
        self.problem = ""
        """What got lost and why, as a sentence; empty if nothing did."""
        self._signal = signal
        self._address = _without_user(url)
        self._reason = _NO_ANSWER
        self._is_failing = threading.Event()

    @property
    def is_failing(self) -> bool:
        """True while the last thing that is known is a failure."""
        return self._is_failing.is_set()

    def failed(self, reason: str) -> None:
        """Take note of a failure, which may be made good yet."""
        self._reason = reason
        self._is_failing.set()

    def lost(self) -> None:
        """Take note that the newest failure is final."""
        off = f"OTEL_{self._signal.upper()}_EXPORTER=none"
        self.problem = self.problem or (
            f"Telemetry ({self._signal}) did not reach {self._address}: {self._reason}."
            f" {off} switches it off."
        )

    def delivered(self) -> None:
        self._reason = _NO_ANSWER
        self._is_failing.clear()


class Complaints(logging.Handler):
    """Hears what OpenTelemetry logs, so that nothing of it reaches the terminal."""

    def __init__(self, channels: Mapping[Signal, Channel]) -> None:
        super().__init__(logging.WARNING)
        self._channels = channels
        self._other = ""
        # For what comes after the end, too: a thread may outlive it by a try.
        _ROOT.propagate = False
        _ROOT.addHandler(_SILENCE)
        _ROOT.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        for signal, channel in self._channels.items():
            if f".{signal.removesuffix('s')}_exporter" in record.name:
                answer = _STATUS.search(text)
                channel.failed(f"the answer was {answer[1] or answer[2]}" if answer else _NO_ANSWER)
                if record.levelno >= logging.ERROR:
                    channel.lost()
                return
        self._other = self._other or f"OpenTelemetry: {text}"

    def end(self) -> str:
        """Stop to listen; return the one thing that a person should know, or nothing."""
        _ROOT.removeHandler(self)
        problems = [channel.problem for channel in self._channels.values()]
        return next((text for text in (*problems, self._other) if text), "")


def end(channels: Mapping[Signal, Channel], shutdowns: Mapping[Signal, Callable[[], None]]) -> None:
    """Send what waits; do not wait for a collector that fails, nor long for one that is slow."""
    work = [
        (channels[signal], threading.Thread(target=each, daemon=True)) for signal, each in shutdowns.items()
    ]
    for _, thread in work:
        thread.start()
    deadline = time.monotonic() + CLOSE_S
    for channel, thread in work:
        while thread.is_alive() and not channel.is_failing and time.monotonic() < deadline:
            thread.join(0.01)
        if thread.is_alive():
            channel.lost()


def _without_user(url: str) -> str:
    """Return an address without the password that it may hold."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
