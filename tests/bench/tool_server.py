"""A model server that does no more than it must: it parses the request, then streams a call or an answer.

Who asks for no stream gets the answer as a whole.

The base URL says what to do: `http://127.0.0.1:PORT/RUN/TURNS/ARGUMENT_BYTES/v1`; the turns of RUN, which is
any name, are counted. Where RUN begins with `crowd`, each conversation counts its own, and waits 50 ms.
A POST to `/RUN/last/0` answers with the newest request of RUN.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import ClassVar

_CROWD_WAITS_S = 0.05


def _whole(number: int, turns: int, argument_bytes: int) -> bytes:
    if number <= turns:
        function = {"name": "act", "arguments": _arguments(number, argument_bytes)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        message, finish = {"role": "assistant", "content": "done"}, "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    frame = {"id": "r", "object": "chat.completion", "created": 0, "model": "m"}
    return json.dumps({**frame, "choices": [choice], "usage": usage}).encode()


def _arguments(number: int, argument_bytes: int) -> str:
    return json.dumps({"text": str(number).rjust(argument_bytes, "x")})


def _events(number: int, turns: int, argument_bytes: int) -> bytes:
    if number <= turns:
        arguments = _arguments(number, argument_bytes)
        call = {"index": 0, "id": f"call_{number}", "type": "function"}
        deltas = [
            {"role": "assistant", "tool_calls": [{**call, "function": {"name": "act", "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]},
        ]
        finish = "tool_calls"
    else:
        deltas, finish = [{"role": "assistant", "content": "done"}], "stop"
    frame = {"id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    chunks.append({**frame, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


class _Connection(asyncio.Protocol):
    """Reads requests with a Content-Length and answers each at once."""

    counts: ClassVar[Counter[str]] = Counter()
    newest: ClassVar[dict[str, bytes]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._head = b""
        self._body = bytearray()
        self._left = 0
        self._path = ""

    def data_received(self, data: bytes) -> None:
        if self._left:
            self._left -= len(data)
            self._body += data
        else:
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            lines = head.decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in lines[1:])
            self._path = lines[0].split()[1]
            self._left = int(fields["content-length"]) - len(body)
            self._head, self._body = b"", bytearray(body)
        if self._left == 0:
            self._answer()

    def _answer(self) -> None:
        run, turns, argument_bytes = self._path.split("/")[1:4]
        if turns == "last":
            body, kind = self.newest[run], "application/json"
        else:
            self.newest[run] = bytes(self._body)
            is_streamed = json.loads(self._body).get("stream")
            self.counts[run] += 1
            is_crowd = run.startswith("crowd")
            number = self._body.count(b'"tool_call_id"') + 1 if is_crowd else self.counts[run]
            made = _events if is_streamed else _whole
            body = made(number, int(turns), int(argument_bytes))
            kind = "text/event-stream" if is_streamed else "application/json"
            if is_crowd:
                asyncio.get_running_loop().call_later(_CROWD_WAITS_S, self._write, body, kind)
                return
        self._write(body, kind)

    def _write(self, body: bytes, kind: str) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(serve()))
