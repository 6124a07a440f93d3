"""A tool server whose effects can be counted: counted.py FOLDER [protocol messages on stdin and stdout]

`note` has an effect; `book` has an effect after a person has answered its question. Both can kill the agent
in the middle of a call. The server implements the protocol itself, because the library starts slowly.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

VERSION = "2026-07-28"


def schema(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


TOOLS = [
    {"name": "note", "description": "Notes a word.", "inputSchema": schema("word")},
    {"name": "book", "description": "Books a table.", "inputSchema": schema("place")},
]


class Server:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "server/discover":
                return {"capabilities": {"tools": {}}, "supportedVersions": [VERSION], "ttlMs": 0}
            case "tools/list":
                return {"tools": TOOLS, "ttlMs": 0}
            case "tools/call":
                return self._call(params)
            case _:
                return None

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params["arguments"]
        if params["name"] == "book":
            answers = params.get("inputResponses")
            if answers is None:
                return _question(given["place"])
            word = answers["who"]["content"]["word"]
        else:
            word = given["word"]
        self._note(word)
        return {"content": [{"type": "text", "text": f"noted {word}"}], "isError": False}

    def _note(self, word: str) -> None:
        with (self._folder / "workspace" / "effects.txt").open("a") as effects:
            effects.write(f"{word}\n")
            effects.flush()
            order = self._folder / f"kill-{word}"
            if order.exists():
                order.unlink()
                os.kill(int((self._folder / "agent.pid").read_text()), signal.SIGKILL)
                time.sleep(83.5)
            effects.write(f"{word}-end\n")


def _question(place: str) -> dict[str, Any]:
    asked = {"message": f"Which word in {place}?", "mode": "form", "requestedSchema": schema("word")}
    return {
        "resultType": "input_required",
        "inputRequests": {"who": {"method": "elicitation/create", "params": asked}},
        "requestState": place,
    }


def main() -> None:
    server = Server(Path(sys.argv[1]))
    about = {"io.modelcontextprotocol/serverInfo": {"name": "counted", "version": "1"}}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = server.answer(message["method"], message.get("params", {}))
        if result is None:
            reply: dict[str, Any] = {"error": {"code": -32601, "message": f"there is no {message['method']}"}}
        else:
            plain = {"cacheScope": "private", "resultType": "complete", "_meta": about}
            reply = {"result": {**plain, **result}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
