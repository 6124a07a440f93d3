"""Indexes a folder and may die at a crash point.

Usage: knowledge_victim.py URL FOLDER add|update|remove|embed"""

import asyncio
import os
import sys
from pathlib import Path

from sandbur.agent.knowledge.retrieval.embedding.embedder import connect_embedder
from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.store.store import Store

URL, FOLDER, OPERATION = sys.argv[1:]


async def main() -> None:
    store = Store.open(URL)
    embedder = connect_embedder("openai/small", os.environ, {}) if OPERATION == "embed" else None
    library = Library(store.database, "", masker_for({}, Path(FOLDER)), embedder=embedder)
    base = await library.open_base("project", FOLDER)
    if OPERATION == "add":
        await library.add(base, FOLDER)
    elif OPERATION == "embed":
        await library.embed(base)
    elif OPERATION == "update":
        await library.update(base)
    else:
        await library.remove(base)
    store.close()


asyncio.run(main())
