"""A TCP proxy between a store and its server that counts round trips and can simulate failures."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Proxy:
    """Listens on `port` of 127.0.0.1; use it in a `with` block."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.round_trips = 0
        """The number of times that a client began to send after it had received an answer."""
        self._lock = threading.Lock()
        self._lines: list[_Line] = []
        self._cut: tuple[bytes, bool] | None = None
        self.was_cut = threading.Event()
        self._accept()

    def cut_at(self, words: bytes, *, lets_them_pass: bool) -> None:
        """Break the next line on which a client sends `words`: before the server gets them, or before the
        client gets the server's answer."""
        self.was_cut.clear()
        self._cut = (words, lets_them_pass)

    def refuse(self) -> None:
        """Break every connection and refuse new ones, like a server that is down."""
        self.stop_listening()
        self.break_lines()

    def freeze_lines(self) -> None:
        """Stop passing on data on the existing connections, like a server that is stopped."""
        with self._lock:
            for line in self._lines:
                line.is_frozen = True

    def stop_listening(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def break_lines(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
        for line in lines:
            line.end()

    def listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accept()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()

    def take_cut(self, data: bytes) -> tuple[bytes, bool] | None:
        with self._lock:
            cut = self._cut
            if cut is None or cut[0] not in data:
                return None
            self._cut = None
            return cut

    def count(self) -> None:
        with self._lock:
            self.round_trips += 1

    def _accept(self) -> None:
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:  # the server is down, and may come back
                    client.close()
                    continue
                line = _Line(self, client, server)
                line.start()
                with self._lock:
                    self._lines.append(line)


class _Line:
    """One client's connection and what the proxy opened for it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._has_answered = True
        self._is_muted = False
        self.is_frozen = False
        self._threads = [
            threading.Thread(target=self._until_closed, args=(work,), daemon=True)
            for work in (self._to_server, self._to_client)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Close both sides after their threads have ended."""
        self._shut_down()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()

    def _shut_down(self) -> None:
        for side in (self._client, self._server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _until_closed(self, work: Callable[[], None]) -> None:
        with suppress(OSError):
            work()
        self._shut_down()

    def _to_server(self) -> None:
        while data := self._client.recv(1 << 20):
            if self.is_frozen:
                continue
            if self._has_answered:
                self._has_answered = False
                self._proxy.count()
            if cut := self._proxy.take_cut(data):
                words, passes = cut
                self._is_muted = True
                self._server.sendall(data if passes else data[: data.index(words)])
                if not passes:
                    break
            else:
                self._server.sendall(data)
        self._note_cut()

    def _to_client(self) -> None:
        while data := self._server.recv(1 << 20):
            if self._is_muted:  # the server has done it, and the client will not hear of it
                break
            self._has_answered = True
            self._client.sendall(data)
        self._note_cut()

    def _note_cut(self) -> None:
        if self._is_muted:
            self._shut_down()
            self._proxy.was_cut.set()
