"""Tools and tool servers ask a person by one port: at the terminal, on a page, or by a class of one's own."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from sandbur import (
    Agent,
    ModelRequest,
    QuestionBoard,
    RunContext,
    SandburError,
    TerminalInput,
    UserAnswer,
    UserQuestion,
    tool,
)
from sandbur.testing import ScriptedModel, ToolCall


@tool(effect="read")
async def choose(run: RunContext) -> str:
    """Ask the user for a table."""
    return await run.ask("Which table?", choices=["window", "door"])


@tool(effect="read")
def choose_in_thread(run: RunContext) -> str:
    """Ask the user from a function that blocks."""
    return run.ask_and_wait("Which name?")


class Scribe:
    """Answers every question and keeps what it was asked."""

    def __init__(self, answer: UserAnswer) -> None:
        self.answer = answer
        self.questions: list[UserQuestion] = []

    async def ask(self, question: UserQuestion) -> UserAnswer:
        self.questions.append(question)
        return self.answer


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Agent]:
    env = {
        "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"],
        "SHOP_API_KEY": "hunter2-hunter2-hunter2",
    }  # fmt: skip

    def make_agent(*calls: str, **more: Any) -> Agent:
        def read(request: ModelRequest) -> Any:
            results = [one.content for message in request.messages for one in message.tool_results]
            return " | ".join(results) if results else [ToolCall(name) for name in calls]

        tools = more.pop("tools", [choose, choose_in_thread])
        return Agent(ScriptedModel(read), tools=tools, store=f"sqlite:///{tmp_path}/s.db", env=env, **more)

    return make_agent


async def test_a_tool_gets_the_answer_of_the_person(make: Any) -> None:
    scribe = Scribe(UserAnswer(text="window"))
    result = await make("choose", user_input=scribe).run("A table.", session_id="s")
    assert result.output == "window"
    assert scribe.questions == [
        UserQuestion("Which table?", ("window", "door"), asked_by="choose", session_id="s")
    ]


async def test_a_function_in_a_thread_asks_as_well(make: Any) -> None:
    agent = make("choose_in_thread", user_input=Scribe(UserAnswer(text="Ada")))
    assert (await agent.run("Go.")).output == "Ada"


async def test_the_model_reads_that_nobody_answered(make: Any) -> None:
    assert "Nobody is there to answer: Which table?" in (await make("choose").run("Go.")).output
    declined = await make("choose", user_input=Scribe(UserAnswer("decline"))).run("Go.")
    assert "The user did not answer the question: Which table?" in declined.output


async def test_a_question_shows_no_secret(make: Any) -> None:
    @tool(effect="read")
    async def leak(run: RunContext) -> str:
        """Ask with a secret."""
        return await run.ask("Is hunter2-hunter2-hunter2 right?", ["hunter2-hunter2-hunter2"])

    scribe = Scribe(UserAnswer(text="yes"))
    await make("leak", tools=[leak], user_input=scribe).run("Go.")
    (question,) = scribe.questions
    assert "hunter2" not in question.text + question.choices[0]


async def test_a_page_lists_the_open_questions_and_answers_them(make: Any) -> None:
    board = QuestionBoard()
    agent = make("choose", "choose", user_input=board)
    run = asyncio.ensure_future(agent.run("Two tables."))
    first = await board.next_question()
    board.answer(first.id, "door")
    second = await board.next_question()
    assert second.id != first.id
    board.answer(second.id, UserAnswer(text="window"))
    assert (await run).output == "door | window"
    assert not board.questions
    with pytest.raises(SandburError, match="No question '1' is open"):
        board.answer(first.id, "window")


async def test_a_question_ends_with_the_run_that_asked_it(make: Any) -> None:
    board = QuestionBoard()
    async with make("choose", user_input=board) as agent, agent.session("s") as session:
        run = asyncio.ensure_future(session.run("A table."))
        await board.next_question()
        await session.interrupt()
        assert (await run).status == "interrupted"
        assert not board.questions


async def test_an_object_that_cannot_ask_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="user_input"):
        make("choose", user_input="terminal")


class Terminal:
    """A pipe that a person types into, and a file for what they see."""

    def __init__(self, folder: Path, typed: str) -> None:
        reading, writing = os.pipe()
        os.write(writing, typed.encode())
        os.close(writing)
        self.input: TextIO = os.fdopen(reading)
        self.seen = folder / "seen"
        self.output = self.seen.open("w")
        self.asks = TerminalInput(self.input, self.output)

    def close(self) -> str:
        self.input.close()
        self.output.close()
        return self.seen.read_text()


async def test_the_terminal_asks_one_question_after_the_other(make: Any, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "7\n2\nwindow\n")
    result = await make("choose", "choose", user_input=terminal.asks).run("Two tables.")
    assert result.output == "door | window"
    seen = terminal.close()
    assert seen.count("choose asks: Which table?") == 2
    assert "Type a number from 1 to 2." in seen


async def test_the_terminal_asks_for_each_value_of_a_form(tmp_path: Path) -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "seats": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["name", "seats"],
    }
    terminal = Terminal(tmp_path, "12\n4\n\n\n")
    asked = UserQuestion("Who comes?", schema=schema, asked_by="shop")
    assert await terminal.asks.ask(asked) == UserAnswer(content={"name": "12", "seats": 4})
    assert await terminal.asks.ask(asked) == UserAnswer("decline")
    assert await terminal.asks.ask(asked) == UserAnswer("cancel")
    assert terminal.close().count("shop asks: Who comes?") == 3


async def test_the_terminal_shows_no_control_characters_of_a_question(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "\ndone\n")
    visit = UserQuestion("Log in\x1b[2J", url="https://example.org/\x1b]0;x", asked_by="evil\x1b[31m")
    assert await terminal.asks.ask(visit) == UserAnswer("decline")
    assert await terminal.asks.ask(visit) == UserAnswer()
    assert "\x1b" not in terminal.close()


async def test_a_tool_server_asks_by_the_same_port(make: Any, tmp_path: Path) -> None:
    server = Path(__file__).parents[3] / "support" / "tool_servers" / "hostile.py"
    scribe = Scribe(UserAnswer(content={"name": "Ada"}))
    servers = {"asks": {"command": sys.executable, "args": [str(server), "asks"], "protocol": "legacy"}}
    agent = make("mcp__asks__act", tools=[], mcp_servers=servers, user_input=scribe, mode="yolo",
                 allow=["mcp__asks__act"])  # fmt: skip
    result = await agent.run("Act.")
    assert '"name": "Ada"' in result.output or '"name":"Ada"' in result.output
    assert [(one.asked_by, one.text) for one in scribe.questions] == [("asks", "Who?")]


async def test_the_time_limit_of_a_tool_server_does_not_count_the_time_of_the_person(
    make: Any, tmp_path: Path
) -> None:
    class Slow(Scribe):
        async def ask(self, question: UserQuestion) -> UserAnswer:
            await asyncio.sleep(3)
            return self.answer

    server = Path(__file__).parents[3] / "support" / "tool_servers" / "hostile.py"
    servers = {
        "asks": {
            "command": sys.executable,
            "args": [str(server), "asks"],
            "protocol": "legacy",
            "timeout_s": 2,
        }
    }
    agent = make("mcp__asks__act", tools=[], mcp_servers=servers, mode="yolo", allow=["mcp__asks__act"],
                 user_input=Slow(UserAnswer(content={"name": "Ada"})))  # fmt: skip
    assert "Ada" in (await agent.run("Act.")).output
