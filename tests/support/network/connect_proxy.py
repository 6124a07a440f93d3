"""An HTTP proxy that connects every request to a server on this machine."""

import asyncio
import threading
from contextlib import suppress
from typing import Self


class ConnectProxy:
    """Answers `CONNECT` in a thread, and connects to `port` of 127.0.0.1, whatever host is requested."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self.asked: list[str] = []
        """The first line of each request."""
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None] | None] = []
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_up.wait(10):
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._stop.wait()
        server.close()
        for task in filter(None, self._tasks):
            task.cancel()
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.asked.append(head.partition("\r\n")[0])
            if not head.startswith("CONNECT "):
                writer.write(b"HTTP/1.1 418 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            else:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
                try:
                    writer.write(b"HTTP/1.1 200 X\r\n\r\n")
                    await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
                finally:
                    await _close(far_writer)
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError, asyncio.CancelledError):
        await writer.wait_closed()


async def _pass_on(source: asyncio.StreamReader, goal: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(1 << 16):
            goal.write(piece)
            await goal.drain()
    goal.close()
