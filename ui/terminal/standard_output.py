"""Standard output and error, written by threads, so that a slow reader blocks nothing."""

import io
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

_MOST_WAITING_BYTES = 1 << 18
"""If more output than this is queued for its reader, the code that prints waits."""
_PIECE_BYTES = 1 << 14
_PATIENCE_S = 0.05
"""How long a flush waits for a reader that was fast so far, in seconds."""
_LOOK_S = 0.05
_SILENCE_S, _GRACE_S = 1.0, 2.0
"""How long a process that was asked to stop waits for a reader that reads nothing, or reads slowly, in
seconds."""


class Writer:
    """A thread that writes its input in order.

    A flush returns when all is written, as long as the reader is fast enough, so that errors are raised at
    once and other processes see the output in order. For a slow reader the thread writes in the background.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, bytearray]] = deque()
        self._problems: dict[int, OSError] = {}
        self._reader_lags = False
        self._has_ended = False
        self._has_given_up = False
        self._is_running = False
        self.waiting_bytes = 0
        self.written_bytes = 0

    def put(self, descriptor: int, data: bytes) -> None:
        """Queue data; raises the error of an earlier write to this descriptor."""
        if self._has_ended:
            self._raise_problem(descriptor)
            self._write_now(descriptor, b"" if self._has_given_up else data)
            return
        with self._changed:
            self._raise_problem(descriptor)
            if not data or not self._has_thread():
                self._write_now(descriptor, data)
                return
            if not self._waiting or self._waiting[-1][0] != descriptor:
                self._waiting.append((descriptor, bytearray()))
            self._waiting[-1][1].extend(data)
            self.waiting_bytes += len(data)
            self._changed.notify_all()

    def flush(self, descriptor: int) -> None:
        """Wait for the reader, unless the reader is slow; raises the error of a write."""
        if self._has_ended:
            self._raise_problem(descriptor)
            return
        with self._changed:
            if not self._reader_lags:
                self._reader_lags = not self._changed.wait_for(self._is_idle, _PATIENCE_S)
            self._raise_problem(descriptor)

    def wait(self, most_bytes: int = 0) -> bool:
        """Wait up to 0.05 seconds until at most `most_bytes` are queued; return whether this is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self.waiting_bytes <= most_bytes, _LOOK_S)

    def end(self) -> None:
        """Write directly from now on, without the thread. If data is still queued, drop it and all later
        output.

        Later writes and flushes do not take the lock: the interpreter flushes both streams when it exits, and
        by then it may have stopped the thread while the thread held the lock.
        """
        with self._changed:
            self._has_ended = True
            self._has_given_up = not self._is_idle()
            self._drop(None)

    def _has_thread(self) -> bool:
        """Start the thread if necessary; return whether it runs. Without it, data is written directly."""
        if not self._is_running:
            with suppress(RuntimeError):
                threading.Thread(target=self._run, name="output", daemon=True).start()
                self._is_running = True
        return self._is_running

    def _write_now(self, descriptor: int, data: bytes) -> None:
        while data:
            data = data[_write(descriptor, data) :]

    def _is_idle(self) -> bool:
        return not self.waiting_bytes

    def _raise_problem(self, descriptor: int) -> None:
        if problem := self._problems.pop(descriptor, None):
            raise problem

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._has_ended)
                if self._has_ended:
                    return
                descriptor, data = self._waiting[0]
                piece = bytes(data[:_PIECE_BYTES])
            try:
                self._note(_write(descriptor, piece), data)
            except OSError as problem:
                self._fail(descriptor, problem)

    def _note(self, written: int, data: bytearray) -> None:
        with self._changed:
            if self._has_given_up:
                return
            del data[:written]
            if not data:
                self._waiting.popleft()
            self.written_bytes += written
            self.waiting_bytes -= written
            self._reader_lags = self._reader_lags and not self._is_idle()
            self._changed.notify_all()

    def _fail(self, descriptor: int, problem: OSError) -> None:
        with self._changed:
            self._problems[descriptor] = problem
            self._drop(descriptor)

    def _drop(self, descriptor: int | None) -> None:
        """Drop the queued data of one descriptor, or all queued data if it is None."""
        kept = [each for each in self._waiting if descriptor not in (None, each[0])]
        self._waiting = deque(kept)
        self.waiting_bytes = sum(len(data) for _, data in kept)
        self._changed.notify_all()


class _Queued(io.RawIOBase):
    """A raw stream that passes its data for one file descriptor to a writer."""

    def __init__(self, descriptor: int, writer: Writer) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.writer = writer

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self.writer.put(self._descriptor, copy)
        return len(copy)

    def flush(self) -> None:
        self.writer.flush(self._descriptor)


def queue_standard_output() -> None:
    """Write stdout and stderr in one thread each, or in a single thread if both go to the same file."""
    if _writers():
        return
    out = Writer()
    sys.stdout = _queue(sys.stdout, 1, out)
    sys.stderr = _queue(sys.stderr, 2, out if os.path.sameopenfile(1, 2) else Writer())


def _queue(stream: TextIO, descriptor: int, writer: Writer) -> TextIO:
    # The stream may have been replaced, for example by a test.
    if type(stream) is not io.TextIOWrapper or stream.fileno() != descriptor:
        return stream
    stream.flush()
    raw: Any = _Queued(descriptor, writer)
    queued: TextIO = io.TextIOWrapper(
        raw,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return queued


_kept: list[TextIO] = []
"""Stdout, while `keep_stdout_for_answers` is active; otherwise empty."""


def answer_stream() -> TextIO:
    """Return stdout, also while other prints go to stderr."""
    return _kept[-1] if _kept else sys.stdout


@contextmanager
def keep_stdout_for_answers() -> Generator[None]:
    """Send to stderr what tools and modules of a program print, so that only answers are on stdout."""
    _kept.append(sys.stdout)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = _kept.pop()


def _writers() -> Sequence[Writer]:
    buffers = [getattr(stream, "buffer", None) for stream in (answer_stream(), sys.stderr)]
    return list({buffer.writer: None for buffer in buffers if isinstance(buffer, _Queued)})


def _write(descriptor: int, piece: bytes) -> int:
    while True:
        try:
            return os.write(descriptor, piece)
        except BlockingIOError:
            # Another process that shares the file made it non-blocking.
            select.select([], [descriptor], [])


def is_behind() -> bool:
    """Return whether any output waits for its reader."""
    return any(writer.waiting_bytes for writer in _writers())


def is_far_behind() -> bool:
    """Return whether so much output waits that no more should be added."""
    return any(writer.waiting_bytes > _MOST_WAITING_BYTES for writer in _writers())


def wait_for_room() -> None:
    """Wait while too much output is queued for its reader; a signal ends the process."""
    if is_far_behind():
        with exit_on_signals():
            for writer in _writers():
                while not writer.wait(_MOST_WAITING_BYTES):
                    pass


def finish(is_stopped: bool) -> None:
    """Wait until all output is written; if the run was stopped, at most until `Grace` is over.

    A signal during the wait ends the process.
    """
    grace = Grace()
    with exit_on_signals():
        for writer in _writers():
            while not writer.wait() and not (is_stopped and grace.is_over()):
                pass


def end() -> None:
    """Stop queueing output, and drop the output that no reader has read."""
    for writer in _writers():
        writer.end()


class Grace:
    """The remaining time for readers after the process was asked to stop."""

    def __init__(self) -> None:
        self._end = time.monotonic() + _GRACE_S
        self._written = -1
        self._written_at = 0.0

    def is_over(self) -> bool:
        now = time.monotonic()
        written = sum(writer.written_bytes for writer in _writers())
        if written != self._written:
            self._written, self._written_at = written, now
        return now > self._end or now - self._written_at > _SILENCE_S


@contextmanager
def exit_on_signals() -> Generator[None]:
    """Make a signal raise `SystemExit`, because no event loop handles signals here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
