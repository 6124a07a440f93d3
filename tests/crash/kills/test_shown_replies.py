"""What was shown of a reply when the agent is killed is on disk, or is said at the resume."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.crash.place import Ended, Place
from support.crash.scenarios import effect
from support.crash.worlds import write_configuration
from support.models.server import ModelServer, Request, Turn, say
from support.models.turns import calls
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

NOTICE = "The process died before it recorded an answer"
LOG = 'grep -o \'\\"tool_use_id\\": \\"[^\\"]*\' | cut -d \'\\"\' -f 4 >> ../hooks.log'
HOOK = """\
[[hooks.{event}]]
hooks = [{{type = "command", command = "{command}", timeout = 600}}]
"""


def respond(request: Request) -> Turn:
    told = [message for message in request.body["messages"] if message["role"] == "tool"]
    return say("done") if told else calls(effect("one"))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(respond) as made:
        yield made


@pytest.mark.parametrize("point", ["reply_kept", "hook_starts", "hook_ran", "advice_taken"])
@pytest.mark.parametrize("kind", DATABASES)
def test_a_reply_is_on_disk_before_its_hooks_run(
    kind: str, tmp_path: Path, server: ModelServer, point: str
) -> None:
    with fresh_url(kind, tmp_path) as url:
        place = Place(tmp_path / "place", server, store=url)
        write_configuration(place.folder, HOOK.format(event="PreToolUse", command=LOG))
        assert place.begin(crash=point).code == -9
        ended = place.resume()
        assert (ended.code, ended.result["result"], place.effects) == (0, "done", ["one", "one-end"])
        asked = (place.folder / "hooks.log").read_text().split()
        assert len(set(asked)) == 1, "the hook was asked about the one call that is recorded"
        assert len(server.requests) == 2
        assert NOTICE not in ended.err
        assert ended.result["usage"]["llm_calls"] == 2
        assert place.run("replay", place.session_id).code == 0


def test_an_answer_is_on_disk_before_a_hook_looks_at_the_end_of_the_turn(tmp_path: Path) -> None:
    kill = "kill -9 $(cat ../agent.pid); sleep 600"
    with ModelServer(lambda request: say("the answer")) as server:
        place = Place(tmp_path, server)
        write_configuration(place.folder, HOOK.format(event="Stop", command=kill))
        assert place.begin().code == -9
        (place.folder / ".config/sandbur/config.toml").write_text("")
        ended = place.resume("--output-format", "stream-json")
        lines = [json.loads(line) for line in ended.out.splitlines()]
        assert [line["delta"] for line in lines if line["type"] == "text"] == ["the answer"]
        assert (ended.code, lines[-1]["result"], len(server.requests)) == (0, "the answer", 1)


def recorded(url: str, session_id: str) -> tuple[list[str], set[str]]:
    """Return what the model said in the session's histories, and the calls that its journal knows."""
    store = Store.open(url)
    try:
        shown = store.show(session_id).state.chat_history
        said = [message.display_text for message in shown if message.role == "assistant"]
        rows = store.database.query("SELECT call_id FROM calls WHERE session_id = ?", (session_id,))
        return said, {call_id for (call_id,) in rows}
    finally:
        store.close()


@pytest.mark.parametrize("kind", DATABASES)
def test_no_line_tells_of_a_reply_that_a_kill_takes_back(
    kind: str, tmp_path: Path, server: ModelServer
) -> None:
    with fresh_url(kind, tmp_path) as url:
        told: set[str] = set()
        for number in range(1, 7):
            for point in ("store_before_commit", "store_in_transaction", "reply_before_commit"):
                place = Place(tmp_path / f"{number}-{point}", server, store=url)
                ended = place.begin("--yolo", "--output-format", "stream-json", crash=f"{point}:{number}")
                lines = [json.loads(line) for line in ended.out.splitlines() if line.endswith("}")]
                told |= {line["type"] for line in lines}
                said, known = recorded(url, place.session_id) if lines else ([], set())
                for line in lines:
                    if line["type"] == "message" and line["role"] == "assistant":
                        assert line["content"] in said, (point, number)
                    if line["type"] == "tool_use":
                        assert line["call_id"] in known, (point, number)
        assert told >= {"message", "tool_use", "usage", "text"}


def usage_lines(ended: Ended) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in ended.out.splitlines() if line.endswith("}")]
    return [line for line in lines if line["type"] == "usage"]


@pytest.mark.parametrize("point", ["stream_mid", "reply_before_commit", "store_before_commit:2"])
@pytest.mark.parametrize("kind", DATABASES)
def test_a_lost_answer_is_said_at_the_resume_and_its_usage_is_unknown(
    kind: str, tmp_path: Path, point: str
) -> None:
    with fresh_url(kind, tmp_path) as url, ModelServer(lambda request: say("the answer")) as server:
        place = Place(tmp_path / "place", server, store=url)
        died = place.begin("--yolo", "--output-format", "stream-json", crash=point)
        assert died.code == -9
        assert usage_lines(died) == []
        [before] = stats_of(place)
        ended = place.resume()
        assert (ended.code, ended.result["result"]) == (0, "the answer")
        assert NOTICE in ended.err
        usage = ended.result["usage"]
        assert (usage["llm_calls"], usage["input_tokens"], usage["cost_usd"]) == (1, None, None)
        [after] = stats_of(place)
        assert before["failures"] == after["failures"] == {"model call: lost": 1}
        again = place.run("-p", "more", "-r", place.session_id, "--output-format", "json")
        assert (again.code, NOTICE in again.err) == (0, False)
        assert place.run("sessions", "verify", place.session_id).code == 0
        assert place.run("replay", place.session_id).code == 0


def stats_of(place: Place) -> list[dict[str, Any]]:
    return [json.loads(place.run("stats", "--json").out)]


def test_a_budget_is_not_kept_where_a_request_may_have_been_lost(tmp_path: Path) -> None:
    command = Command(tmp_path)
    budget = ("--max-budget-usd", "1", "--output-format", "json")
    words = ("-p", "hello", "-m", "demo", *budget)
    session_id = "0b29b0e5-0000-4000-8000-000000000001"
    assert command.run(*words, "--session-id", session_id, SANDBUR_CRASH_AT="stream_mid").code == -9
    ended = command.run("-p", "-r", session_id, *budget)
    assert (ended.code, ended.result["status"]) == (125, "budget_limit"), ended.err
    assert "is unknown" in ended.err
    ended = command.run("-p", "-r", session_id, *budget)
    assert (ended.code, ended.result["status"]) == (0, "done"), ended.err


def test_a_session_that_ended_in_order_says_nothing_of_a_lost_answer(tmp_path: Path) -> None:
    with ModelServer(lambda request: say("the answer")) as server:
        place = Place(tmp_path, server)
        assert place.begin().code == 0
        resumed = place.run("-p", "more", "-r", place.session_id)
        assert (resumed.code, NOTICE in resumed.err) == (0, False)


def test_a_person_who_stops_an_answer_is_not_told_that_it_was_lost(tmp_path: Path) -> None:
    command = Command(tmp_path)
    process = command.start("-p", "hello", "-m", "demo", "--output-format", "stream-json")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    os.kill(process.pid, 15)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (143, 0), err
    resumed = subprocess.run(
        command.line("-p", "-r", first["session_id"], "go on"), cwd=command.folder, env=command.env,
        capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert NOTICE not in resumed.stderr.decode()
