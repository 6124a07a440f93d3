"""A run keeps its model, output type and tool choice when it is killed and another process resumes it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.models.server import Answer, ModelServer, Request, call, say
from support.victims.victims import run_victim

POINTS = (
    "request_before_send:1",
    "reply_before_commit:1",
    "store_after_commit:3",
    "request_before_send:2",
    "reply_before_commit:2",
)
REPORT = {"title": "fire", "urgency": 3}


def reply(request: Request) -> Answer:
    last = request.body["messages"][-1]
    if request.body["model"] == "usual":
        return say("As usual.")
    return say(json.dumps(REPORT)) if last["role"] == "tool" else call("total")


def is_answered(body: dict[str, Any]) -> bool:
    return any(message["role"] == "tool" for message in body["messages"])


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_resumed_run_keeps_its_options_and_the_next_run_has_none(tmp_path: Path, point: str) -> None:
    with ModelServer(reply) as server:
        words = (f"sqlite:///{tmp_path}/store.db", server.base_url)
        died = run_victim("run_options_victim", *words, "begin", point=point, SANDBUR_LEASE_S="1")
        assert died.code == -signal.SIGKILL, died.err
        resumed = run_victim("run_options_victim", *words, "resume", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    first, second = resumed.out.splitlines()
    assert json.loads(first) == {"output": REPORT, "status": "done"}
    assert second == "As usual."
    *of_run, after = [request.body for request in server.requests]
    assert {body["model"] for body in of_run} == {"other"}
    for body in of_run:
        forced = {"type": "function", "function": {"name": "total"}}
        assert body.get("tool_choice") == (None if is_answered(body) else forced)
        assert "urgency" in json.dumps(body["messages"])
    assert (after["model"], after.get("tool_choice")) == ("usual", None)
    assert not server.rejections
