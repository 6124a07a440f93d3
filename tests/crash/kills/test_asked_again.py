"""A kill around a question that comes right before a start loses neither the question nor what had run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash.past import Past
from support.crash.place import Ended, Place
from support.crash.points import count_reached
from support.crash.scenarios import make_call, rounds
from support.models.server import Answer, ModelServer, Request, say
from support.models.turns import calls

SWAP = "echo ran >> effects.txt && ln -s ../secret src"
FLAGS = ("--mode", "interactive", "--allow", f"run_shell_command({SWAP})")


def respond(request: Request) -> Answer:
    both = calls(make_call("run_shell_command", command=SWAP), make_call("read_file", path="src/key"))
    return rounds(Past(request), both, say("all is said"))


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(respond) as running:
        yield running


def place_of(folder: Path, server: ModelServer) -> Place:
    secret = folder / "secret"
    secret.mkdir(parents=True)
    (secret / "key").write_text("the-key-itself\n")
    return Place(folder, server)


def asks(ended: Ended) -> bool:
    pending = ended.result.get("pending", [])
    return ended.code == 3 and [call["tool"] for call in pending] == ["read_file"]


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> int:
    """Return how many commits an undisturbed run makes until it asks and has given the session back."""
    place = place_of(tmp_path_factory.mktemp("whole") / "trial", server)
    trace = place.folder / "points"
    words = ("-p", "do it", "-m", place.model, "--session-id", place.session_id, "--output-format", "json")
    ended = place.run(*words, *FLAGS, trace=trace)
    assert asks(ended), ended.err
    return count_reached(trace)["store_after_commit"]


POINTS = ("tool_ran:1", "store_before_commit:-1", "store_after_commit:-1", "store_before_commit:0")


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.replace(":", " "))
def test_the_question_is_there_after_the_kill_and_the_command_ran_once(
    tmp_path: Path, server: ModelServer, commits: int, point: str
) -> None:
    place = place_of(tmp_path / "trial", server)
    name, number = point.split(":")
    crash = point if name == "tool_ran" else f"{name}:{commits + int(number)}"
    assert place.begin(*FLAGS, crash=crash).code == -9
    ended = place.resume()
    assert asks(ended), ended.err
    assert place.effects == ["ran"]
    killed = place.run("approve", place.session_id, "--record-only", crash="store_before_commit:1")
    assert killed.code == -9
    assert asks(place.resume())
    denied = place.run("deny", place.session_id, "--all", "--output-format", "json")
    assert (denied.code, denied.result["status"]) == (3, "denied"), denied.err
    assert place.effects == ["ran"]
    assert not any("the-key-itself" in str(request.body) for request in server.requests)
    assert place.run("sessions", "verify", place.session_id).code == 0
