"""Sessions to pick from: how each stands, a search in what people said, and what was said last."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_input, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.waiting import until

from sandbur.agent.history.timeline import list_first_lines
from sandbur.state.session import SessionSettings, SessionSummary
from sandbur.state.store.store import Store
from sandbur.ui.chat.input.composer import Leave
from sandbur.ui.chat.input.wait_for_input import at_prompt
from sandbur.ui.chat.menu import Choice, ChoiceList, Picker
from sandbur.ui.chat.picker import choice_of, pick_session, preview_lines, state_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STAMP = NOW.isoformat()
PLAIN = SessionSummary("id-1", "a title", "/home/me/project", "demo", "done", STAMP, STAMP, 3, None, None)


class Sized(DummyOutput):
    columns, rows = 80, 24

    def get_size(self) -> Size:
        return Size(rows=self.rows, columns=self.columns)


@pytest.fixture
def output() -> Sized:
    return Sized()


@pytest.fixture
def keys(output: Sized) -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=output):
        yield pipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 's.db'}")


def text_of(picker: Picker) -> str:
    return "".join(part[1] for part in picker._text())


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"status": "done"}, "done"),
        ({"status": "needs_approval"}, "waits for you"),
        ({"status": "needs_decision"}, "waits for you"),
        ({"status": "running"}, "runs elsewhere"),
        ({"status": "interrupted"}, "interrupted"),
        ({"status": "rate_limited", "wake_at": (NOW - timedelta(seconds=1)).isoformat()}, "due"),
        ({"status": "running", "wake_at": (NOW - timedelta(seconds=1)).isoformat()}, "runs elsewhere"),
        ({"status": "done", "is_foreign": True}, "imported"),
        ({"status": "new"}, "new"),
    ],
)
def test_how_a_session_stands_is_said_in_words(changes: dict[str, Any], state: str) -> None:
    assert state_of(replace(PLAIN, **changes), NOW)[0] == state


def test_a_run_that_waits_says_until_when() -> None:
    later = replace(PLAIN, status="rate_limited", wake_at=(NOW + timedelta(hours=1)).isoformat())
    assert state_of(later, NOW)[0].startswith("due ")


@pytest.mark.parametrize("columns", [40, 80, 160])
async def test_every_line_fits_the_terminal(keys: PipeInput, output: Sized, columns: int) -> None:
    output.columns = columns
    sessions = [replace(PLAIN, id=f"id-{n}", title=f"{n} \u4fee\u590d " * 30) for n in range(30)]
    choices = [choice_of(one, NOW, with_folder=True) for one in sessions]

    async def preview(name: str) -> Sequence[str]:
        return ["word " * 200, f"of {name}"]

    picker = Picker("Which?", choices, "leaves", more=choices[:3], preview=preview)
    picking = asyncio.ensure_future(picker.run())
    await until(lambda: "word" in text_of(picker), lambda: text_of(picker))
    shown = text_of(picker).splitlines()
    assert max(map(cell_len, shown)) < columns
    assert len(shown) <= output.rows
    assert "Tab shows only 3" in " ".join(text_of(picker).split())
    assert any("done" in line for line in shown)
    keys.send_text("\r")
    assert await picking == "id-0"


async def test_all_words_of_a_filter_are_looked_for_wherever_they_stand(keys: PipeInput) -> None:
    picker = Picker("q", [Choice("1", "a", "red apple"), Choice("2", "b", "green apple")], "leaves")
    picking = asyncio.ensure_future(picker.run())
    keys.send_text("apple GR")
    await until(lambda: "1 of 2" in text_of(picker), lambda: text_of(picker))
    keys.send_text("\x15re\x7f\x7f2\r")
    assert await picking == "2"


async def test_enter_takes_nothing_where_nothing_fits(keys: PipeInput) -> None:
    picker = Picker("q", [Choice("1", "a", "red")], "leaves")
    picking = asyncio.ensure_future(picker.run())
    keys.send_text("zzz\r\x1b[A\x1b[B\r")
    await until(lambda: "0 of 1" in text_of(picker), lambda: text_of(picker))
    keys.send_text("\x03")
    with pytest.raises(Leave):
        await picking


async def test_words_that_come_later_are_found_and_the_cursor_stays(keys: PipeInput) -> None:
    more = asyncio.Event()

    async def words() -> AsyncIterator[Mapping[str, str]]:
        await more.wait()
        yield {"3": "Needle"}
        yield {"1": "needle too"}

    choices = [Choice(str(n), f"line {n}", "") for n in (1, 2, 3)]
    picker = Picker("q", choices, "leaves", words=words())
    picking = asyncio.ensure_future(picker.run())
    keys.send_text("needle")
    await until(lambda: "0 of 3" in text_of(picker), lambda: text_of(picker))
    more.set()
    await until(lambda: "2 of 3" in text_of(picker), lambda: text_of(picker))
    keys.send_text("\r")
    assert await picking == "3"


async def talked(store: Store, session_id: str, *messages: str) -> None:
    session = await open_session(store, ScriptedModel(*(["fine"] * len(messages))), session_id=session_id)
    for message in messages:
        await collect(session.send(message))


async def test_a_session_is_found_by_what_was_said_in_it(store: Store, keys: PipeInput) -> None:
    await talked(store, "s1", "hello", "where is the needle?\nmore")
    await talked(store, "s2", "hello", "something else")
    assert list(list_first_lines(store.database, ["s1", "s2", "gone"])) == [
        {"s1": ["hello", "where is the needle?"], "s2": ["hello", "something else"]}
    ]
    picking = asyncio.ensure_future(pick_session(store, Path("/")))
    keys.send_text("NEEDLE")
    while not picking.done():  # Enter takes nothing until the words are there
        await asyncio.sleep(0.02)
        keys.send_text("\r")
    assert await picking == "s1"


async def test_the_last_exchange_and_where_it_stopped_are_shown(store: Store) -> None:
    tool = Recorder("act", "effect")
    session = await open_session(store, ScriptedModel("fine", act("x")), tool, mode="interactive")
    await collect(session.send("hello there"))
    await collect(session.send("do it"))
    lines = await preview_lines(store, store.index.summary(session.id))
    assert "you: do it" in lines
    assert any(line.startswith("Waits for your decision") for line in lines)
    await talked(store, "s9", "hello \x1b[2J there")
    lines = await preview_lines(store, store.index.summary("s9"))
    assert lines[1:] == ["you: hello there", "agent: fine"]


async def test_a_session_that_is_gone_has_no_preview_and_breaks_nothing(store: Store) -> None:
    (line,) = await preview_lines(store, PLAIN)
    assert "There is no session" in line


@pytest.fixture
def stocked(store: Store) -> Store:
    """Return a store of many sessions: every tenth of the folder /work, the rest of others."""
    for number in range(450):
        cwd = "/work" if number % 10 == 0 else f"/elsewhere/{number % 7}"
        store.index.create(f"s{number:03}", SessionSettings(model="demo", cwd=cwd), f"title {number}")
    return store


async def test_pages_are_read_as_the_cursor_or_a_filter_needs_them(keys: PipeInput) -> None:
    read: list[int] = []

    def page(number: int) -> list[Choice]:
        return [Choice(f"{number}.{n}", f"line {number}.{n}", "") for n in range(50)]

    async def pages() -> AsyncIterator[Sequence[Choice]]:
        for number in range(1, 6):
            read.append(number)
            yield page(number)

    picker = Picker("q", ChoiceList(page(0), pages()), "leaves")
    picking = asyncio.ensure_future(picker.run())
    await until(lambda: "50 of 50+" in text_of(picker), lambda: text_of(picker))
    assert read == []
    keys.send_text("\x1b[6~" * 3)
    await until(lambda: "100 of 100+" in text_of(picker), lambda: text_of(picker))
    assert read == [1]
    keys.send_text("5.49")
    await until(lambda: "1 of 300;" in text_of(picker), lambda: text_of(picker))
    keys.send_text("\r")
    assert await picking == "5.49"


async def test_an_old_session_of_another_folder_is_found_by_a_filter(stocked: Store, keys: PipeInput) -> None:
    picking = asyncio.ensure_future(pick_session(stocked, Path("/work")))
    keys.send_text("\tS003")
    while not picking.done():  # Enter takes nothing until it was read
        await asyncio.sleep(0.02)
        keys.send_text("\r")
    assert await picking == "s003"


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_picker_ends_when_its_terminal_is_gone(is_written: bool) -> None:
    def write() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    near, far = os.openpty()
    picker = Picker("Which?", [Choice("id-1", "a title", "")], "leaves")
    with os.fdopen(far) as terminal, create_app_session(input=create_input(terminal), output=Sized()):
        asking = asyncio.ensure_future(at_prompt(picker.run(), lambda _: False))
        await until(lambda: picker._app is not None and picker._app.is_running)
        if is_written:
            asyncio.get_running_loop().call_soon(write)
        else:
            os.close(near)
        with pytest.raises(Leave) as left:
            await asking
    assert left.value.exit_code == 129
