"""Adds a folder of pictures, which a model describes, and may die at a crash point.

Usage: picture_victim.py URL FOLDER"""

import asyncio
import os
import sys

from sandbur import KnowledgeBase

URL, FOLDER = sys.argv[1:]


async def main() -> None:
    async with KnowledgeBase("pictures", store=URL, describe="openai-chat/gpt-5", env=os.environ) as base:
        report = await base.add(FOLDER)
        print(report.described)


asyncio.run(main())
