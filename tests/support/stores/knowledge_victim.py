"""Indexes a folder and may die at a crash point. Usage: knowledge_victim.py URL FOLDER add|update|remove"""

import asyncio
import sys
from pathlib import Path

from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.store.store import Store

URL, FOLDER, OPERATION = sys.argv[1:]


async def main() -> None:
    store = Store.open(URL)
    library = Library(store.database, "", masker_for({}, Path(FOLDER)))
    base = await library.open_base("project", FOLDER)
    if OPERATION == "add":
        await library.add(base, FOLDER)
    elif OPERATION == "update":
        await library.update(base)
    else:
        await library.remove(base)
    store.close()


asyncio.run(main())
