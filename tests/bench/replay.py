"""How long a replay takes. Usage: python tests/bench/replay.py [TURNS]

A run of 800 tool turns with 2 KB results is made, then replayed; what the replay takes is set against what
the run itself took with a model that answers at once.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from figures import tell

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.models.real_ports import open_real
from support.models.scripted import Call, ScriptedModel, collect

from sandbur.agent.history.replay.replay import replay
from sandbur.state.store.store import Store

RUNS = 5
LIMIT_S = 3.0


async def make(folder: Path, turns: int) -> tuple[Store, float]:
    """Make a run that reads a file again and again; return its store and the seconds it took."""
    (folder / "a.txt").write_text("r" * 2000)
    store = Store.open(f"sqlite:///{folder}/data/sandbur.db")
    calls: list[list[Call]] = [[("read_file", {"path": "a.txt", "limit": n + 1})] for n in range(turns)]
    model = ScriptedModel(*calls, "done", context_window=10**9)
    session = await open_real(store, model, folder)
    began = time.perf_counter()
    await collect(session.send("go"))
    return store, time.perf_counter() - began


async def timed(store: Store) -> tuple[float, float, int]:
    """Return the wall seconds and the CPU seconds of one replay, and its steps."""
    began, began_cpu = time.perf_counter(), time.process_time()
    replayed = await replay(store, "s1")
    assert replayed.is_same, replayed.divergence
    return time.perf_counter() - began, time.process_time() - began_cpu, replayed.steps


async def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    with tempfile.TemporaryDirectory() as name:
        store, made_s = await make(Path(name), turns)
        rounds = [await timed(store) for _ in range(RUNS)]
        store.close()
    wall, cpu = (median(row[column] for row in rounds) for column in (0, 1))
    print(f"{turns} turns, {rounds[0][2]} steps: replayed in {wall:.2f} s, best {min(rounds)[0]:.2f} s,"
          f" CPU {cpu:.2f} s")  # fmt: skip
    tell(f"replay of {turns} turns", wall, LIMIT_S, " s")
    print(f"the run itself took {made_s:.2f} s: ratio {wall / made_s:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
