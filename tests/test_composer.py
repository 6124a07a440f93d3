"""The input line, driven by keys through a pipe."""

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from ui.composer import Composer, Leave, Standing
from ui.history import input_history
from ui.slash import SlashCompleter
from ui.terminal import Glyphs

STANDING = Standing("interactive", "demo", "0123456789")


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def composer(standing: Standing = STANDING) -> Composer:
    return Composer(InMemoryHistory(), Glyphs(), lambda: standing)


async def read(keys: PipeInput, typed: str, line: Composer | None = None) -> str:
    keys.send_text(typed)
    async with asyncio.timeout(5):
        return await (line or composer()).read()


async def test_enter_sends_the_line(keys: PipeInput) -> None:
    assert await read(keys, "hello\r") == "hello"


async def test_alt_enter_begins_a_new_line(keys: PipeInput) -> None:
    assert await read(keys, "one\x1b\rtwo\r") == "one\ntwo"


async def test_an_enter_from_before_the_prompt_sends_the_line(keys: PipeInput) -> None:
    assert await read(keys, "hello\n") == "hello"


async def test_a_backslash_before_enter_begins_a_new_line(keys: PipeInput) -> None:
    assert await read(keys, "one\\\rtwo\r") == "one\ntwo"


async def test_a_paste_of_several_lines_is_one_message(keys: PipeInput) -> None:
    assert await read(keys, "\x1b[200~one\r\ntwo\rthree\n\x1b[201~\r") == "one\ntwo\nthree\n"


async def test_a_huge_paste_arrives_whole_and_is_shown_as_a_mark(keys: PipeInput) -> None:
    text = "line with some words\n" * 50_000
    line = composer()
    reading = asyncio.ensure_future(line.read())
    await asyncio.to_thread(keys.send_text, f"see \x1b[200~{text}\x1b[201~!")
    for _ in range(500):
        if line.draft.endswith("!"):
            break
        await asyncio.sleep(0.01)
    shown = line.draft
    keys.send_text("\r")
    async with asyncio.timeout(5):
        assert await reading == f"see {text}!"
    assert "50001 lines" in shown
    assert len(shown) < 100


async def test_bytes_that_are_no_text_become_replacement_signs(keys: PipeInput) -> None:
    keys.send_bytes(b"a\xffb\r")
    async with asyncio.timeout(5):
        text = await composer().read()
    text.encode("utf-8")
    assert text.startswith("a")
    assert text.endswith("b")


async def test_ctrl_c_puts_a_draft_away_and_up_brings_it_back(keys: PipeInput) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    keys.send_text("my draft\x03")
    await asyncio.sleep(0.2)
    assert line.draft == ""
    keys.send_text("\x1b[A\r")
    async with asyncio.timeout(5):
        assert await reading == "my draft"


async def test_ctrl_c_twice_at_an_empty_prompt_leaves_with_130(keys: PipeInput) -> None:
    with pytest.raises(Leave) as left:
        await read(keys, "\x03\x03")
    assert left.value.exit_code == 130


async def test_ctrl_d_at_an_empty_prompt_leaves_with_0(keys: PipeInput) -> None:
    with pytest.raises(Leave) as left:
        await read(keys, "\x04")
    assert left.value.exit_code == 0


async def test_a_signal_ends_the_reading(keys: PipeInput) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    await asyncio.sleep(0.1)
    line.leave(143)
    with pytest.raises(Leave) as left:
        await reading
    assert left.value.exit_code == 143


async def test_keys_without_a_meaning_do_no_harm(keys: PipeInput) -> None:
    assert "ok" in await read(keys, "\x1b\x1b\x1b[99~\x1b[M !!\x00\x1b[<0;1;1Mok\r")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/", ["/mode", "/rewind", "/help", "/exit"]),
        ("/m", ["/mode"]),
        ("/mode ", ["interactive", "plan", "auto-edit", "yolo"]),
        ("/mode y", ["yolo"]),
        ("say /m", []),
        ("/mode yolo now", []),
    ],
)
def test_a_slash_completes_commands_and_modes(typed: str, offered: list[str]) -> None:
    found = SlashCompleter().get_completions(Document(typed), CompleteEvent())
    assert [completion.text for completion in found] == offered


def test_yolo_shows_in_the_prompt_and_below_it() -> None:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        line = composer(Standing("yolo", "demo", "0123456789"))
        assert "yolo" in "".join(text for _, text, *_ in line.prompt())
        assert "YOLO" in "".join(text for _, text, *_ in line.toolbar())


def test_the_toolbar_names_mode_model_and_session() -> None:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        text = "".join(text for _, text, *_ in composer().toolbar())
    assert "interactive" in text
    assert "demo" in text
    assert "01234567" in text


def test_the_history_is_private_and_survives(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    input_history(folder).append_string("first message")
    file = folder / "input_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "first message" in list(input_history(folder).load_history_strings())


def test_a_history_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    input_history(tmp_path / "data").append_string("x")
    (tmp_path / "other" / "input_history").mkdir(parents=True)
    history = input_history(tmp_path / "other")
    history.append_string("x")
    assert list(history.load_history_strings()) == []
