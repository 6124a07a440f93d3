"""Audio, documents and addresses in messages, and a formatter that passes on messages of other agents.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import io
import math
import os
import struct
import wave
from collections.abc import Sequence

from sandbur import Agent, Audio, Document, FormattedEntry, Image, Message, Render, WireFormat
from sandbur.testing import ScriptedModel


def tone(seconds: float = 0.5, rate: int = 8_000) -> bytes:
    """Return the note A as a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        steps = (20_000 * math.sin(2 * math.pi * 440 * n / rate) for n in range(int(seconds * rate)))
        file.writeframes(b"".join(struct.pack("<h", int(step)) for step in steps))
    return buffer.getvalue()


class OthersAreUsers:
    """A formatter that turns the answers of other agents into user messages with the names of the agents."""

    def format(self, message: Message, wire: WireFormat, render: Render) -> Sequence[FormattedEntry]:
        if message.role == "assistant" and message.name is not None:
            message = message.model_copy(update={"role": "user", "wire": None})
        return render(message)


async def main() -> None:
    model = os.environ.get("SANDBUR_MODEL") or ScriptedModel(["It is the note A, at 440 Hz."])
    # A formatter is used with the name of a model; a model object formats messages itself.
    formatter = OthersAreUsers() if isinstance(model, str) else None
    agent = Agent(model, formatter=formatter)
    async with agent, agent.session() as session:
        sound = Audio.from_bytes(tone())
        notes = Document.from_bytes(b"note,hertz\nA,440\n", "notes.csv")
        # The provider downloads the picture; `await sandbur.fetch_attachment(chart)` would download it here.
        chart = Image.from_url("https://example.org/notes.png", detail="low")
        print((await session.run([sound, notes, chart, "Which note is this?"])).output)
        for file in (file for message in session.history for file in message.files):
            print(file.label)


if __name__ == "__main__":
    asyncio.run(main())
