"""What a message costs that a flow answers, as a ratio to one that a scripted model answers in the same run.

Both are turns of one durable session with a file as store; beside them a slash command, which is such a turn
with nothing in it. The limits are for the processor: a flow costs less than a model that answers at once, and
not much more than the empty turn.
"""

import time
from pathlib import Path
from statistics import median

from bench.figures import Rounds, tell

from sandbur import Agent, Flow
from sandbur.actions.turn.flows.linear_regex import LinearRegex, StepBudget
from sandbur.agent.extensions.flows.router import FlowRouter
from sandbur.testing import ScriptedModel

TURNS = 40
FLOWS = 50
MESSAGE = "Could you please tell me where the parcel is that I sent to my aunt last week?"
MESSAGES = {"a flow": "opening hours", "a model": MESSAGE, "a command": "/help"}


def make_flows() -> list[Flow]:
    others = [Flow(f"f{n}", regex=rf"(?i)ticket {n}-(\d+)", reply="Ticket {1}") for n in range(FLOWS)]
    return [*others, Flow("hours", exact="opening hours", reply="Nine to five.")]


async def measure(folder: Path, rounds: int) -> None:
    """Measure turns of both kinds in turns, then the matching alone."""
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    turns = Rounds(MESSAGES, rounds)
    model = ScriptedModel(["Nine to five."] * (TURNS * (rounds + 1)))
    async with Agent(model, flows=make_flows(), env=env, cwd=folder) as agent, agent.session() as session:
        for name in turns:
            times: list[float] = []
            for _ in range(TURNS):
                began = time.process_time()
                result = await session.run(MESSAGES[name])
                assert name != "a flow" or result.usage.llm_calls == 0
                times.append((time.process_time() - began) * 1000)
            turns.note(median(times))
    for name in MESSAGES:
        print(f"a turn of {name}: {turns.median(name):.2f} ms of the processor")
    added_ms = turns.median("a flow") - turns.median("a command")
    tell("what a flow adds to an empty turn, CPU", added_ms, 2, " ms")
    tell("a turn by a flow, CPU against a turn by a model", turns.ratio("a flow", "a model"), 0.9)
    tell("a turn by a flow, CPU against an empty turn", turns.ratio("a flow", "a command"), 1.8)
    router = FlowRouter(make_flows())
    began = time.process_time()
    for _ in range(100):
        assert await router.route(MESSAGE) is None
    tried_ms = (time.process_time() - began) * 10
    tell(f"trying {FLOWS} flows that do not match, CPU", tried_ms, 2, " ms")
    began = time.process_time()
    LinearRegex("(.*a){20}").search("a" * 1999 + "b", StepBudget())
    worst_ms = (time.process_time() - began) * 1000
    tell("the most that regular expressions cost a message, CPU", worst_ms, 500, " ms")
