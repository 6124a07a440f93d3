"""A server's question to the person is a decision like any other: it waits as long as it takes."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, call, say
from support.places import SUPPORT
from support.tool_servers.configured import call_server_tool, configure_server, open_servers

from sandbur.actions.ports import BadArguments
from sandbur.agent.extensions.mcp.server_requests.inquiry import ANSWER

pytestmark = pytest.mark.slow

ASKING = str(SUPPORT / "tool_servers/asking.py")
BOOK = "mcp__it__book"
QUESTION = "Under which name in Rome?"


def question_in(content: str) -> str:
    found = re.search(r'with question "(q[0-9a-f]+)"', content)
    assert found is not None, content
    return found[1]


def answer(to: str, **changed: str) -> str:
    """Return the arguments of a call that answers this question."""
    given = {"question": to, "asked": QUESTION, "answer": '{"name": "Ada"}'}
    return json.dumps({**given, **changed})


def booked(folder: Path) -> list[str]:
    file = folder / "bookings"
    return file.read_text().splitlines() if file.exists() else []


async def test_a_question_outlives_the_server_and_is_answered_by_another_call(tmp_path: Path) -> None:
    server = configure_server(
        "it", tmp_path, command=sys.executable, args=[ASKING, str(tmp_path / "bookings")]
    )
    async with open_servers(server, folder=tmp_path) as (tools, _):
        asked = await call_server_tool(tools[BOOK], '{"city": "Rome"}')
        assert QUESTION in asked.content
        assert booked(tmp_path) == []
    question = question_in(asked.content)
    async with open_servers(server, folder=tmp_path) as (tools, _):
        assert (tools[ANSWER].traits.asks, tools[ANSWER].effect) == ("always", "effect")
        for wrong, said in (
            ({"question": "qabc"}, "there is no open question qabc"),
            ({"asked": "May I?"}, f"`asked` differs from the question, which is: {QUESTION}"),
            ({"answer": "Ada"}, "the arguments are not valid JSON"),
            ({"answer": '{"name": 7}'}, "name: 7 is not of type 'string'"),
        ):
            with pytest.raises(BadArguments, match=re.escape(said)):
                tools[ANSWER].parse(answer(question, **wrong))
        outcome = await call_server_tool(tools[ANSWER], answer(question))
        assert (outcome.outcome, outcome.content) == ("ok", "booked in Rome for Ada")
        with pytest.raises(BadArguments, match="no open question"):
            tools[ANSWER].parse(answer(question))
    assert booked(tmp_path) == ["Rome: Ada"]


async def test_a_person_answers_in_another_process_and_in_words_of_their_own(command: Command) -> None:
    path = command.folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True)
    args = json.dumps([ASKING, str(command.folder / "bookings")])
    path.write_text(f"[mcp_servers.it]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n")

    async def run(server: ModelServer, *words: str) -> Any:
        key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
        return await asyncio.to_thread(lambda: command.run(*words, "--output-format", "json", **key))

    async with ModelServer([call(BOOK, city="Rome"), say("I shall ask.")]) as server:
        first = await run(server, "-p", "book", "-m", "openai-chat/scripted", "--allow", "mcp__it")
        session = first.result["session_id"]
        question = question_in(server.requests[-1].body["messages"][-1]["content"])
    async with ModelServer([call(ANSWER, **json.loads(answer(question))), say("done")]) as server:
        asked = await run(server, "-p", "go on", "-r", session, "-y")
        assert (asked.code, asked.result["status"]) == (3, "needs_approval"), asked.err
        (pending,) = asked.result["pending"]
        assert (pending["tool"], pending["arguments"]["asked"]) == (ANSWER, QUESTION)
        assert booked(command.folder) == []
        edited = command.folder / "edited.json"
        edited.write_text(answer(question, answer='{"name": "Grace"}'))
        ended = await run(server, "approve", session, "--edit", str(edited))
        assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
    assert booked(command.folder) == ["Rome: Grace"]
