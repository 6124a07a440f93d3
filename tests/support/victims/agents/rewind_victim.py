"""Takes back what the memory calls of session `s1` did, and dies where a test wants: rewind_victim.py URL"""

import asyncio
import sys

from sandbur.agent.history.time_travel.rewinds import apply_rewinds
from sandbur.state.store.store import Store


async def main(url: str) -> None:
    store = Store.open(url)
    report = await apply_rewinds(store, "s1", 0)
    print("\n".join(report.done))
    store.close()


asyncio.run(main(sys.argv[1]))
