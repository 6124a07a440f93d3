"""The agent dies while a hook runs: it runs again for what was not proposed, and never for what was."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from support.crash.place import Place
from support.crash.scenarios import effect
from support.crash.worlds import write_configuration
from support.models.server import ModelServer, Request, Turn, say
from support.models.turns import calls
from support.victims.victims import run_victim

from sandbur.testing import assert_replays

pytestmark = pytest.mark.slow

LOG = 'grep -o \'\\"tool_use_id\\": \\"[^\\"]*\' | cut -d \'\\"\' -f 4 >> ../hooks.log'
CONFIG = """\
[[hooks.PreToolUse]]
hooks = [{{type = "command", command = "{}", timeout = 600}}]
"""


def place_in(folder: Path, server: ModelServer, command: str = LOG) -> Place:
    place = Place(folder, server)
    write_configuration(place.folder, CONFIG.format(command))
    return place


def respond(request: Request) -> Turn:
    told = [message for message in request.body["messages"] if message["role"] == "tool"]
    return say("done") if told else calls(effect("one"))


def runs(place: Place) -> list[int]:
    """Return how often the hook ran for each call."""
    return list(Counter((place.folder / "hooks.log").read_text().split()).values())


@pytest.mark.parametrize("point", ["hook_starts", "hook_ran", "advice_taken", "started_before_commit"])
def test_a_hook_is_asked_again_about_a_call_that_was_not_recorded(tmp_path: Path, point: str) -> None:
    with ModelServer(respond) as server:
        place = place_in(tmp_path, server)
        assert place.begin(crash=point).code == -9
        assert place.left_running() == []
        ended = place.resume()
        assert (ended.code, ended.result["result"], place.effects) == (0, "done", ["one", "one-end"])
        assert sum(runs(place)) == (1 if point == "hook_starts" else 2)


@pytest.mark.parametrize("point", ["started_after_commit", "tool_ran"])
def test_no_hook_is_asked_again_about_a_call_that_was_recorded(tmp_path: Path, point: str) -> None:
    with ModelServer(respond) as server:
        place = place_in(tmp_path, server)
        assert place.begin(crash=point).code == -9
        assert place.resume().code == 0
        assert runs(place) == [1]


def test_a_kill_while_a_hook_looks_at_a_result_makes_no_outcome_unknown(tmp_path: Path) -> None:
    kill = "echo ran >> ../hooks.log; kill -9 $(cat ../agent.pid); sleep 600"
    with ModelServer(respond) as server:
        place = Place(tmp_path, server)
        write_configuration(place.folder, CONFIG.replace("PreToolUse", "PostToolUse").format(kill))
        assert place.begin().code == -9
        assert place.left_running() == []
        ended = place.resume()
        assert (ended.code, ended.result["result"], place.effects) == (0, "done", ["one", "one-end"])
        told = [one["content"] for one in server.requests[-1].body["messages"] if one["role"] == "tool"]
        assert "may or may not" not in told[0]
        assert (place.folder / "hooks.log").read_text() == "ran\n"


def test_no_process_of_a_hook_outlives_a_killed_agent(tmp_path: Path) -> None:
    slow = f"{LOG}; sleep 600 & kill -9 $(cat ../agent.pid); sleep 600"
    with ModelServer(respond) as server:
        place = place_in(tmp_path, server, slow)
        assert place.begin().code == -9
        assert place.left_running() == []
        assert place.effects == []
        left = [path for path in (place.home / "scratch").rglob("*") if path.is_file()]
        (place.folder / ".config/sandbur/config.toml").write_text(CONFIG.format(LOG))
        assert place.resume().code == 0
        assert place.effects == ["one", "one-end"]
        assert left
        assert not [path for path in left if path.exists()]


AGENT_POINTS = (
    "reply_kept",
    "advice_taken",
    "tool_ran",
    "request_before_send",
    "request_before_send:2",
    "reply_before_commit:2",
    *(f"store_{when}_commit:{number}" for number in range(1, 7) for when in ("before", "after")),
)


@pytest.mark.parametrize("point", AGENT_POINTS)
def test_what_hooks_of_an_agent_changed_is_recorded_once_wherever_the_process_dies(
    tmp_path: Path, point: str
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    died = run_victim("agent_hooks_victim", url, str(tmp_path), point=point)
    assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("agent_hooks_victim", url, str(tmp_path))
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out) == {
        "words": ["Pay. Now.", "Done: paid 250, checked. Yours, Ada."],
        "results": ['(a hook of the user edited this call: {"cents": 250})\npaid 250, checked'],
        "paid": ["250"],
    }
    assert_replays("s1", store=url)
