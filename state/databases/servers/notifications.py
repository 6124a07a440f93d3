"""Notifications of a server: hints that something changed, which may get lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from ...errors import StoreError
from .requirements import ListeningConnection, Server
from .server_errors import ServerError

_WAIT_S = 0.5
"""The longest time until a stopped listener ends."""
_PAUSE_S = 1.0
"""The pause before a new connection after one was lost."""


class ChannelListener:
    """Waits for notifications in a thread, on a connection of its own.

    A lost connection is opened again. What was notified meanwhile is lost, so `hint` is called for a new
    connection, too.
    """

    def __init__(self, server: Server, channel: str, hint: Callable[[], None]) -> None:
        self._server = server
        self._channel = channel
        self._hint = hint
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbur-notifications", daemon=True)
        with suppress(RuntimeError):  # without a thread there are no hints
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait until its connection is closed."""
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            with suppress(ServerError, StoreError):
                self._follow(cast("ListeningConnection", self._server.connect()))
            self._is_stopped.wait(_PAUSE_S)

    def _follow(self, connection: ListeningConnection) -> None:
        """Call `hint` for each notification until the listener is stopped. Raises `ServerError`."""
        try:
            connection.listen(self._channel)
            self._hint()
            while not self._is_stopped.is_set():
                if connection.wait_for_notification(_WAIT_S):
                    self._hint()
        finally:
            connection.close()
