"""A tool that asks the user while it works, at the terminal or on a web page.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model. With `--terminal`
you answer the question; otherwise a function of this program answers in place of a web page.
"""

import asyncio
import os
import sys

from sandbur import Agent, ModelRequest, QuestionBoard, RunContext, TerminalInput, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool(effect="read")
async def choose_table(guests: int, run: RunContext) -> str:
    """Ask the user which table to take."""
    return await run.ask(f"Which table for {guests} guests?", choices=["by the window", "by the door"])


def next_words(request: ModelRequest) -> ToolCall | str:
    results = [result for message in request.messages for result in message.tool_results]
    return f"Your table is {results[-1].content}." if results else ToolCall("choose_table", guests=2)


async def serve_page(board: QuestionBoard) -> None:
    """Do what two requests of a web page would do: list the open questions, and send an answer."""
    opened = await board.next_question()
    print(f"{opened.question.asked_by}: {opened.question.text} {' or '.join(opened.question.choices)}?")
    board.answer(opened.id, opened.question.choices[0])


async def main() -> None:
    model = os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words)
    if "--terminal" in sys.argv:
        agent = Agent(model, tools=[choose_table], user_input=TerminalInput())
        print((await agent.run("A table for two.")).raise_for_status().output)
        return
    board = QuestionBoard()
    agent = Agent(model, tools=[choose_table], user_input=board)
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_page(board))
        result = await agent.run("A table for two.")
    print(result.raise_for_status().output)


if __name__ == "__main__":
    asyncio.run(main())
