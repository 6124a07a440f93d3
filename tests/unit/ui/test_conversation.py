"""A conversation in JSON lines: turns, decisions, steering, interruptions and garbage, over real pipes."""

import base64
import json
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import pytest
from support.commands.command import TIMEOUT_S, Command, Ended
from support.models.server import ModelServer, call, say, stall
from support.tools.asking import copy_asking_bot

FORMATS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "message": text}


def hold(command: Command, *lines: Any, words: tuple[str, ...] = ("-m", "demo", "-y")) -> Ended:
    """Say everything at once, and then nothing more."""
    said = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return command.run(*FORMATS, *words, stdin=said)


def of(ended: Ended, kind: str) -> list[Any]:
    return [line for line in ended.lines if line["type"] == kind]


class Talk:
    """A conversation that is listened to while it goes on."""

    def __init__(self, command: Command, server: ModelServer | None, *words: str) -> None:
        """`server` None: the words name an agent with a model of its own."""
        self._command, self._server, self._words = command, server, words
        self.seen: list[Any] = []

    def __enter__(self) -> Self:
        env: dict[str, str] = {}
        words = (*FORMATS, *self._words)
        if self._server is not None:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": self._server.base_url}
            words = (*FORMATS, "-m", "openai-chat/scripted", *self._words)
        self.process = self._command.start(*words, stdin=subprocess.PIPE, env=env)
        # Whoever waits for a line that never comes finds the end instead.
        self._watchdog = threading.Timer(TIMEOUT_S, self.process.kill)
        self._watchdog.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def say(self, line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, kind: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.seen.append(json.loads(text))
            if self.seen[-1]["type"] == kind and fits(self.seen[-1]):
                return self.seen[-1]
        raise AssertionError(f"it ended without {kind}: {self.seen[-3:]}")

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.stdout is not None
        self.seen += [json.loads(text) for text in self.process.stdout]
        return self.process.wait(60)


def test_each_message_is_a_turn_with_a_result_and_the_end_of_stdin_is_the_end(command: Command) -> None:
    blocks = {
        "role": "user",
        "content": [{"type": "text", "text": "run echo"}, {"type": "text", "text": "two"}],
    }
    ended = hold(command, user("run echo one"), {"type": "user", "message": blocks}, user("hello"))
    assert ended.code == 0, ended.err
    assert len(of(ended, "result")) == 3
    assert [line["content"] for line in of(ended, "message") if line["role"] == "user"] == [
        "run echo one", "run echo\ntwo", "hello",
    ]  # fmt: skip
    assert [line["seq"] for line in ended.lines] == list(range(1, len(ended.lines) + 1))
    assert len({line["session_id"] for line in ended.lines}) == 1


def test_garbage_gives_an_error_each_and_the_conversation_goes_on(command: Command) -> None:
    garbage: list[Any] = [
        "{", "[1]", '"x"', '{"type":"nonsense"}', '{"type":"user"}', '{"type":"user","message":"  "}',
        '{"type":"user","message":{"role":"system","content":"x"}}', '{"type":"settle","call_id":"x"}',
        '{"type":"mode","mode":"god"}', "\u0000", "[" * 100_000, '{"type":"approve","call_id":7}',
        '{"type":"user","message":{"content":[{"type":"image","source":{"data":"%%"}}]}}',
    ]  # fmt: skip
    ended = hold(command, *garbage, "", user("hello"))
    assert ended.code == 0, ended.err
    assert [line["code"] for line in of(ended, "error")] == ["bad_input"] * len(garbage)
    assert of(ended, "result")[-1]["status"] == "done"


def test_decisions_come_as_lines_and_what_waits_at_the_end_gives_three(command: Command) -> None:
    words = ("-m", "demo")
    waiting = hold(command, user("run touch a.txt"), words=words)
    assert waiting.code == 3
    (pending,) = of(waiting, "result")[-1]["pending"]
    session_id = waiting.result["session_id"]
    assert f"sandbur -r {session_id}" in waiting.err
    resumed = ("-r", session_id)
    refused = hold(command, {"type": "approve", "call_id": "another"}, {"type": "continue"}, words=resumed)
    assert "'another'" in of(refused, "error")[0]["message"]
    assert refused.code == 3
    assert not (command.folder / "a.txt").exists()
    done = hold(command, {"type": "approve", "call_id": pending["call_id"]}, words=resumed)
    assert (done.code, of(done, "result")[-1]["status"]) == (0, "done")
    assert done.lines[0]["type"] == "approval"
    assert (command.folder / "a.txt").exists()
    denied = hold(command, user("run touch b.txt"), {"type": "deny", "reason": "not now"}, words=words)
    assert [line["status"] for line in of(denied, "result")] == ["needs_approval", "denied"]
    assert denied.code == 3
    assert "not now" in json.dumps(of(denied, "tool_result"))


def test_yolo_is_only_for_a_conversation_that_was_started_with_it(command: Command) -> None:
    asked = [{"type": "mode", "mode": "yolo"}, user("/mode yolo"), {"type": "mode", "mode": "plan"}]
    ended = hold(command, *asked, user("run touch a.txt"), words=("-m", "demo"))
    assert len(of(ended, "error")) == 2
    assert not (command.folder / "a.txt").exists()
    assert of(ended, "init")[-1]["mode"] == "plan"
    back = hold(command, {"type": "mode", "mode": "plan"}, {"type": "mode", "mode": "yolo"}, user("hello"))
    assert (of(back, "error"), of(back, "init")[-1]["mode"]) == ([], "yolo")


def test_a_line_steers_the_run_that_goes_on(command: Command) -> None:
    server = ModelServer([call("run_shell_command", command="cat pipe"), say("steered"), say("queued")])
    subprocess.run(["mkfifo", command.folder / "pipe"], check=True)
    with server, Talk(command, server, "-y") as talk:
        talk.say(user("begin"))
        talk.until("tool_use")
        talk.say({"type": "steer", "message": "use tabs"})
        talk.say(user("and after it"))
        talk.say("garbage")
        # Lines are taken in their order, so the two before it are on disk.
        talk.until("error")
        (command.folder / "pipe").write_text("x")
        talk.until("message", lambda line: line["content"] == "use tabs")
        assert talk.until("result")["result"] == "steered"
        assert talk.until("result")["result"] == "queued"
        assert talk.end() == 0
    told = [one["content"] for one in server.requests[1].body["messages"] if one["role"] == "user"]
    assert told == ["begin", "use tabs"]


def test_a_tool_that_a_server_adds_is_there_in_a_later_turn(command: Command) -> None:
    copy_asking_bot(command.folder, "growing.py")
    with Talk(command, None, "--agent", "asking_bot:agent") as talk:
        talk.say(user("mcp__shop__grow"))
        assert talk.until("result")["result"] == "Result: grown"
        talk.say({"type": "mode", "mode": "auto-edit"})
        talk.until("notice", lambda line: line["message"] == "Mode: auto-edit.")
        result = ""
        while "woof" not in result:  # the server's notification may come after the result of its call
            talk.say(user("mcp__shop__bark"))
            result = talk.until("result")["result"]
        assert [line["mode"] for line in talk.seen if line["type"] == "init"][-1] == "auto-edit"
        assert talk.end() == 0


def test_an_interruption_ends_the_turn_and_not_the_conversation(command: Command) -> None:
    server = ModelServer([stall(say("half of it and more ")), say("again")])
    with server, Talk(command, server) as talk:
        talk.say(user("begin"))
        talk.until("text")
        talk.say({"type": "interrupt"})
        assert talk.until("result")["status"] == "interrupted"
        talk.say(user("once more"))
        assert talk.until("result")["status"] == "done"
        assert talk.end() == 0


def test_a_signal_ends_a_conversation_that_waits(command: Command) -> None:
    server = ModelServer([say("one")])
    with server, Talk(command, server) as talk:
        talk.say(user("begin"))
        talk.until("result")
        talk.say("garbage")
        talk.until("error")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.process.wait(60) == 143


def test_what_was_queued_when_it_was_killed_is_the_next_turn_of_who_resumes(command: Command) -> None:
    server = ModelServer([stall(say("half of it and more ")), say("the rest"), say("and more")])
    with server, Talk(command, server) as talk:
        talk.say(user("begin"))
        session_id = talk.until("text")["session_id"]
        talk.say(user("after it"))
        talk.say("garbage")
        talk.until("error")
        talk.process.kill()
        talk.process.wait()
        with Talk(command, server, "-r", session_id) as talk:
            assert talk.until("result")["result"] == "the rest"
            assert talk.end() == 0
    told = [one["content"] for one in server.requests[1].body["messages"] if one["role"] == "user"]
    assert told[-1] == "after it"


def test_a_picture_comes_in_a_line(command: Command) -> None:
    server = ModelServer([say("a dot")])
    picture = b"\x89PNG\r\n\x1a\n" + b"\0" * 32
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture).decode()}
    with server, Talk(command, server) as talk:
        content = [{"type": "text", "text": "what is it"}, {"type": "image", "source": source}]
        talk.say({"type": "user", "message": {"role": "user", "content": content}})
        talk.until("result")
        assert talk.end() == 0
    assert source["data"] in json.dumps(server.requests[0].body)


@pytest.mark.parametrize("words", [("-p", "-"), ("-p", "--output-format", "json"), ("-p", "--attach", "x")])
def test_what_does_not_go_with_lines_is_refused(command: Command, words: tuple[str, ...]) -> None:
    formats = FORMATS[1:3] if "json" in words else FORMATS[1:]
    assert command.run(*words, *formats, "-m", "demo", stdin="").code == 2
