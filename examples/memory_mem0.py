"""An agent whose memory is mem0: `Agent(memory=...)` takes any object with search, add, update and delete.

Needs `pip install mem0ai`, and OPENAI_API_KEY for its embeddings; without the package, the same agent uses a
memory in a dict. The model is scripted; SANDBUR_MODEL=PROVIDER/MODEL uses a real one.
"""

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sandbur import Agent, MemoryStore, RecalledFact
from sandbur.testing import ScriptedModel, ToolCall

MODEL = os.environ.get("SANDBUR_MODEL")
SCRIPT = [
    ToolCall("memory", command="add", text="Ada wants answers in German"),
    "Ich merke es mir.",
    ToolCall("memory", command="search", query="German"),
    "Guten Tag!",
]


class Mem0Memory:
    """The facts of one user in an `AsyncMemory` of mem0."""

    def __init__(self, client: Any, user_id: str) -> None:
        self._client, self._user_id = client, user_id

    async def search(self, query: str, limit: int) -> Sequence[RecalledFact]:
        found = await self._client.search(query, top_k=limit, filters={"user_id": self._user_id})
        facts = [(one, one.get("updated_at") or one.get("created_at") or "") for one in found["results"]]
        return [RecalledFact(one["id"], one["memory"], at, source="mem0") for one, at in facts]

    async def add(self, text: str) -> str:
        # The model has chosen the text. With infer=True, mem0 would ask a model of its own to change it.
        added = await self._client.add(text, user_id=self._user_id, infer=False)
        return str(added["results"][0]["id"])

    async def update(self, id: str, text: str) -> None:
        await self._require_own(id)
        await self._client.update(id, text)

    async def delete(self, id: str) -> None:
        await self._require_own(id)
        await self._client.delete(id)

    async def _require_own(self, id: str) -> None:
        # mem0 changes a fact of any user by its id.
        found = await self._client.get(id)
        if found is None or found.get("user_id") != self._user_id:
            raise LookupError(f"there is no fact {id}")


class DictMemory:
    """A memory in a dict, which ends with the process. It finds texts that contain the query."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}

    async def search(self, query: str, limit: int) -> Sequence[RecalledFact]:
        found = [(id, text) for id, text in self.facts.items() if query.lower() in text.lower()]
        return [RecalledFact(id, text, source="a dict") for id, text in found[:limit]]

    async def add(self, text: str) -> str:
        self.facts[id := uuid4().hex[:8]] = text
        return id

    async def update(self, id: str, text: str) -> None:
        if id not in self.facts:
            raise LookupError(f"there is no fact {id}")
        self.facts[id] = text

    async def delete(self, id: str) -> None:
        del self.facts[id]


def open_memory() -> MemoryStore:
    if importlib.util.find_spec("mem0") is None:
        print("mem0ai is missing; this memory is a dict.")
        return DictMemory()
    from mem0 import AsyncMemory  # pyright: ignore

    return Mem0Memory(AsyncMemory(), user_id="ada")


async def main() -> None:
    agent = Agent(MODEL or ScriptedModel(SCRIPT), memory=open_memory(), store="memory:")
    async with agent:
        print((await agent.run("I am Ada. Answer in German from now on.")).output)
        async with agent.session() as session:
            print((await session.run("Ada is here again.")).output)
            for result in (one for message in session.history for one in message.tool_results):
                print(result.content.splitlines()[-1])


if __name__ == "__main__":
    asyncio.run(main())
