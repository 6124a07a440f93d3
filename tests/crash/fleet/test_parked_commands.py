"""What resumes by itself stops after three deaths; a person lets the session try again."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands.command import Command
from support.network.sandbur_server import RunningServer, serve
from support.places import PYTHONPATH
from support.waiting import wait_for

import sandbur
from sandbur.state.session import SessionSummary
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

pytestmark = pytest.mark.slow

BOT = """
from pathlib import Path
from support.crash.fleet.deadly_victim import make_agent

agent = make_agent(Path(__file__).with_name("log"), "read", "yolo")
"""
JSON = ("--output-format", "json")
IMPORTS = {"PYTHONPATH": PYTHONPATH}


@pytest.fixture
def bot(command: Command) -> Command:
    (command.folder / "bot.py").write_text(BOT)
    command.env |= {"PYTHONPATH": f"{command.folder}{os.pathsep}{PYTHONPATH}"}
    return command


def count_starts(folder: Path) -> int:
    return len((folder / "log").read_text().split())


def begin(bot: Command) -> str:
    """Begin a session whose call kills the process; return its id."""
    assert bot.run("-p", "deadly", "--agent", "bot:agent").code == -signal.SIGKILL
    (found,) = read_sessions(bot)
    assert found.status == "interrupted"
    return found.id


def read_sessions(bot: Command) -> list[SessionSummary]:
    store = Store.open(f"sqlite:///{bot.folder}/data/sandbur.db")
    found = store.sessions()
    store.close()
    return found


def resume_by_name(bot: Command, session_id: str) -> int:
    return bot.run("-p", "-r", session_id).code


def resume_due(bot: Command, session_id: str) -> int:
    return bot.run("resume", "--due").code


@pytest.mark.parametrize("resume", [resume_by_name, resume_due])
def test_a_command_that_resumes_by_itself_parks_the_session_after_three_deaths(
    bot: Command, resume: Callable[[Command, str], int]
) -> None:
    session_id = begin(bot)
    codes = [resume(bot, session_id) for _ in range(4)]
    assert codes[:3] == [-signal.SIGKILL, -signal.SIGKILL, 3]
    assert codes[3] == (3 if resume is resume_by_name else 0)
    assert count_starts(bot.folder) == 3
    ended = bot.run("-p", "-r", session_id, *JSON)
    assert (ended.code, ended.result["status"], ended.result["session_id"]) == (
        3,
        "needs_decision",
        session_id,
    )
    assert ended.result["error"]["code"] == "session_parked"
    assert "died 3 times in a row while it ran explode({}), on " in ended.err
    assert f"sandbur approve {session_id}" in ended.err
    assert session_id in bot.run("sessions", "list", "--status", "parked", "--json").out
    assert "explode({})" in bot.run("sessions", "show", session_id).out
    assert bot.run("sessions", "show", session_id, "--json").out.count("died 3 times") == 1
    assert bot.run("sessions", "verify", session_id).code == 0


def test_a_person_lets_a_parked_session_try_again_three_times(bot: Command) -> None:
    session_id = begin(bot)
    for _ in range(3):
        resume_by_name(bot, session_id)
    assert bot.run("approve", session_id).code == -signal.SIGKILL
    assert [resume_by_name(bot, session_id) for _ in range(3)] == [-signal.SIGKILL, -signal.SIGKILL, 3]
    assert count_starts(bot.folder) == 6
    recorded = bot.run("approve", session_id, "--record-only")
    assert (recorded.code, "Recorded." in recorded.err) == (0, True)
    assert bot.run("resume", "--due").code == -signal.SIGKILL


def test_a_message_of_a_person_ends_the_turn_that_was_parked(bot: Command) -> None:
    session_id = begin(bot)
    for _ in range(3):
        resume_by_name(bot, session_id)
    ended = bot.run("-p", "stop", "-r", session_id)
    assert (ended.code, ended.out) == (0, "stopped\n")
    assert count_starts(bot.folder) == 3
    assert bot.run("resume", "--due").out == ""


async def test_a_program_gets_an_error_for_a_parked_session_and_may_let_it_try_again(bot: Command) -> None:
    session_id = begin(bot)
    for _ in range(2):
        resume_by_name(bot, session_id)

    @sandbur.tool(effect="read")
    def explode() -> str:
        """Do nothing."""
        return "nothing"

    model = ScriptedModel(lambda request: "fine")
    store = f"sqlite:///{bot.folder}/data/sandbur.db"
    agent = sandbur.Agent(model, tools=[explode], planning="off", store=store, cwd=bot.folder, env=bot.env)
    async with agent.session(session_id) as session:
        for _ in range(2):
            with pytest.raises(sandbur.SessionParked, match="died 3 times in a row"):
                await session.run()
        result = await session.approve()
    assert (result.status, result.output) == ("done", "fine")


def test_an_evaluation_ends_in_spite_of_a_run_that_kills_it_three_times(bot: Command) -> None:
    for name in ("deadly", "harmless", "quiet"):
        folder = bot.folder / "tasks" / name
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text('version = "1.0"\n')
        (folder / "instruction.md").write_text(name)
        (folder / "tests/test.sh").write_text("true\n")
    words = ("eval", "tasks", "--agent", "bot:agent", "--parallel", "3", "--json")
    assert [bot.run(*words).code for _ in range(3)] == [-signal.SIGKILL] * 3
    ended = bot.run(*words)
    assert ended.code == 75
    assert "deadly" in ended.err
    assert "died 3 times in a row while it ran explode({})" in ended.err
    counted = Counter((bot.folder / "log").read_text().split())
    assert counted["deadly"] == 3
    assert max(count for line, count in counted.items() if line != "deadly") == 1


def wait_until_dead(server: RunningServer) -> None:
    wait_for(lambda: server.process.poll() is not None)


def test_a_server_parks_the_session_that_kills_it_and_its_page_lets_it_try_again(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}", "SANDBUR_LEASE_S": "1"}
    words = ("--agent", "bot:agent", "-C", str(tmp_path))
    with serve(tmp_path, *words, env=env) as server:
        server.begin("s1", "deadly")
        wait_until_dead(server)
    for _ in range(2):
        with serve(tmp_path, *words, env=env) as server:
            wait_until_dead(server)
    with serve(tmp_path, *words, env=env) as server:
        server.wait_for("s1", "parked")
        server.begin("s2", "harmless")
        server.wait_for("s2", "done")
        assert count_starts(tmp_path) == 3 + 2
        assert "sandbur_sessions_parked 1" in server.ask("GET", "/metrics").body.decode()
        with server.stream("s1") as events:
            result = next(event.data for event in events if event.data["type"] == "result")
        assert (result["status"], result["exit_code"], result["error"]["code"]) == (
            "needs_decision", 3, "session_parked",
        )  # fmt: skip
        assert server.ask("POST", "/v1/sessions/s1/approve", {}).status == 202
        wait_until_dead(server)
    assert count_starts(tmp_path) == 4 + 2
