"""What `/rewind` lists: the messages of the person, each with what files changed since."""

import asyncio
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console
from support.commands.command import Command

from sandbur.agent.history.timeline import list_timeline
from sandbur.state.store.store import Store
from sandbur.ui.chat.slash.rewind import _choice, _list_changes_since, _message_lines, pick_step
from sandbur.ui.terminal.render import Renderer


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def said(command: Command, *messages: str) -> tuple[Store, str]:
    """Say each message to the demo in one session."""
    more: tuple[str, ...] = ()
    session_id = ""
    for message in messages:
        ended = command.run("-p", message, "-m", "demo", "-y", "--output-format", "json", *more)
        session_id = ended.result["session_id"]
        more = ("-r", session_id)
    return Store.open(f"sqlite:///{command.folder / 'data/sandbur.db'}"), session_id


def test_a_message_is_listed_without_the_text_of_its_files(command: Command) -> None:
    text = 'look at @a.txt\n\n<file path="a.txt" has="1 line">\nwords\n</file>'
    store, session_id = said(command, text)
    [step] = [step for step in list_timeline(store.database, session_id) if step.kind == "message"]
    assert _choice(step, 0).line.endswith(" look at @a.txt")
    shown = _message_lines(store, session_id, step.seq, [], str(command.folder))
    assert shown[0] == "you: look at @a.txt"
    store.close()


async def test_messages_are_listed_and_not_the_steps(command: Command, keys: PipeInput) -> None:
    store, session_id = said(command, "create file a.txt with one", "replace one with two in a.txt", "hello")
    steps = [step for step in list_timeline(store.database, session_id) if step.kind == "message"]
    changed = [(found.seq, found.change.path) for found in store.open_file_changes(session_id).list_changes()]
    counts = [len(_list_changes_since(changed, step.seq)) for step in steps]
    assert counts == [1, 1, 0]
    lines = [_choice(step, count).line for step, count in zip(steps, counts, strict=True)]
    assert lines[0].endswith("1 file since    create file a.txt with one")
    assert "replace one with two in a.txt" in lines[1]
    assert "file" not in lines[2]
    shown = _message_lines(
        store, session_id, steps[1].seq, _list_changes_since(changed, steps[1].seq), str(command.folder)
    )
    assert list(shown) == ["you: replace one with two in a.txt", "Changed since: a.txt"]
    keys.send_text("replace\r")
    renderer = Renderer(Console(file=StringIO(), width=80), answers=True)

    async def wait(answer: Any, leave: object) -> str:
        return await answer

    context: Any = SimpleNamespace(
        runtime=SimpleNamespace(store=store),
        session=SimpleNamespace(id=session_id),
        renderer=renderer,
        wait=wait,
    )
    async with asyncio.timeout(20):
        picked = await pick_step(context, [])
    assert picked is not None
    assert picked.seq == steps[1].seq
    store.close()
