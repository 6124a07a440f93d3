"""A conversation gets too long for its model: a summary replaces older messages, which stay in the store.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os

from sandbur import Agent, Compaction, events
from sandbur.testing import ScriptedModel

CHAPTERS = [f"Chapter {number}. " + "It was a long journey. " * 200 for number in range(1, 5)]


async def main() -> None:
    # A small and cheap model may write the summaries; the newest messages are not changed.
    writer = ScriptedModel(["They travel."] * 4, name="scripted/writer")
    compaction = Compaction(model=writer, prompt="Sum the story up in a line.", keep_messages=2)
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(["Noted."] * 4, context_window=4_000),
        compaction=compaction,
    )
    async with agent, agent.session() as session:
        for chapter in CHAPTERS:
            async for event in session.stream(chapter):
                if isinstance(event, events.Compacted):
                    is_shorter = event.tokens_after < event.tokens_before
                    print(f"{event.kind} of {event.messages} messages, shorter: {is_shorter}")
        print(next(iter(session.history)).text.splitlines()[-1])


if __name__ == "__main__":
    asyncio.run(main())
