"""A tool that asks the user while it works: at the terminal, on a web page, or in a way of your own.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model. With `--terminal`
you answer the question; otherwise a function of this program answers in place of a web page, and then a class
of this program that asks nobody.
"""

import asyncio
import os
import sys

from sandbur import (
    Agent,
    ModelRequest,
    QuestionBoard,
    RunContext,
    TerminalInput,
    UserAnswer,
    UserInput,
    UserQuestion,
    tool,
)
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


class Preferences:
    """Answers with what the user likes, and declines any other question. The one method is the port."""

    def __init__(self, liked: str) -> None:
        self._liked = liked

    async def ask(self, question: UserQuestion) -> UserAnswer:
        fitting = [choice for choice in question.choices if self._liked in choice]
        return UserAnswer(text=fitting[0]) if fitting else UserAnswer("decline", "The user did not say.")


async def book(user_input: UserInput) -> None:
    """Run the agent with one way to ask the user."""
    model = os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words)
    agent = Agent(model, tools=[choose_table], user_input=user_input)
    print((await agent.run("A table for two.")).raise_for_status().output)


async def main() -> None:
    if "--terminal" in sys.argv:
        await book(TerminalInput())
        return
    board = QuestionBoard()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_page(board))
        group.create_task(book(board))
    await book(Preferences("door"))


if __name__ == "__main__":
    asyncio.run(main())
