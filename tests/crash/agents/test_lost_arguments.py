"""A call whose secret arguments died with its process cannot run again, and whoever settles it reads why."""

import os
import signal
from typing import Any

import pytest
from support.commands.command import Command
from support.places import PYTHONPATH

import sandbur
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

BOT = """
import os
import signal
from pathlib import Path

import sandbur
from sandbur.testing import ScriptedModel, ToolCall


@sandbur.tool(effect="effect")
def pay(secret: str) -> str:
    "Pay."
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def reply(request):
    if any(message.tool_results for message in request.messages):
        return "done"
    return ToolCall("pay", secret="ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")


MORE = {}
plain = sandbur.Agent(ScriptedModel(reply), name="payer", tools=[pay], allow=["pay"], planning="off", **MORE)
below = sandbur.Sequential(plain, name="line", **MORE)
deep = sandbur.Sequential(sandbur.Parallel(plain, name="both"), name="line", **MORE)
"""
WHY = "cannot run again: the value of [masked GitHub token"


async def settle_in_program(command: Command, name: str, session_id: str) -> tuple[str, ...]:
    """Settle the waiting call with the agent of the program; return the notices of the result."""
    more = {"store": f"sqlite:///{command.folder}/data/sandbur.db", "env": command.env}
    names: dict[str, Any] = {}
    exec(BOT.replace("MORE = {}", f"MORE = {more!r}"), names)
    agent: sandbur.Agent[Any] = names[name]
    async with agent.session(session_id) as session:
        result = await session.settle(session.pending[0].call_id, "rerun")
    assert result.status == "needs_decision"
    return result.notices


@pytest.mark.parametrize("name", ["plain", "below", "deep"])
async def test_a_call_that_cannot_run_again_says_so_in_every_output_however_deep_it_is(
    command: Command, name: str
) -> None:
    (command.folder / "bot.py").write_text(BOT)
    command.env |= {"PYTHONPATH": f"{command.folder}{os.pathsep}{PYTHONPATH}"}
    assert command.run("-p", "pay", "--agent", f"bot:{name}").code == -signal.SIGKILL
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    (session_id,) = [one.id for one in store.sessions() if one.spawned_by is None]
    store.close()
    assert command.run("-p", "-r", session_id).code == 3
    for form in ("text", "json", "stream-json"):
        ended = command.run("settle", session_id, "--as", "rerun", "--output-format", form)
        assert ended.code == 3
        assert WHY in (ended.out if form == "stream-json" else ended.err), form
        if name != "plain" and form != "stream-json":
            assert f"payer: The call call_1_0 still waits: it {WHY}" in ended.err, form
    notices = await settle_in_program(command, name, session_id)
    assert sum(WHY in one for one in notices) == 1, notices
    done = command.run("settle", session_id, "--as", "done")
    assert done.code == 0, done.err
