"""Pictures and documents: in a message, and as the result of a tool.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import struct
import zlib

from sandbur import Agent, Document, Image, Text, tool
from sandbur.testing import ScriptedModel, ToolCall


def bar_chart(*values: int) -> bytes:
    """Draw bars as a PNG, in grey on white, 20 pixels wide each."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    rows = [
        b"".join(bytes([0x55 if value > y else 0xFF]) * 20 for value in values) for y in reversed(range(100))
    ]
    header = struct.pack(">IIBBBBB", 20 * len(values), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@tool(effect="read")
def chart_of(year: int) -> list[Text | Image]:
    """Draw the sales of a year."""
    return [
        Text(text=f"Sales of {year}, one bar for each quarter:"),
        Image.from_bytes(bar_chart(30, 45, 80, 60)),
    ]


async def main() -> None:
    model = ScriptedModel(
        ["The third quarter is too low.", ToolCall("chart_of", year=2026), "Now it is right."]
    )
    agent = Agent(os.environ.get("SANDBUR_MODEL") or model, tools=[chart_of])
    targets = Document.from_bytes(b"Each quarter: 50 or more.", "targets.txt")
    async with agent, agent.session() as session:
        # `Image.from_path("chart.png")` reads a file.
        drawn = Image.from_bytes(bar_chart(60, 60, 20, 60))
        print((await session.run([drawn, targets, "Is anything below its target?"])).output)
        print((await session.run("Compare it with the chart of 2026.")).output)
        # Each picture is stored once, by its digest.
        for file in (file for message in session.history for file in message.files):
            print(file.label, len(file.read() or b""), "bytes")


if __name__ == "__main__":
    asyncio.run(main())
