"""What the facts that come with a message cost a turn: sessions with `memory="static"` against `off`.

The turns of both kinds alternate, and both use one store with many facts. The limits are for the processor.
"""

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import Rounds, tell

from sandbur import Agent
from sandbur.agent.knowledge.memory.memories import open_facts
from sandbur.agent.knowledge.memory.scopes import find_scopes
from sandbur.state.databases.database import Statement
from sandbur.state.memory.fact_store import NewFact
from sandbur.state.memory.facts import Fact, FactScope
from sandbur.state.process.clock import now
from sandbur.state.search.documents import IndexedText
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel

TURNS = 20
FEW, MODES = 100, ("off", "static")
LIMIT_MS, MOST_RATIO = 5.0, 2.0


def fill(url: str, folder: Path, count: int) -> None:
    """Write facts about services in one transaction."""
    store = Store.open(url)
    facts, scope = open_facts(store), find_scopes(folder, "", "").all[0]
    chance = random.Random(1)
    statements: list[Statement] = []
    for fact in make_facts(chance, scope, count):
        statements += facts.rows.insert(fact)
        document = IndexedText(fact.id, fact.text, "fact")
        statements += facts.index.put(scope.name_collection(""), document)
    store.database.commit(statements)
    store.close()


def make_facts(chance: random.Random, scope: FactScope, count: int) -> Iterator[Fact]:
    for number in range(count):
        part, region = chance.choice(("config", "database", "cache")), chance.choice(("east", "west"))
        text = f"The service s{number} listens on port {9000 + number}; its {part} is {region} of w{number}."
        id = uuid.UUID(int=chance.getrandbits(128)).hex
        yield Fact(id=id, **NewFact(text, scope)._asdict(), created_at=now(), confirmed_at=now())


async def measure(folder: Path, count: int) -> None:
    """Print what static memory adds to a turn, with few facts and with `count` facts."""
    folder = folder.resolve()
    for number in (FEW, count):
        url = f"sqlite:///{folder}/facts-{number}.db"
        fill(url, folder, number)
        await _measure(folder, url, number)


async def _measure(folder: Path, url: str, count: int) -> None:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    turns = Rounds(MODES, 5)
    for mode in turns:
        model = ScriptedModel(["It is 9090."] * (TURNS + 1))
        async with (
            Agent(model, memory=mode, store=url, env=env, cwd=folder) as agent,
            agent.session() as session,
        ):
            await session.run("hello")
            times: list[float] = []
            for turn in range(TURNS):
                text = f"On which port does the service s{turn * 37 % count} listen, and where is its cache?"
                began = time.process_time()
                await session.run(text)
                times.append((time.process_time() - began) * 1000)
            turns.note(median(times))
    added_ms = turns.median("static") - turns.median("off")
    tell(f"what static memory adds to a turn, {count:,} facts, CPU", added_ms, LIMIT_MS, " ms")
    tell(f"a turn with static memory against one without, {count:,} facts, CPU", turns.ratio("static", "off"),
         MOST_RATIO)  # fmt: skip
