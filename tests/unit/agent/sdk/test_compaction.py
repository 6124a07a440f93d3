"""How an agent makes room for a long conversation: by a summary, by leaving out, or not at all."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import ScriptedModel

from sandbur import Agent, Compaction, events
from sandbur.agent.history.replay.replay import replay
from sandbur.state.errors import UsageError, WrongType
from sandbur.state.store.store import Store

LONG = "word " * 700
TURNS = ["one " * 400, "two " * 400, "three " * 400, "four " * 400]


def agent_of(folder: Path, model: Any, compaction: Compaction | None = None) -> Agent[str]:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    store = f"sqlite:///{folder}/runs.db"
    return Agent(model, store=store, cwd=folder, env=env, compaction=compaction, planning="off")


async def talk(folder: Path, model: Any, compaction: Compaction | None, turns: int = 4) -> list[Any]:
    """Send long messages; return the events of all runs."""
    seen: list[Any] = []
    agent = agent_of(folder, model, compaction)
    async with agent, agent.session("s1") as session:
        for number in range(turns):
            seen += [event async for event in session.stream(f"{number} {LONG}")]
    return seen


def found(seen: list[Any], kind: type) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]


async def test_a_summary_of_another_model_replaces_older_messages(tmp_path: Path) -> None:
    model = ScriptedModel(*TURNS, context_window=6_000)
    writer = ScriptedModel("SHORT", "SHORTER", "SHORTEST")
    writer.name = "scripted/writer"
    rules = Compaction(model=writer, prompt="Keep only names. <{messages}> Answer briefly.", at=0.7)
    seen = await talk(tmp_path, model, rules)
    compacted = found(seen, events.Compacted)
    assert compacted
    assert [one.kind for one in compacted] == ["summary"] * len(writer.requests)
    assert all(0 < one.tokens_after < one.tokens_before for one in compacted)
    [asked] = list(writer.requests[0].messages)
    assert asked.text.startswith("Keep only names. <user: 0 word")
    assert asked.text.endswith("> Answer briefly.")
    assert "SHORT" in next(iter(model.requests[-1].messages)).text
    with sqlite3.connect(tmp_path / "runs.db") as store:
        [(named,)] = store.execute(
            'SELECT COUNT(*) FROM traces WHERE body LIKE \'%"model":"scripted/writer"%\''
        )
    assert named == len(writer.requests)


async def test_truncation_asks_no_model(tmp_path: Path) -> None:
    model = ScriptedModel(*TURNS, context_window=6_000)
    seen = await talk(tmp_path, model, Compaction(kind="truncate"))
    compacted = found(seen, events.Compacted)
    assert compacted
    assert {one.kind for one in compacted} == {"truncate"}
    assert len(model.requests) == len(TURNS)
    first = next(iter(model.requests[-1].messages)).text
    assert f"[{compacted[-1].messages} earlier messages are left out.]" in first


async def test_the_newest_messages_stay_if_they_fit(tmp_path: Path) -> None:
    model = ScriptedModel(*TURNS, context_window=6_000)
    await talk(tmp_path, model, Compaction(kind="truncate", keep_messages=3))
    last = [message.text for message in model.requests[-1].messages]
    assert len(last) == 4
    assert [text[:4] for text in last[1:]] == ["2 wo", "thre", "3 wo"]


async def test_without_compaction_the_run_ends_and_a_later_one_can_go_on(tmp_path: Path) -> None:
    model = ScriptedModel(*TURNS, context_window=6_000)
    seen = await talk(tmp_path, model, Compaction(kind="off"))
    ended = found(seen, events.RunFinished)[-1]
    assert ended.status == "error"
    assert ended.error.code == "context_full"
    assert "compaction is off" in ended.error.message
    assert not found(seen, events.Compacted)
    async with agent_of(tmp_path, model, Compaction(kind="truncate")).session("s1") as session:
        assert (await session.run()).status == "done"


async def test_a_compaction_is_replayed_as_it_was(tmp_path: Path) -> None:
    model = ScriptedModel(*TURNS[:2], "SUMMARY", TURNS[2], "SUMMARY", TURNS[3], context_window=6_000)
    agent = agent_of(tmp_path, model, Compaction(keep_messages=1, prompt="Be brief."))
    async with agent, agent.session("s1") as session:
        for number in range(4):
            await session.run(f"{number} {LONG}")
    store = Store.open(f"sqlite:///{tmp_path}/runs.db", home=tmp_path / "home")
    found = await replay(store, "s1")
    store.close()
    assert found.divergence is None


@pytest.mark.parametrize(
    ("compaction", "error"),
    [({"kind": "never"}, UsageError), ({"at": 3.0}, UsageError), ({"keep_messages": 0}, UsageError)],
)
def test_a_rule_that_is_not_possible_is_an_error(compaction: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        Agent("demo", compaction=Compaction(**compaction))


def test_something_else_in_its_place_is_an_error() -> None:
    with pytest.raises(WrongType, match=r"`compaction` takes sandbur\.Compaction"):
        Agent("demo", compaction="off")  # type: ignore[arg-type]
