"""The local model server itself: it must refuse what real providers refuse, and run on its own."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.models.histories import BadHistory, check_request
from support.places import TESTS

CALL = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
USER = {"role": "user", "content": "hi"}
USE = {"type": "tool_use", "id": "u1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "u1", "content": "ok"}
WORDS = {"type": "text", "text": "hi"}
ITEM = {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def body(wire: str, messages: list[Any]) -> dict[str, Any]:
    name = "input" if wire == "responses" else "messages"
    return {"model": "m", "stream": True, "store": False, "max_tokens": 9, name: messages}


FINE = [
    ("chat", [USER, ASKS, ANSWER]),
    ("chat", [USER, ASKS, ANSWER, USER]),
    ("responses", [USER, THOUGHT, ITEM, OUTPUT]),
    ("messages", [turn("user", WORDS), turn("assistant", WORDS, USE), turn("user", RESULT, WORDS)]),
]
REFUSED = [
    ("chat", [USER, ASKS]),
    ("chat", [USER, ASKS, USER, ANSWER]),
    ("chat", [USER, ASKS, ANSWER, ANSWER]),
    ("chat", [USER, ANSWER]),
    ("chat", [USER, {**ASKS, "tool_calls": [CALL, CALL]}, ANSWER, ANSWER]),
    ("chat", [USER, {**ASKS, "tool_calls": [{**CALL, "function": {"name": "t", "arguments": "{"}}]}, ANSWER]),
    ("chat", [USER, {"role": "assistant", "content": "bye"}]),
    ("chat", [USER, {"role": "assistant", "content": ""}, USER]),
    ("responses", [USER, ITEM]),
    ("responses", [USER, ITEM, USER, OUTPUT]),
    ("responses", [USER, OUTPUT]),
    ("responses", [USER, ITEM, ITEM, OUTPUT, OUTPUT]),
    ("responses", [USER, THOUGHT]),
    ("responses", [USER, THOUGHT, USER]),
    ("messages", [turn("assistant", WORDS), turn("user", WORDS)]),
    ("messages", [turn("user", WORDS), turn("user", WORDS)]),
    ("messages", [turn("user", WORDS), turn("assistant", USE), turn("user", WORDS)]),
    ("messages", [turn("user", WORDS), turn("assistant", USE), turn("user", WORDS, RESULT)]),
    ("messages", [turn("user", WORDS), turn("assistant", USE), turn("user", RESULT, RESULT)]),
    ("messages", [turn("user", WORDS), turn("assistant", USE, USE), turn("user", RESULT)]),
    ("messages", [turn("user", RESULT)]),
    ("messages", [turn("user", {"type": "text", "text": " "})]),
    ("messages", [turn("user", WORDS), turn("assistant", WORDS)]),
]


@pytest.mark.parametrize(("wire", "messages"), FINE)
def test_a_proper_history_passes(wire: str, messages: list[Any]):
    check_request(wire, body(wire, messages))


@pytest.mark.parametrize(("wire", "messages"), REFUSED)
def test_a_broken_history_is_refused(wire: str, messages: list[Any]):
    with pytest.raises(BadHistory):
        check_request(wire, body(wire, messages))


def test_the_server_runs_in_a_process_of_its_own(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"fail": 503}, {"say": "hello", "times": 2}]))
    command = [sys.executable, "-m", "support.models.server", "--script", str(script)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=TESTS, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        sent = json.dumps(body("chat", [USER])).encode()
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(url, sent, timeout=120)
        refused.value.close()
        for _ in range(2):
            with urllib.request.urlopen(url, sent, timeout=120) as answer:
                assert b'"content": "he"' in answer.read()
        process.communicate(timeout=120)
    assert process.returncode == 0
