"""Many sessions of one agent in one process, on a server that takes nothing but TLS."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.models.server import Answer, ModelServer, Request, call, say
from support.network.certificates import Authority
from support.places import SUPPORT

import sandbur
from sandbur.testing import ScriptedModel, temporary_store

PROGRAM = SUPPORT / "victims/many_sessions.py"
MOST_IDLE_CONNECTIONS = 100
"""What the client keeps of connections that nobody uses."""


def doubled(request: Request) -> Answer:
    last = request.body["messages"][-1]["role"]
    return say("42") if last == "tool" else call("double", number=21)


def count_objects(how: str, sessions: int, folder: Path) -> tuple[dict[str, Any], int]:
    """Return the counts of the program's objects at each moment, and the number of connections it made."""
    authority = Authority(folder)
    tls = authority.issue("127.0.0.1").server_context()
    env = {**os.environ, "SSL_CERT_FILE": str(authority.certificate)}
    with ModelServer(doubled, record=False, tls=tls) as server:
        command = [sys.executable, str(PROGRAM), how, str(sessions), server.base_url, str(folder)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), server.connections


@pytest.mark.slow
def test_200_sessions_at_once_share_client_tls_context_graph_and_schemas(tmp_path: Path) -> None:
    counts, _ = count_objects("at_once", 200, tmp_path)
    height = counts["height"]
    assert height["Session"] == height["WireModel"] == 200
    assert height["clients"] == height["contexts"] == height["Graph"] == 1
    assert height["FunctionBasedStreamingAction"] == counts["before"]["FunctionBasedStreamingAction"]
    assert height["schemas of read_result"] == 1
    assert height["descriptors"] <= counts["before"]["descriptors"] + MOST_IDLE_CONNECTIONS + 10
    assert counts["closed"]["clients"] == 0
    assert counts["closed"]["descriptors"] == counts["before"]["descriptors"]


@pytest.mark.slow
def test_300_sessions_in_a_row_leave_nothing_behind(tmp_path: Path) -> None:
    counts, connections = count_objects("in_a_row", 300, tmp_path)
    assert counts["ended"] == counts["first"]
    assert counts["closed"]["descriptors"] == counts["before"]["descriptors"]
    assert counts["closed"]["SessionWriter"] == counts["closed"]["WireModel"] == 0
    # One for the agent before them, and one that all of them used.
    assert connections == 2


HEAVY = {"openai", "anthropic", "mcp", "rich", "prompt_toolkit", "burr", "pydantic", "httpx2", "sqlite3"}


def loaded(code: str) -> set[str]:
    """Return the top-level packages, and the modules of Sandbur, that `code` loads."""
    program = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    return {name if name.startswith("sandbur") else name.partition(".")[0] for name in names}


def test_an_import_of_sandbur_loads_nothing_that_is_not_used() -> None:
    found = loaded("import sandbur")
    assert not found & HEAVY
    assert {name for name in found if name.startswith("sandbur")} == {"sandbur"}


def test_the_class_agent_loads_no_provider_and_no_terminal() -> None:
    found = loaded("import sandbur; sandbur.Agent")
    assert not found & (HEAVY - {"pydantic", "burr", "sqlite3"})
    assert not {name for name in found if name.startswith("sandbur.ui.terminal")}
    assert sandbur.Agent.__module__ in found


async def test_sessions_that_start_at_once_begin_one_by_one(tmp_path: Path) -> None:
    moments: list[int] = []
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    def instructions(place: object) -> str:
        moments.append(rounds)
        return "Be brief."

    with temporary_store() as store:
        agent = sandbur.Agent(
            ScriptedModel(lambda request: "done"), instructions=instructions, cwd=tmp_path, store=store.url,
            env=store.env,
        )  # fmt: skip
        async with agent:
            counting = asyncio.create_task(count())
            await asyncio.gather(*(agent.run("go") for _ in range(20)))
            counting.cancel()
    assert len(set(moments)) == 20
