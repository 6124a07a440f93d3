"""A run that is started with nothing to say is refused before anything is stored."""

import json
from typing import Any

import pytest

from sandbur import Agent, Image
from sandbur.state.conversation.messages import require_content
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, temporary_store
from sandbur.ui.headless.headless import headless_prompt
from sandbur.ui.headless.stream_json.output_lines import GarbageLine, parse_line
from sandbur.ui.server.routes.forms import TextBlockForm
from sandbur.ui.server.routes.session_writing import read_content

EMPTY: list[Any] = ["", "  \n\t", "\u200b\u2060", [], [""], [" ", "\n"]]
NOTHING = "There is nothing in this message"


@pytest.mark.parametrize("message", EMPTY)
async def test_a_run_with_nothing_to_say_leaves_nothing_in_the_store(message: Any) -> None:
    model = ScriptedModel(["x"])
    with temporary_store() as store:
        agent = Agent(model, store=store.url)
        with pytest.raises(UsageError, match=NOTHING):
            await agent.run(message)
        with pytest.raises(UsageError, match=NOTHING):
            async for _ in agent.stream(message):
                pass
        async with agent, agent.session("own") as session:
            with pytest.raises(UsageError, match=NOTHING):
                await session.run(message)
        assert [one async for one in agent.sessions()] == []
    assert model.requests == []


async def test_a_resume_needs_no_message_and_a_refused_one_does_not_hinder_it() -> None:
    model = ScriptedModel([OSError("gone"), "Here it is."])
    with temporary_store() as store:
        async with Agent(model, store=store.url) as agent, agent.session() as session:
            assert (await session.run("go")).status == "error"
            with pytest.raises(UsageError, match=NOTHING):
                await session.run(" ")
            assert (await session.run()).output == "Here it is."


@pytest.mark.parametrize("message", EMPTY)
def test_the_command_and_the_server_refuse_it_too(message: Any) -> None:
    if isinstance(message, str):
        with pytest.raises(UsageError, match="The prompt is empty"):
            headless_prompt(message, continues=False)
    is_text = isinstance(message, str)
    blocks = message if is_text else [TextBlockForm.model_construct(type="text", text=one) for one in message]
    with pytest.raises(UsageError, match=NOTHING):
        read_content(blocks)
    content = message if is_text else [{"type": "text", "text": one} for one in message]
    line = parse_line(json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode())
    assert isinstance(line, GarbageLine)
    assert NOTHING in line.problem


def test_a_file_alone_says_something() -> None:
    require_content([Image(url="https://example.com/a.png", media_type="image/png")])
