"""Tools and tool servers ask the person at an editor: by a form, by choices, or not at all."""

import asyncio
import json
from typing import Any

import pytest
from acp.schema import (
    AcceptElicitationResponse,
    ClientCapabilities,
    DeclineElicitationResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
)
from support.commands.command import Command
from support.screens.editor import Answer, Asked, editing
from support.tools.asking import copy_asking_bot

FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))
REFUSAL = "This editor shows no forms: only questions with a few choices can be asked here."


def choose(option: str) -> Answer:
    def answer(asked: Asked) -> str:
        return option

    return answer


@pytest.fixture
def bot(command: Command) -> Command:
    """Lend a folder with an agent whose tools and tool server ask."""
    copy_asking_bot(command.folder, "hostile.py", "asks", protocol="legacy")
    return command


async def ask(bot: Command, message: str, filled: Any = None, **how: Any) -> tuple[str, Any]:
    """Send a message; return the answer and the editor."""
    async with editing(bot, "--agent", "asking_bot:agent", **how) as editor:
        editor.filled = filled
        made = await editor.agent.new_session(cwd=str(bot.folder), mcp_servers=[])
        await editor.prompt(made.session_id, message)
        return editor.text(), editor


async def test_an_editor_without_forms_asks_with_choices(bot: Command) -> None:
    text, editor = await ask(bot, "table", answer=choose("1"))
    assert text == "Result: door"
    (asked,) = editor.asked
    assert [option.name for option in asked.options] == ["window", "door", "No answer"]
    assert asked.words == "table: Which table?"


@pytest.mark.parametrize("option", ["decline", "cancelled"])
async def test_a_question_without_an_answer_is_an_error_for_the_model(bot: Command, option: str) -> None:
    text, _ = await ask(bot, "table", answer=choose(option))
    assert text == "Result: The user did not answer the question: Which table?"


async def test_the_model_reads_that_the_editor_cannot_ask_for_a_text(bot: Command) -> None:
    text, editor = await ask(bot, "name")
    assert text.endswith(f"({REFUSAL})")
    assert not editor.asked


async def test_an_editor_with_forms_shows_one_for_a_text(bot: Command) -> None:
    filled = AcceptElicitationResponse(action="accept", content={"answer": "Ada"})
    text, editor = await ask(bot, "name", filled, capabilities=FORMS)
    assert text == "Result: Ada"
    (form,) = editor.forms
    assert list(form["requestedSchema"]["properties"]) == ["answer"]


async def test_a_tool_server_gets_the_values_of_the_form(bot: Command) -> None:
    filled = AcceptElicitationResponse(action="accept", content={"name": "Ada"})
    text, editor = await ask(bot, "mcp__shop__act", filled, capabilities=FORMS)
    assert json.loads(text.removeprefix("Result: ")) == {"action": "accept", "content": {"name": "Ada"}}
    assert list(editor.forms[0]["requestedSchema"]["properties"]) == ["name"]


async def test_a_declined_form_is_declined_at_the_server(bot: Command) -> None:
    filled = DeclineElicitationResponse(action="decline")
    text, _ = await ask(bot, "mcp__shop__act", filled, capabilities=FORMS)
    assert json.loads(text.removeprefix("Result: "))["action"] == "decline"


async def test_an_open_form_ends_with_the_run(bot: Command) -> None:
    async with editing(bot, "--agent", "asking_bot:agent", capabilities=FORMS) as editor:
        made = await editor.agent.new_session(cwd=str(bot.folder), mcp_servers=[])
        turn = asyncio.ensure_future(editor.prompt(made.session_id, "name"))
        await editor.until(lambda: editor.forms)
        await editor.agent.cancel(session_id=made.session_id)
        assert (await turn).stop_reason == "cancelled"


async def test_a_tool_that_a_server_adds_is_there_in_a_later_turn(command: Command) -> None:
    copy_asking_bot(command.folder, "growing.py")
    async with editing(command, "--agent", "asking_bot:agent") as editor:
        made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
        await editor.prompt(made.session_id, "mcp__shop__grow")
        await editor.agent.set_session_mode(session_id=made.session_id, mode_id="auto-edit")
        async with asyncio.timeout(60):
            while "woof" not in editor.text():  # the server's notification may come late
                await editor.prompt(made.session_id, "mcp__shop__bark")
        # An update would say that the session has another mode than the editor chose.
        assert not editor.of("current_mode_update")


def test_without_a_person_the_model_reads_that_nobody_answers(bot: Command) -> None:
    assert (
        "Nobody is there to answer: Which table?" in bot.run("--agent", "asking_bot:agent", "-p", "table").out
    )
