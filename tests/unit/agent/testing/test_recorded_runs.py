"""Recorded runs in a person's own tests: what differs is told, and what was said can be said again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur import Agent, tool
from sandbur.testing import (
    ScriptedModel,
    TemporaryStore,
    ToolCall,
    assert_replays,
    recorded_replies,
    temporary_store,
)

RECORDINGS = sorted((ROOT / "tests" / "recordings").glob("*.jsonl"))


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def ran(store: TemporaryStore) -> tuple[Agent[str], str]:
    model = ScriptedModel([ToolCall("double", number=21), "It is 42."])
    agent = Agent(model, tools=[double], store=store.url, env=store.env)
    return agent, agent.run_sync("What is twice 21?").session_id


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_what_was_recorded_before_still_happens(recording: Path) -> None:
    assert_replays(recording, ignore_tools=True)


async def test_a_session_of_a_store_is_replayed_inside_of_an_event_loop() -> None:
    with temporary_store() as store:
        model = ScriptedModel([ToolCall("double", number=21), "It is 42."])
        agent = Agent(model, tools=[double], store=store.url, env=store.env)
        result = await agent.run("What is twice 21?")
        assert_replays(result.session_id, store=store.url, agent=agent)


def test_a_tool_that_changed_is_a_failed_assertion_that_names_the_step() -> None:
    @tool(effect="read")
    def double(number: float) -> float:
        """Double any number at all."""
        return 2 * number

    with temporary_store() as store:
        _, session_id = ran(store)
        changed = Agent(ScriptedModel([]), tools=[double], store=store.url, env=store.env)
        with pytest.raises(AssertionError, match=rf"(?s){session_id}: step 1 \(router\), request: .*double"):
            assert_replays(session_id, store=store.url, agent=changed)
        assert_replays(session_id, store=store.url, agent=changed, ignore_tools=True)


def test_what_cannot_be_replayed_is_a_failed_assertion_too(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"gone\.jsonl: The recording .* cannot be read"):
        assert_replays(tmp_path / "gone.jsonl")
    with temporary_store() as store, pytest.raises(AssertionError, match="nobody"):
        assert_replays("nobody", store=store.url)


def test_a_recorded_conversation_is_a_script() -> None:
    with temporary_store() as store:
        _, session_id = ran(store)
        replies = recorded_replies(session_id, store=store.url)
        assert [reply.text for reply in replies] == ["", "It is 42."]
        again = Agent(ScriptedModel(replies), tools=[double], store=store.url, env=store.env)
        assert again.run_sync("What is twice 21?").output == "It is 42."


def test_a_file_is_a_script_too() -> None:
    (chat,) = (path for path in RECORDINGS if path.stem == "chat")
    assert any(reply.text for reply in recorded_replies(chat))


def test_a_temporary_store_leaves_nothing_and_reaches_for_nothing() -> None:
    code = (
        "from sandbur import Agent\nfrom sandbur.testing import *\n"
        "with temporary_store() as store:\n"
        "    agent = Agent(ScriptedModel(['Hi.']), store=store.url, env=store.env)\n"
        "    assert agent.run_sync('Hello').output == 'Hi.'\n"
        "    assert (store.folder / 'sandbur.db').exists()\n"
        "assert not store.folder.exists()\n"
    )
    home = ROOT / "nowhere"
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "SANDBUR_MODEL": "no such model"}
    subprocess.run([sys.executable, "-c", code], cwd="/", env=env, check=True)
    assert not home.exists()
