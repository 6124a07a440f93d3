"""A server on this machine that answers as clouds do: Azure OpenAI, Amazon Bedrock and Google Vertex.

with CloudServer([say("done")]) as server:
    ... server.url, server.requests
"""

import base64
import json
import struct
import threading
import zlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from support.models.turns import Raw, Turn
from support.models.wires import Wire, events_of


@dataclass(frozen=True)
class CloudRequest:
    path: str
    headers: dict[str, str]
    """The headers, with names in lower case."""
    body: Any
    """The body: parsed JSON, or text."""


class CloudServer:
    """Answers requests for models in the order of the script, and requests for tokens with `token-N`."""

    def __init__(self, script: list[Turn | Raw]) -> None:
        self._script = script
        self._tokens = 0
        self.requests: list[CloudRequest] = []
        """The requests to models, without those for tokens."""
        self.sign_ins: list[CloudRequest] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        is_json = headers.get("content-type", "").startswith("application/json")
        body = json.loads(raw) if is_json else raw.decode()
        request = CloudRequest(handler.path, headers, body)
        if handler.path == "/token":
            self.sign_ins.append(request)
            self._tokens += 1
            token = {"access_token": f"token-{self._tokens}", "expires_in": 3600, "token_type": "Bearer"}
            return _send(handler, 200, "application/json", json.dumps(token).encode())
        self.requests.append(request)
        turn = self._script.pop(0)
        if isinstance(turn, Raw):
            return _send(handler, turn.status, turn.content_type, turn.body)
        events = events_of(_wire(handler.path), turn, "model", len(raw))
        events = events if turn.fault == "none" else events[: len(events) // 2]
        if "/invoke-with-response-stream" in handler.path:
            frames = b"".join(map(chunk_frame, events))
            return _send(handler, 200, "application/vnd.amazon.eventstream", frames)
        return _send(handler, 200, "text/event-stream", b"".join(events))


def _wire(path: str) -> Wire:
    if "/chat/completions" in path:
        return "chat"
    return "responses" if "/responses" in path else "messages"


def _send(handler: BaseHTTPRequestHandler, status: int, content_type: str, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def chunk_frame(event: bytes) -> bytes:
    """Wrap one server-sent event as Bedrock does."""
    data = event.decode().partition("data: ")[2].strip()
    payload = {"bytes": base64.b64encode(data.encode()).decode(), "p": "abcdef"}
    return frame({":event-type": "chunk", ":message-type": "event"}, payload)


def frame(headers: dict[str, str], payload: dict[str, Any]) -> bytes:
    """Encode `application/vnd.amazon.eventstream`: lengths, headers, payload and two checksums."""
    encoded = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(encoded) + len(body), len(encoded))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + encoded + body
    return message + struct.pack("!I", zlib.crc32(message))
