"""A run in a copy of a folder: look at what it changed, then apply it, take it back or drop it.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sandbur import Agent, SandburError, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall, temporary_store

PRICES = "anvil 90 {}\nrope 12\n"
SCRIPT = [
    ToolCall("write_file", path="prices.txt", content=PRICES.format("EUR")),
    "The anvil has a currency now.",
    ToolCall("write_file", path="prices.txt", content=PRICES.format("USD")),
    "The anvil has another currency now.",
]


async def main(folder: Path, store: str, env: Mapping[str, str]) -> None:
    prices = folder / "prices.txt"
    prices.write_text("anvil 90\nrope 12\n")
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(SCRIPT),
        tools=workspace_tools(),
        mode="auto-edit",
        cwd=folder,
        store=store,
        env=env,
    )
    trial = await agent.try_("Add the currency: EUR")
    print(trial.result.output, "In the folder:", prices.read_text().split("\n")[0])
    for change in trial.difference:
        print(change.diff)

    # Meanwhile somebody else changes another line.
    prices.write_text("anvil 90\nrope 12\nhammer 20\n")
    try:
        await trial.apply()
    except SandburError as refusal:
        print(refusal.message.split("\n")[1].strip())
    await trial.apply(merge=True)
    print("Merged:", prices.read_text().split("\n"))

    other = await agent.try_("Add the currency: USD")
    await other.drop()
    print("Dropped:", prices.read_text().split("\n")[0])


if __name__ == "__main__":
    with temporary_store() as made, tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place), made.url, made.env))
