"""A run that ended leaves no folder for its calls behind, whatever ran in it."""

from pathlib import Path
from typing import Any

import pytest
from support.crash.place import Place
from support.crash.scenarios import SCENARIOS, effect
from support.crash.worlds import with_hooks, with_tool_server
from support.models.server import ModelServer, Request, Turn, say
from support.models.turns import calls

pytestmark = pytest.mark.slow


def respond(request: Request) -> Turn:
    told = [message for message in request.body["messages"] if message["role"] == "tool"]
    return say("done") if told else calls(effect("one"), effect("two"))


@pytest.mark.parametrize("name", ["hooks", "tool server", "commands"])
def test_a_run_leaves_no_scratch_folder(tmp_path: Path, name: str) -> None:
    worlds: dict[str, Any] = {"hooks": with_hooks, "tool server": with_tool_server}
    scenario = SCENARIOS["mcp"]
    responder = scenario.responder() if name == "tool server" else respond
    with ModelServer(responder) as server:
        place = Place(tmp_path, server)
        if name in worlds:
            with worlds[name](place.folder):
                ended = place.begin("--yolo", *scenario.flags)
        else:
            ended = place.begin()
        assert ended.code == 0, ended.err
    scratch = place.home / "scratch"
    assert [*scratch.rglob("*")] == []
