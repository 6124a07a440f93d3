"""An agent answers a question over the pages of `docs/`, and cites the lines that it found.

Run it with `python examples/docs_with_citations.py`; it needs no key, because its model is a script.
"""

import asyncio
import re
import tempfile
from pathlib import Path

from sandbur import Agent, KnowledgeBase
from sandbur.testing import ScriptedModel, ToolCall

DOCS = Path(__file__).resolve().parent.parent / "docs"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/docs.db"
        async with KnowledgeBase("docs", store=store) as docs:
            report = await docs.add(DOCS)
            print(f"indexed: {report.added} pages")
            (best, *_) = await docs.search("keep the sessions in memory", limit=3)
            place = best.cite(DOCS.parent)
            # A real model reads the passages and copies the place of the one that it uses.
            search = ToolCall("retrieve", query="keep the sessions in memory", limit=3)
            model = ScriptedModel([search, f"Use the URL `memory:` {place}."])
            agent = Agent(model, knowledge=[docs], store=store, cwd=DOCS.parent)
            result = await agent.run("How do I keep sessions in memory? Cite the docs.")
            answer = result.output or ""
            print(answer)
            cited = re.search(r"\[(.+):(\d+)-(\d+)\]", answer)
            assert cited is not None
            lines = (DOCS.parent / cited[1]).read_text("utf-8").split("\n")
            quoted = "\n".join(lines[int(cited[2]) - 1 : int(cited[3])])
            print("the cited lines are there:", "memory" in quoted)


asyncio.run(main())
