"""What is recorded of flows: observed messages beside them, hooks around them, steps and traces."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur import Flow
from sandbur.actions.ports.events import Notice, RunFinished
from sandbur.agent.extensions.flows.router import FlowRouter
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.timeline import list_timeline
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import FlowStarted

HOURS = Flow("hours", exact="opening hours", reply="Nine to five.")
BRIEF = Flow("brief", prefix="explain", instructions="Explain {rest} in one sentence.")


async def run_messages(tmp_path: Path, *messages: str, **given: Any) -> tuple[list[Any], Store]:
    """Send messages to one session; return all events and the store."""
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    model: Any = ScriptedModel("the model answers", "and again")
    router = FlowRouter([HOURS, BRIEF])
    session = await open_real(store, model, tmp_path, router=router, **given)
    seen: list[Any] = []
    for text in messages:
        if text.startswith("observe "):
            await session.observe(text)
        else:
            found, end = await collect(session.send(text))
            seen += [*(event for event in found if event is not end), end]
    return seen, store


async def differs(store: Store) -> object:
    found = (await replay(store, "s1")).divergence
    store.close()
    return found


async def test_steering_and_observed_messages_stand_before_the_message_of_a_flow(tmp_path: Path) -> None:
    seen, store = await run_messages(
        tmp_path, "hello", "observe one", "opening hours", "observe two", "hello"
    )
    assert [event.result for event in seen if isinstance(event, RunFinished)][1] == "Nine to five."
    assert await differs(store) is None


async def test_instructions_of_a_flow_replay_beside_what_a_hook_adds(tmp_path: Path) -> None:
    echo = "printf 'be kind'"
    hooks: Mapping[str, Any] = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": echo}]}]}
    _, store = await run_messages(tmp_path, "explain tides", "opening hours", hooks=hooks)
    assert await differs(store) is None


async def test_a_hook_refuses_the_message_of_a_flow(tmp_path: Path) -> None:
    refuse = "echo not now >&2; exit 2"
    hooks: Mapping[str, Any] = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": refuse}]}]}
    seen, store = await run_messages(tmp_path, "opening hours", hooks=hooks)
    assert any("not now" in event.message for event in seen if isinstance(event, Notice))
    assert await differs(store) is None


async def test_steps_name_the_flow(tmp_path: Path) -> None:
    _, store = await run_messages(tmp_path, "opening hours", "explain tides")
    texts = [step.text for step in list_timeline(store.database, "s1")]
    assert texts[0] == "opening hours (flow hours)"
    assert texts[1] == "explain tides (flow brief)"
    records = [traced.record for traced in list_traces(store.database, "s1")]
    assert [one.name for one in records if isinstance(one, FlowStarted)] == ["hours", "brief"]
    store.close()


@pytest.mark.parametrize("text", ["/flow", "/flow nope"])
async def test_a_wrong_flow_command_replays(tmp_path: Path, text: str) -> None:
    seen, store = await run_messages(tmp_path, "opening hours", text)
    assert seen[-1].result is None
    assert await differs(store) is None
