"""A game of five agents: at night the wolves talk among themselves; by day everybody talks, and votes.

python werewolf.py GAME plays the game of this name. If it is killed, the same command goes on where the game
stopped. The models are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from sandbur import Agent, MessageHub, ModelRequest
from sandbur.testing import ScriptedModel

WOLVES = ("rex", "vera")
LINES = {
    "ana": ["Rex is so quiet today.", "rex", "Vera, it is you.", "vera"],
    "ben": [],
    "cid": ["I heard a howl from the house of Rex.", "rex"],
    "rex": ["Ben sees too much.", "I slept all night.", "ana"],
    "vera": ["I agree.", "ben", "Poor Ben.", "rex", "cid", "No, it is Ana.", "ana"],
}
"""What the scripted models answer, one after the other."""


def script(name: str) -> Callable[[ModelRequest], str]:
    def answer(request: ModelRequest) -> str:
        said = sum(message.role == "assistant" for message in request.messages)
        line = LINES[name][said % len(LINES[name])]
        return f'{{"value": "{line}"}}' if line in LINES else line

    return answer


def make_player(name: str) -> Agent[str]:
    role = "a wolf. Deceive the villagers" if name in WOLVES else "a villager. Find the wolves"
    return Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script(name)),
        name=name,
        instructions=f"You play Werewolf with {', '.join(LINES)}. You are {name}, {role}. Say one sentence.",
    )


def one_of(names: list[str]) -> Any:
    return Literal[tuple(names)]


async def play_night(hub: MessageHub, alive: list[str]) -> str:
    """Return whom the wolves take."""
    pack = [name for name in alive if name in WOLVES]
    async with hub.group(pack, "It is night. Wolves, whom do you take?") as wolves:
        if len(pack) > 1:
            await wolves.run()
        prey = one_of([name for name in alive if name not in WOLVES])
        return (await wolves[pack[-1]].run("Name your prey.", output=prey)).output


async def play_day(hub: MessageHub, alive: list[str]) -> str:
    """Return whom everybody votes for."""
    for one in await hub.run():
        print(f"  {one.name}: {one.text}")
    votes = await hub.ask_all("Who is a wolf?", output=one_of(alive))
    return Counter(vote.output for vote in votes.values()).most_common(1)[0][0]


async def main(game: str | None) -> None:
    async with MessageHub(
        [make_player(name) for name in LINES], "Two of you five are wolves.", session_id=game
    ) as hub:
        is_night = True
        while True:
            alive = [player.name for player in hub.participants]
            wolves = sum(name in WOLVES for name in alive)
            if wolves in (0, len(alive)):
                break
            gone = await (play_night if is_night else play_day)(hub, alive)
            await hub.remove(gone)
            news = f"The wolves took {gone}." if is_night else f"You voted {gone} out."
            await hub.broadcast(news)
            print(news)
            is_night = not is_night
        print("The wolves win." if wolves else "The villagers win.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
