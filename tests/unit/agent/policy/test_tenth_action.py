"""A tenth action is its own file and a few lines of the graph's table; everybody else reads what it declares.

The action is added to a copy of the product. It asks the model after each round of calls, and may propose
further calls.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

pytestmark = pytest.mark.slow

CRITIC = '''
"""Asks the model after each round of calls whether the work is done."""

from ..state.application import ApplicationState
from .ports import Ports
from .turn.burr_action import Changes, graph_action
from .turn.calls.proposals import count_bad_rounds, propose, record_wishes, make_ids_unique
from .turn.model_call import CALL_READS, REPLY_FIELDS, CutReply, KeptReply, ask, overflow, apply_reply


@graph_action(
    reads=["chat_history", "execution_mode", *CALL_READS],
    writes=["chat_history", "pending_tool_calls", "turn_open", "bad_rounds", *REPLY_FIELDS],
    asks_model="turn",
    proposes_calls=True,
    stop_note="It stopped while the model was looking at its work.",
)
async def critic(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Ask for a verdict or for more calls."""
    if cut:
        return {"chat_history": state.chat_history.append(*cut)}
    histories = (state.chat_history,)
    reply = await ask(state, ports, histories, kept=kept)
    if reply is None:
        return overflow(state, "critic")
    message = make_ids_unique(reply.message, ports)
    pending = await propose(message.tool_uses, reply, ports, state, None)
    await record_wishes(message, pending, ports)
    return {
        **apply_reply(state, ports, histories, reply),
        "chat_history": state.chat_history.append(message),
        "pending_tool_calls": pending,
        "turn_open": bool(pending),
        "bad_rounds": count_bad_rounds(state, pending) if pending else 0,
    }
'''
WAYS = """
    ("critic", "context_compressor", OVERFLOW),
    ("critic", "human_confirm", ASKING),
    ("critic", "execute_tools", READY),
    ("critic", "critic", UNANSWERED),
    ("critic", "prompt", OTHERWISE),
    ("context_compressor", "critic", _back_to("critic")),
"""
LOOK = '''
import asyncio, json, sys
from pathlib import Path

import sandbur
from sandbur import Agent, Limits, tool
from sandbur.testing import ScriptedModel, ToolCall

RAN = Path("ran.txt")

@tool(effect="idempotent")
def act(text: str) -> str:
    """Act."""
    with RAN.open("a") as file:
        file.write(f"{text}\\n")
    return text

def agent(*replies, **more):
    return Agent(ScriptedModel(replies), tools=[act], mode="yolo", store="sqlite:///runs.db",
                 env={"HOME": ".", "SANDBUR_HOME": "data"}, **more)
'''


def product(folder: Path, action: str = CRITIC) -> Path:
    """Return a copy of the product with the action in it, and nothing else changed."""
    for layer in ("state", "actions", "agent", "ui"):
        shutil.copytree(ROOT / layer, folder / layer, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "sandbur.py", folder)
    (folder / "actions" / "critic.py").write_text(action)
    table = folder / "agent" / "graph.py"
    text = table.read_text("utf-8")
    for old, new in (
        (
            "from ..actions.execute_tools import",
            "from ..actions.critic import critic\nfrom ..actions.execute_tools import",
        ),
        ("        context_compressor,\n", "        context_compressor,\n        critic,\n"),
        ('("execute_tools", "router", OTHERWISE)', '("execute_tools", "critic", OTHERWISE)'),
        ('    ("context_compressor", "router", OTHERWISE),\n', ""),
        ("TRANSITIONS: Transitions = (\n", f"TRANSITIONS: Transitions = ({WAYS}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    last = '    ("context_compressor", "router", OTHERWISE),\n)\n'
    table.write_text(re.sub(r'(_back_to\("vibe_result_analyzer"\)\),\n)\)\n', rf"\1{last}", text))
    return folder


def run(folder: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOOK + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def answered(folder: Path, code: str, **env: str) -> Any:
    """Return what a program in the copy prints as JSON."""
    ended = run(folder, code, **env)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return product(tmp_path_factory.mktemp("grown"))


def test_the_limits_of_a_run_hold_before_it(grown: Path) -> None:
    found = answered(
        grown,
        """
async def main():
    result = await agent(ToolCall("act", text="a"), "never asked for", limits=Limits(max_turns=1)).run("go")
    print(json.dumps([result.status, result.usage.llm_calls, Path(sandbur.__file__).parent.samefile(".")]))
asyncio.run(main())
""",
    )
    assert found == ["turn_limit", 1, True]


CALLS_TWICE = """
async def main():
    bot = agent(*REPLIES)
    async with bot.session("s1") as session:
        async for event in session.stream(*MESSAGE):
            pass
asyncio.run(main())
"""


def test_its_reply_goes_to_disk_with_the_start_of_its_first_call(grown: Path) -> None:
    replies = 'REPLIES, MESSAGE = [ToolCall("act", text="a"), ToolCall("act", text="b"), "done"], ["go"]\n'
    (grown / "ran.txt").unlink(missing_ok=True)
    ended = run(grown, replies + CALLS_TWICE, SANDBUR_CRASH_AT="started_before_commit:2")
    assert ended.returncode == -9, ended.stderr
    steps = """
import sqlite3
found = sqlite3.connect("runs.db").execute("SELECT position FROM steps WHERE session_id = 's1' ORDER BY seq")
print(json.dumps([row[0] for row in found]))
"""
    assert answered(grown, steps) == ["prompt", "router", "execute_tools"]
    resumed = run(grown, 'REPLIES, MESSAGE = [ToolCall("act", text="b"), "done"], []\n' + CALLS_TWICE)
    assert resumed.returncode == 0, resumed.stderr
    assert answered(grown, steps) == [
        "prompt", "router", "execute_tools", "critic", "execute_tools", "critic",
    ]  # fmt: skip
    assert (grown / "ran.txt").read_text() == "a\nb\n"
    timeline = """
from sandbur.state.store.store import Store
from sandbur.agent.history.timeline import list_timeline
store = Store.open("sqlite:///runs.db")
print(json.dumps([(step.action, step.kind) for step in list_timeline(store.database, "s1")]))
"""
    assert answered(grown, timeline)[3:] == [
        ["critic", "calls"], ["execute_tools", "results"], ["critic", "reply"],
    ]  # fmt: skip


PROVE = """
from sandbur.agent.graph import build_graph
from sandbur.agent.policy.graph_proof import prove
proof = asyncio.run(prove(build_graph()))
print(json.dumps([proof.actions, proof.problem]))
"""


def test_the_proof_covers_it(grown: Path) -> None:
    assert answered(grown, PROVE) == [10, ""]


def test_an_action_that_does_not_declare_its_calls_is_found_by_the_proof(tmp_path: Path) -> None:
    folder = product(tmp_path, CRITIC.replace("    proposes_calls=True,\n", ""))
    actions, problem = answered(folder, PROVE)
    assert actions == 10
    assert "neither a rule, nor the mode, nor a person" in problem


def test_an_action_that_asks_a_model_needs_the_inputs_of_an_interrupted_call(tmp_path: Path) -> None:
    folder = product(tmp_path, CRITIC.replace(", cut: CutReply = (), kept", ", kept"))
    ended = run(folder, "import sandbur.agent.graph")
    assert "TypeError: critic asks a model, so it needs the inputs ['cut']" in ended.stderr
