"""Agents for tests of message hubs, and what they say and hear."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sandbur import Agent, Message, MessageHub, ModelRequest
from sandbur.testing import ScriptedModel, TemporaryStore

Reply = Callable[[ModelRequest], Any]


def count_own(request: ModelRequest) -> int:
    return sum(message.role == "assistant" for message in request.messages)


class Cast:
    """Agents that answer with their name and a number; `asked` has who was asked, in order."""

    def __init__(self, store: TemporaryStore) -> None:
        self._store = store
        self.asked: list[str] = []

    def make(self, name: str, reply: Reply | None = None, **options: Any) -> Agent[Any]:
        def answer(request: ModelRequest) -> Any:
            self.asked.append(name)
            return f"{name}{count_own(request)}" if reply is None else reply(request)

        return Agent(ScriptedModel(answer), name=name, store=self._store.url, env=self._store.env, **options)

    def make_all(self, names: str) -> list[Agent[Any]]:
        return [self.make(name) for name in names]


def write(messages: tuple[Message, ...]) -> str:
    return " ".join(f"{one.name}:{one.text}" if one.name else one.text for one in messages)


def hear_all(
    agents: list[Agent[Any]], play: Callable[[MessageHub], Awaitable[Any]], **options: Any
) -> list[str]:
    """Return the transcript of a hub, then the history of each agent."""

    async def run() -> list[str]:
        hub = MessageHub(agents, session_id="hub", **options)
        async with hub:
            sessions = [hub[agent.name].session_id for agent in agents]
            await play(hub)
            transcript = write(hub.transcript)
        histories = [await agent.history(one) for agent, one in zip(agents, sessions, strict=True)]
        return [transcript, *map(write, histories)]

    return asyncio.run(run())
