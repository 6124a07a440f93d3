"""How much sooner a plan ends whose steps run side by side: 8 steps that wait, against the same in sequence.

Each step asks a model of the local model server, runs one command that waits, and ends with `finish_step`.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.figures import Rounds, tell
from support.crash.past import Past
from support.models.plan_runs import Plans, end, shell, step
from support.models.scripted import collect
from support.models.server import Answer

STEPS = 8
WAIT_S = 0.5
MOST_SHARE = 0.5
"""Of the time in sequence; without any cost of a sub-agent it would be an eighth."""


def _work(past: Past) -> Answer:
    return end("waited") if past.rounds else shell(f"sleep {WAIT_S}")


async def _run(folder: Path, steps: list[Mapping[str, Any]]) -> float:
    """Return the seconds from the message to the answer of a session with this plan."""
    folder.mkdir()
    plans = Plans(folder, [dict(one) for one in steps], **{f"step{n}": _work for n in range(1, STEPS + 1)})
    async with plans.runtime() as runtime:
        session = await runtime.create()
        began = time.perf_counter()
        _, ended = await collect(session.send("do it"))
        taken_s = time.perf_counter() - began
    assert (ended.status, len(ended.steps)) == ("done", STEPS)
    return taken_s


async def measure(folder: Path, rounds: int) -> None:
    names = [f"wait {number}" for number in range(1, STEPS + 1)]
    plans = {"beside": [step(name, None) for name in names], "sequence": [step(name) for name in names]}
    taken = Rounds(plans, rounds, warm_up=0)
    for number, name in enumerate(taken):
        taken.note(await _run(folder / str(number), list(plans[name])))
    what = f"{STEPS} steps of a plan side by side, time"
    tell(what, taken.ratio("beside", "sequence"), MOST_SHARE, against="the time in sequence")
