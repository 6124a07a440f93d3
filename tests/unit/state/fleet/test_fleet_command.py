"""`sandbur fleet` refuses what cannot work in one sentence, and makes a token that only its owner reads."""

from pathlib import Path

import pytest
from support.commands.command import Command
from support.stores.ray_head import find_free_port

from sandbur.agent.fleet.cluster.ray_connection import (
    ClusterLost,
    RayConnection,
    find_local_cluster,
    make_ray_environment,
)
from sandbur.state.store.sessions.workload import FleetOrder, Wanted, read_order, write_order
from sandbur.state.store.store import Store


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("up", "needs --agent"),
        ("up --agent a:b --min 3 --max 2", "at least 3 and at most 2"),
        ("up --agent a:b --labels host:alpha", "host:alpha"),
        ("up --agent a:b --labels a?b", "cannot be a label"),
        ("up --agent a:b --labels GPU", "GPU is a resource of Ray, not a label"),
        ("up --agent a:b --labels eu,object_store_memory", "object_store_memory is a resource of Ray"),
        ("up --agent a:b --name a/b", "cannot be the name of a fleet"),
        ("up --agent no_module:x", "no_module"),
        ("status", "no fleet 'sandbur'"),
        ("drain --name other", "no fleet 'other'"),
        ("sideways", "`sideways` is not a known value"),
    ],
)
def test_a_wrong_line_is_answered_with_a_sentence(command: Command, line: str, problem: str) -> None:
    ended = command.run("fleet", *line.split())
    assert ended.code == 2, ended.err
    assert problem in ended.err
    assert "Traceback" not in ended.err


def test_a_store_in_memory_has_no_fleet(command: Command) -> None:
    (command.folder / "bot.py").write_text("import sandbur\nagent = sandbur.Agent('demo')\n")
    ended = command.run("fleet", "up", "--agent", "bot:agent", "--store", "memory:")
    assert (ended.code, "other processes open" in ended.err) == (2, True)


def test_status_shows_the_store_where_no_head_answers(command: Command) -> None:
    address = f"127.0.0.1:{find_free_port()}"
    ended = command.run("fleet", "status", "--address", address)
    assert ended.code == 1
    assert "0 sessions wait, 0 run" in ended.out
    assert f"No Ray head answers at {address}." in ended.err


@pytest.mark.parametrize(
    ("word", "wanted", "effect"),
    [
        ("drain", "drained", "The fleet will drain; `sandbur fleet up` undoes it."),
        ("down", "down", "No worker starts any more; repeat `sandbur fleet down` when Ray is back"),
    ],
)
def test_a_fleet_is_ended_in_the_store_while_no_head_answers(
    command: Command, word: str, wanted: Wanted, effect: str
) -> None:
    url = f"sqlite:///{command.folder}/store.db"
    store = Store.open(url)
    address = f"127.0.0.1:{find_free_port()}"
    write_order(store.database, "sandbur", FleetOrder("up", "somebody", address))
    ended = command.run("fleet", word, "--store", url)
    assert (ended.code, f"No Ray head answers at {address}." in ended.err) == (1, True)
    assert effect in ended.err
    assert read_order(store.database, "sandbur") == FleetOrder(wanted, "somebody", address)
    store.close()


async def test_a_connection_to_no_head_says_so_at_once() -> None:
    connection = RayConnection(f"127.0.0.1:{find_free_port()}", "sandbur", {})
    with pytest.raises(ClusterLost, match="No Ray head answers"):
        await connection.open()
    await connection.aclose()


async def test_the_address_that_a_killed_head_left_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{find_free_port()}")
    assert await find_local_cluster(tmp_path) == ""
    assert await find_local_cluster(tmp_path / "none") == ""


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = make_ray_environment({"HOME": str(tmp_path)}, tmp_path)
    path = Path(first["RAY_AUTH_TOKEN_PATH"])
    assert (path.stat().st_mode & 0o777, len(path.read_text())) == (0o600, 64)
    assert first["RAY_AUTH_MODE"] == "token"
    assert make_ray_environment({"HOME": str(tmp_path)}, tmp_path) == first


def test_a_token_of_the_person_is_used(tmp_path: Path) -> None:
    assert make_ray_environment({"RAY_AUTH_TOKEN": "x", "HOME": "/"}, tmp_path)["RAY_AUTH_TOKEN"] == "x"
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("y")
    made = make_ray_environment({"HOME": str(tmp_path)}, tmp_path)
    assert "RAY_AUTH_TOKEN_PATH" not in made
    assert not (tmp_path / "ray-token").exists()
