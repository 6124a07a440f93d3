"""A TCP proxy that cuts streams of events after a random number of bytes."""

import random
import socket
import threading
from contextlib import suppress
from typing import Self


class CuttingProxy:
    """Listens on `port` of 127.0.0.1, and cuts each of the first `cuts` answers to a request for events
    after a random number of bytes. What comes later passes whole.
    """

    def __init__(
        self, server_port: int, seed: int, cuts: int, least_bytes: int = 1, most_bytes: int = 3000
    ) -> None:
        self._server_port = server_port
        self._random = random.Random(seed)
        self._left = cuts
        self._range = (least_bytes, most_bytes)
        self._lock = threading.Lock()
        self.cuts = 0
        """How many answers were cut."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                _Line(self, client, socket.create_connection(("127.0.0.1", self._server_port))).start()

    def take_place(self) -> int | None:
        """Return after how many bytes an answer is cut, or None."""
        with self._lock:
            if self._left == 0:
                return None
            self._left -= 1
            self.cuts += 1
            return self._random.randrange(*self._range)


class _Line:
    """One connection of a client."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._place: int | None = None

    def start(self) -> None:
        threading.Thread(target=self._pass_requests, daemon=True).start()
        threading.Thread(target=self._pass_answers, daemon=True).start()

    def _pass_requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(1 << 16):
                if b"/events" in data.partition(b"\r\n")[0]:
                    self._place = self._proxy.take_place()
                self._server.sendall(data)
        self._end()

    def _pass_answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(1 << 16):
                place = self._place
                if place is not None and len(data) >= place:
                    self._client.sendall(data[:place])
                    break
                self._place = None if place is None else place - len(data)
                self._client.sendall(data)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
