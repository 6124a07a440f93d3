"""A session keeps a page in view of its model, whatever is compressed; the model and the person write it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.commands.command import Command
from support.models.scripted import ScriptedModel as SimpleModel
from support.screens.slash_desk import slash_desk
from support.stores.audits import breaches

from sandbur import Agent
from sandbur.actions.ports import ModelRequest
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.sdk.session import opened_session
from sandbur.state.conversation.messages import Message
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

PAGE = "/memories/session.md"
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
NOTES = "Goal: move the parser\nDone: the lexer"


def call(command: str, **arguments: Any) -> ToolCall:
    return ToolCall("memory", command=command, **arguments)


CREATE = call("create", path=PAGE, file_text=NOTES)
EDIT = call("str_replace", path=PAGE, old_str="the lexer", new_str="the lexer, the grammar")


def describe(message: Message) -> str:
    """Return all that a model reads of a message."""
    calls = [use.arguments.replace("\\n", "\n") for use in message.tool_uses]
    return "\n".join([message.text, *calls, *(one.content for one in message.tool_results)])


def count(request: ModelRequest, text: str) -> int:
    """Return how often a request has a text."""
    return sum(describe(message).count(text) for message in request.messages)


class Desk(NamedTuple):
    folder: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/page.db"

    def agent(self, *turns: Any, **more: Any) -> tuple[Agent[Any], ScriptedModel]:
        model = ScriptedModel([*turns])
        more = {"memory": "agent", "cwd": self.folder, "store": self.url} | more
        return Agent(model, **more), model


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_every_request_shows_the_page_once_and_an_unchanged_page_adds_nothing(desk: Desk) -> None:
    agent, model = desk.agent(CREATE, "Noted.", "Go on.", EDIT, call("view", path="/memories"), "Done.")
    async with agent.session("s1") as session:
        for message in ("Begin", "And?", "The grammar is done, too"):
            await session.run(message)
        assert session.page == f"{NOTES}, the grammar"
    assert [count(request, NOTES) for request in model.requests] == [0, 1, 1, 1, 2, 2]
    assert [count(request, f"{NOTES}, the grammar") for request in model.requests] == [0, 0, 0, 0, 1, 1]
    listing = describe([*model.requests[-1].messages][-1])
    assert f"{PAGE} (50 of 4,096 bytes): the page of this session" in listing
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        sent = [*earlier.messages]
        assert [*later.messages][: len(sent)] == sent


async def test_a_compression_neither_summarizes_nor_drops_the_page(desk: Desk) -> None:
    agent, model = desk.agent(CREATE, "Noted.", "The user said hello.", "Yes.", "Again.")
    async with agent.session("s1") as session:
        await session.run("Begin")
        await session.run("/compact")
        await session.run("Is it there?")
        await session.run("Still?")
    summary, after, later = model.requests[2:]
    assert summary.purpose == "summary"
    assert count(summary, "the lexer") == 0
    assert [count(after, NOTES), count(later, NOTES)] == [1, 1]
    assert [*later.messages][: len([*after.messages])] == [*after.messages]


async def test_calls_of_one_reply_find_the_page_as_the_calls_before_left_it(desk: Desk) -> None:
    insert = call("insert", path=PAGE, insert_line=2, insert_text="Next: tests")
    agent, _ = desk.agent([CREATE, EDIT, insert], call("delete", path=PAGE), "Done.", "Yes.")
    async with agent.session("s1") as session:
        pages: list[str] = []
        async for _ in session.stream("Begin"):
            pages += [session.page] if session.page not in pages[-1:] else []
        assert pages == ["", f"{NOTES}, the grammar\nNext: tests", ""]


async def test_a_fork_has_the_page_of_its_step_and_a_replay_computes_it(desk: Desk) -> None:
    agent, _ = desk.agent(CREATE, "Noted.", EDIT, "Noted.")
    async with agent.session("s1") as session:
        await session.run("Begin")
        step = opened_session(session).last_sequence
        await session.run("Go on")
    store = Store.open(desk.url)
    try:
        store.fork("s1", "s2", step)
        assert store.show("s1").state.page == f"{NOTES}, the grammar"
        assert store.show("s2").state.page == NOTES
        assert not breaches(store)
        found = await replay(store, "s1")
        assert found.divergence is None, found.divergence
    finally:
        store.close()


async def test_a_program_writes_the_page_and_the_model_is_told_when_it_is_cleared(desk: Desk) -> None:
    agent, model = desk.agent("One.", "Two.", "Three.", memory="off")
    async with agent.session("s1") as session:
        session.page = f" {NOTES}\n"
        await session.run("One?")
        session.page = ""
        await session.run("Two?")
        assert session.page == ""
        await session.run("Three?")
    assert [count(request, NOTES) for request in model.requests] == [1, 1, 1]
    told = "The page of this session is empty now."
    assert [count(request, told) for request in model.requests] == [0, 1, 1]


async def test_the_next_step_of_a_plan_has_the_page_that_a_step_wrote(desk: Desk) -> None:
    finish = ToolCall("finish_step", status="completed", summary="it is done")
    steps = [{"description": "Move it"}, {"description": "Test it"}]
    plan = [ToolCall("start_plan", goal="Move"), ToolCall("submit_plan", steps=steps)]
    agent, model = desk.agent(*plan, CREATE, finish, finish, "Moved.")
    await agent.run("Move it")
    assert [count(request, NOTES) for request in model.requests[-3:]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (call("create", path=PAGE, file_text="x" * 4097), "may have 4,096 bytes, but this one has 4,097"),
        (call("create", path=PAGE, file_text=f"key {SECRET}"), "contains a secret"),
        (call("create", path=PAGE, file_text="a \x1b[31m b"), "control character U+001B"),
        (call("create", path=PAGE, file_text=" "), "The page needs a text."),
        (call("str_replace", path=PAGE, old_str="x", new_str="y"), "/memories/session.md is empty."),
        (call("insert", path=PAGE, insert_line=3, insert_text="x"), "has 0 lines"),
        (call("rename", old_path=PAGE, new_path="/memories/project/x.md"), "keeps its name"),
        (call("view", path=PAGE), "/memories/session.md is empty."),
    ],
)
async def test_what_the_page_cannot_hold_is_refused_in_a_sentence(
    desk: Desk, refused: ToolCall, why: str
) -> None:
    agent, model = desk.agent(refused, "Done.")
    async with agent.session("s1") as session:
        await session.run("Begin")
        assert session.page == ""
        with pytest.raises(UsageError, match="contains a secret"):
            session.page = SECRET
    assert why in describe([*model.requests[-1].messages][-1])


async def test_a_person_sees_edits_and_clears_the_page(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "Port: 8080\\033[31m\\n" | tr -d "\\033" >> "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    async with slash_desk(tmp_path, SimpleModel("Fine.")) as desk:

        async def read(text: str) -> str:
            desk.read_output()
            await desk.type(text)
            return " ".join(desk.read_output().split())

        assert "Write it: /memory page edit" in await read("/memory page")
        assert "The page is changed; the model reads it" in await read("/memory page edit")
        assert "14 of 4,096 bytes: Port: 8080[31m" in await read("/memory page")
        stored = desk.runtime.store.show(desk.session.id)
        assert stored.state.page == "Port: 8080[31m"
        assert "The page is empty now" in await read("/memory page clear")
        assert "The page is unchanged." in await read("/memory page clear")
        assert "There are: edit, clear." in await read("/memory page dance")


def test_the_page_is_shown_with_the_session(desk: Desk, command: Command) -> None:
    ended = command.run("-p", "hi", "-m", "demo", "--output-format", "json")
    assert ended.code == 0, ended.err
    session_id = ended.result["session_id"]
    forked = command.run("fork", session_id, "--set", "page=Port: 8080")
    assert forked.code == 0, forked.err
    shown = command.run("sessions", "show", forked.out.strip())
    assert "page      in view in every request:\n  Port: 8080" in shown.out
    shown = command.run("sessions", "show", forked.out.strip(), "--json")
    assert json.loads(shown.out)["page"] == "Port: 8080"
    assert "Port: 8080" in command.run("sessions", "export", forked.out.strip(), "--format", "md").out
