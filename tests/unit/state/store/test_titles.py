"""What sessions are called: by their first message, until a person says otherwise."""

from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.scripted import ScriptedModel, collect, open_session

from sandbur.state.errors import UsageError
from sandbur.state.session import MOST_GIVEN_CHARS, MOST_TITLE_CHARS, clean_title, make_title
from sandbur.state.store.store import Store

LONG = "please look at every module of this project and tell me which of them nobody imports"


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("hello there", "hello there"),
        ("Fix the login. Then run the tests.", "Fix the login"),
        ("Why is a.txt empty? It was not.", "Why is a.txt empty?"),
        ("see v1.2.3 of https://x.example/a.b now", "see v1.2.3 of https://x.example/a.b now"),
        ("\n\n  ## Task\nmore", "Task"),
        ("- [ ] write `main.py`:\n", "[ ] write main.py"),
        ("```\nTraceback (most recent call last):\n```", "Traceback (most recent call last)"),
        ("\u4fee\u590d\u767b\u5f55\u3002\u7136\u540e\u6d4b\u8bd5", "\u4fee\u590d\u767b\u5f55\u3002"),
        ("...", "..."),
        ("", ""),
        ("a\0b", "ab"),
        (LONG, "please look at every module of this project and tell me ..."),
        ("x" * 200, "x" * (MOST_TITLE_CHARS - 4) + " ..."),
    ],
)
def test_a_title_is_the_first_sentence_of_the_first_message(message: str, title: str) -> None:
    assert make_title(message) == title
    assert len(title) <= MOST_TITLE_CHARS


def test_a_given_title_is_one_line_that_ends() -> None:
    assert clean_title("  my\n\ttitle\0 ") == "my title"
    assert len(clean_title("word " * 100)) <= MOST_GIVEN_CHARS


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 's.db'}")


async def test_a_session_is_renamed_and_stays_so(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi", "again"))
    await collect(session.send("hello there"))
    assert await session.rename(" The  release\nof May ") == "The release of May"
    await collect(session.send("and more"))
    assert store.index.summary(session.id).title == "The release of May"
    assert store.find("The release of May") == session.id
    assert store.verify(session.id) == []


async def test_a_session_that_is_not_stored_yet_keeps_the_title_it_was_given(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi"))
    await session.rename("mine")
    await collect(session.send("hello there"))
    assert store.index.summary(session.id).title == "mine"


async def test_a_title_of_nothing_is_refused(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi"))
    await collect(session.send("hello there"))
    for nothing in ("", " \n", "\0"):
        with pytest.raises(UsageError):
            await session.rename(nothing)
        with pytest.raises(UsageError):
            store.rename(session.id, nothing)
    assert store.index.summary(session.id).title == "hello there"


async def test_a_session_is_found_by_the_message_that_it_is_called_by(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi"))
    await collect(session.send(LONG))
    assert store.find(LONG) == session.id


def test_the_command_renames_a_session(command: Command) -> None:
    ended = command.run("-p", "hello there", "-m", "demo", "--output-format", "json")
    session_id = ended.result["session_id"]
    assert "is now: my work" in command.run("sessions", "rename", session_id[:8], "my work").err
    listed = command.run("sessions", "list", "--json").lines
    assert [one["title"] for one in listed] == ["my work"]
    assert command.run("sessions", "rename", session_id).code == 2
    assert command.run("sessions", "rename", session_id, " ").code == 2
    assert command.run("sessions", "rename", "nobody", "x").code != 0
    assert command.run("-p", "hello", "-m", "demo", "-r", "my work").code == 0
