"""Facts are found in sessions on every database: once, in the background, and at most three times in vain."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.stores.databases import DATABASES, empty_url
from support.waiting import until

from sandbur import Agent, Memory, ModelRequest
from sandbur.state.maintenance.prune import PruneRules, delete, plan_prune
from sandbur.state.memory.extractions import MOST_ATTEMPTS, Extractions
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel
from sandbur.ui.commands.knowledge.memory.tracing import find_source_text

PORT = "The port of the shop is 9090"
_MOST_RUNS = 100


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url)
    yield opened
    opened.close()


def answer(text: str) -> str:
    fact = {"kind": "fact", "scope": "project", "excerpt": 1, "relation": "new", "known": "", "text": text}
    return json.dumps({"facts": [fact]})


def make_agent(url: str, folder: Path, turns: Any, extraction: Any = "propose") -> Agent[str]:
    model = ScriptedModel(turns)
    return Agent(model, name="shop", memory_extraction=extraction, cwd=folder, store=url)


async def tell(url: str, store: Store, folder: Path) -> Extractions:
    """Tell the agent the port, in the session s1, which is to be read, but not in the background."""
    async with make_agent(url, folder, ["Fine."], "off") as agent:
        await agent.run(f"{PORT}.", session_id="s1")
    extractions = Extractions(store.database, store.tenant, "agent:shop")
    extractions.begin("s1")
    return extractions


async def test_a_fact_is_proposed_accepted_and_found(url: str, store: Store, tmp_path: Path) -> None:
    await tell(url, store, tmp_path)
    async with make_agent(url, tmp_path, [answer(PORT)]) as agent:
        assert (await agent.memory.extract()).proposed == 1
        (proposal,) = await agent.memory.proposals()
        accepted = await agent.memory.accept(proposal.id)
        assert [one.id for one in await agent.memory.search("port")] == [accepted.id]
        assert (await agent.memory.extract()).proposed == 0


async def test_what_the_person_wrote_is_kept_and_corrected(url: str, store: Store, tmp_path: Path) -> None:
    await tell(url, store, tmp_path)
    async with make_agent(url, tmp_path, [answer(PORT)], "keep") as agent:
        assert (await agent.memory.extract()).kept == 1
        (fact,) = await agent.memory.list()
        await agent.memory.correct(fact.id, "The port of the shop is 7070")
        assert await agent.memory.search("9090") == []


async def test_after_three_failures_only_a_person_lets_it_try_again(
    url: str, store: Store, tmp_path: Path
) -> None:
    extractions = await tell(url, store, tmp_path)
    problems: list[str] = []
    for number in range(1, MOST_ATTEMPTS + 1):
        assert extractions.list_due(str(tmp_path)) == ["s1"]
        failing = make_agent(url, tmp_path, ["no JSON"] * 9)
        problems += (await failing.memory.extract()).problems
        state = extractions.load("s1")
        assert state is not None
        assert (state.attempts, state.records) == (number, 0)
    assert [one.endswith("It is tried again.") for one in problems] == [True, True, False]
    assert problems[-1].endswith("Try again: sandbur memory extract")
    assert extractions.list_due(str(tmp_path)) == []
    assert extractions.list_due(str(tmp_path), with_failed=True) == ["s1"]
    again = make_agent(url, tmp_path, [answer(PORT)])
    assert (await again.memory.extract()).proposed == 1
    state = extractions.load("s1")
    assert state is not None
    assert (state.attempts, state.problem) == (0, "")


def answer_both(request: ModelRequest) -> str:
    """Answer the person, or the search for facts."""
    text = next(iter(request.messages)).text
    return answer(PORT) if "The part of the session:" in text else "Fine."


async def test_a_run_starts_the_search_in_the_background_and_a_later_one_tells_of_it(
    url: str, store: Store, tmp_path: Path
) -> None:
    extractions = Extractions(store.database, store.tenant, "agent:shop")
    agent = make_agent(url, tmp_path, answer_both)
    async with agent:
        await agent.run(f"{PORT}.", session_id="s1")
        await until(lambda: (state := extractions.load("s1")) is not None and state.records)
        assert [one.text for one in await agent.memory.proposals()] == [PORT]
        told: list[str] = []
        for _ in range(_MOST_RUNS):  # the sentence is there when the work in the background has ended
            told += [one async for one in list_notices(agent)]
            if told:
                break
    assert told == ["1 proposed fact waits for you: /memory review"]


async def list_notices(agent: Agent[str]) -> AsyncIterator[str]:
    async for event in agent.stream("Thanks.", session_id="s1"):
        text = str(getattr(event, "message", ""))
        if "/memory review" in text:
            yield text


@pytest.mark.parametrize("way", ["delete", "prune"])
async def test_facts_stay_when_their_session_is_deleted_and_it_is_read_no_more(
    url: str, store: Store, tmp_path: Path, way: str
) -> None:
    await tell(url, store, tmp_path)
    async with make_agent(url, tmp_path, [answer(PORT)], "keep") as agent:
        await agent.memory.extract()
        if way == "delete":
            await agent.delete("s1")
    if way == "prune":
        plan = plan_prune(store.database, "", PruneRules(timedelta(-1), keep=0), datetime.now(UTC))
        assert [delete(store.database, session) for session, _ in plan.goes] == [True, True]
    assert [store.index.exists("s1"), store.database.query("SELECT * FROM extractions")] == [False, []]
    assert store.database.query("SELECT id FROM sessions") == []
    memory = Memory(url, cwd=tmp_path)
    (fact,) = await memory.search("port")
    assert (fact.text, fact.provenance.session_id) == (PORT, "s1")
    assert find_source_text(store, fact) is None
    gone = await memory.forget_origin(session_id="s1")
    assert [one.id for one in gone] == [fact.id]
    assert [one.id for one in await memory.restore(fact.id)] == [fact.id]
    assert store.database.find_problems() == []
