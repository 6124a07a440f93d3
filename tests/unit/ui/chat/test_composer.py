"""The input line, driven by keys through a pipe."""

import asyncio
import os
import pty
import select
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import DummyOutput
from support.waiting import until

from sandbur.ui.chat.input.completion import SlashCompleter
from sandbur.ui.chat.input.composer import UNREAD_S, Composer, Leave
from sandbur.ui.chat.input.history import input_history
from sandbur.ui.chat.input.keys import Does
from sandbur.ui.chat.input.line_prompt import show_above
from sandbur.ui.chat.slash.table import COMMANDS
from sandbur.ui.terminal.status import StatusFacts
from sandbur.ui.terminal.terminal import Glyphs

STANDING = StatusFacts("interactive", "demo", "0123456789")


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def composer(standing: StatusFacts = STANDING, earlier: Sequence[str] = ()) -> Composer:
    return Composer(InMemoryHistory(earlier), Glyphs(), lambda: standing)


async def read(keys: PipeInput, typed: str, line: Composer | None = None) -> str:
    keys.send_text(typed)
    async with asyncio.timeout(60):
        return await (line or composer()).read()


async def test_an_enter_that_came_before_the_news_could_be_read_sends_nothing(keys: PipeInput) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    await until(lambda: line.is_reading)
    with line.ignore_enter():
        keys.send_text("my own words\r")
        await until(lambda: line.draft == "my own words")
    keys.send_text("\r")
    await asyncio.sleep(0.1)
    assert not reading.done()
    assert "Not sent yet" in "".join(text for _, text, *_ in line.toolbar())
    await asyncio.sleep(UNREAD_S)
    keys.send_text("\r")
    assert await reading == "my own words"


@pytest.fixture
def typed() -> Iterator[Callable[[bytes], None]]:
    """Types on a real terminal, and waits until it has arrived at the line."""
    near, far = pty.openpty()

    def type_keys(keys: bytes) -> None:
        os.write(near, keys)
        assert select.select([far], [], [], 60)[0]

    with os.fdopen(far) as stream, create_app_session(input=Vt100Input(stream), output=DummyOutput()):
        yield type_keys
    os.close(near)


async def test_an_enter_that_is_typed_while_something_is_shown_above_sends_the_line(
    typed: Callable[[bytes], None],
) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    await until(lambda: line.is_reading)
    typed(b"hello")
    await until(lambda: line.draft == "hello")
    await show_above(lambda: typed(b"\r"))
    async with asyncio.timeout(60):
        assert await reading == "hello"


async def test_enter_sends_the_line(keys: PipeInput) -> None:
    assert await read(keys, "hello\r") == "hello"


async def test_alt_enter_begins_a_new_line(keys: PipeInput) -> None:
    assert await read(keys, "one\x1b\rtwo\r") == "one\ntwo"


async def test_ctrl_j_begins_a_new_line(keys: PipeInput) -> None:
    assert await read(keys, "one\ntwo\r") == "one\ntwo"


async def test_escape_twice_goes_back_and_keeps_the_draft(keys: PipeInput) -> None:
    line = composer()
    assert await read(keys, "my draft\x1b\x1b", line) == "/rewind"
    assert await read(keys, "!\r", line) == "my draft!"


async def test_in_vi_mode_escape_moves_and_does_not_go_back(keys: PipeInput) -> None:
    line = Composer(InMemoryHistory(), Glyphs(), lambda: STANDING, is_vi=True)
    assert await read(keys, "a word\x1bbcwtext\r", line) == "a text"


async def test_keys_of_the_chat_are_told_on_an_empty_line_only(keys: PipeInput) -> None:
    done: list[str] = []
    does: Does = {"help": lambda: done.append("help"), "mode": lambda: done.append("mode")}
    line = Composer(InMemoryHistory(), Glyphs(), lambda: STANDING, does=does)
    assert await read(keys, "?\x1b[Zwhy?\r", line) == "why?"
    assert done == ["help", "mode"]


async def test_the_editor_changes_the_text_and_sends_nothing(
    keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/one/two/ $1\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    line = composer()
    reading = asyncio.ensure_future(line.read())
    keys.send_text("one line\x07")
    await until(lambda: line.draft == "two line")
    keys.send_text("!\r")
    assert await reading == "two line!"


async def test_a_search_ignores_case(keys: PipeInput) -> None:
    line = composer(earlier=["Fix the README", "other"])
    assert await read(keys, "\x12readme\r", line) == "Fix the README"


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
    async with asyncio.timeout(60):
        assert await reading == f"see {text}!"
    assert "50001 lines" in shown
    assert len(shown) < 100


@pytest.mark.parametrize(
    "text",
    ["\n".join(f"row {n}" for n in range(40)), f"look: {'x' * 9000}", f"a\n{'word ' * 10_000}\nz"],
    ids=["many lines", "a long line", "much of both"],
)
@pytest.mark.parametrize("way", ["\x1b[A", "\x12row 39\r", "\x12look: x\r"])
async def test_a_paste_is_recalled_as_its_text_in_another_process(
    keys: PipeInput, tmp_path: Path, text: str, way: str
) -> None:
    if way != "\x1b[A" and way.strip("\x12\r") not in text:
        return
    first = Composer(input_history(tmp_path, tmp_path), Glyphs(), lambda: STANDING)
    assert await read(keys, f"\x1b[200~{text}\x1b[201~\r", first) == text
    assert await read(keys, "\x1b[A\r", first) == text
    other = Composer(input_history(tmp_path, tmp_path), Glyphs(), lambda: STANDING)
    assert await read(keys, way if way.endswith("\r") else f"{way}\r", other) == text


async def test_ctrl_r_finds_an_earlier_input_and_enter_sends_it(keys: PipeInput) -> None:
    line = composer(earlier=["one old", "two", "three old", "four"])
    assert await read(keys, "\x12old\r", line) == "three old"
    assert await read(keys, "next\r", line) == "next"


async def test_ctrl_r_again_goes_further_back(keys: PipeInput) -> None:
    line = composer(earlier=["one old", "two", "three old", "four"])
    assert await read(keys, "\x12old\x12\r", line) == "one old"


async def test_a_search_without_a_match_ends_and_keeps_the_draft(keys: PipeInput) -> None:
    assert await read(keys, "draft\x12nothing\r goes on\r", composer(earlier=["one"])) == "draft goes on"


@pytest.mark.parametrize("end", ["\x03", "\x07"])
async def test_a_search_can_be_given_up(keys: PipeInput, end: str) -> None:
    assert await read(keys, f"draft\x12one{end} stays\r", composer(earlier=["one"])) == "draft stays"


@pytest.mark.parametrize("key", "bx1")
async def test_a_key_after_escape_is_typed_as_itself(keys: PipeInput, key: str) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    keys.send_text("ab cd")
    for _ in range(500):
        if line.draft == "ab cd":
            break
        await asyncio.sleep(0.01)
    keys.send_text("\x1b")
    await asyncio.sleep(0.7)
    keys.send_text(f"{key}\r")
    async with asyncio.timeout(60):
        assert await reading == f"ab cd{key}"


async def test_a_key_with_alt_keeps_its_meaning(keys: PipeInput) -> None:
    assert await read(keys, "ab cd\x1bbX\r") == "ab Xcd"


async def test_bytes_that_are_no_text_become_replacement_signs(keys: PipeInput) -> None:
    keys.send_bytes(b"a\xffb\r")
    async with asyncio.timeout(60):
        text = await composer().read()
    text.encode("utf-8")
    assert text.startswith("a")
    assert text.endswith("b")


async def test_ctrl_c_puts_a_draft_away_and_up_brings_it_back(keys: PipeInput) -> None:
    line = composer()
    reading = asyncio.ensure_future(line.read())
    keys.send_text("my draft")
    await until(lambda: line.draft == "my draft")
    keys.send_text("\x03")
    await until(lambda: line.draft == "")
    keys.send_text("\x1b[A\r")
    async with asyncio.timeout(60):
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
    assert "ok" in await read(keys, "\x1b\x1b[99~\x1b[M !!\x00\x1b[<0;1;1Mok\r")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/", [command.typed for command in COMMANDS]),
        ("/rew", ["/rewind"]),
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
        line = composer(StatusFacts("yolo", "demo", "0123456789"))
        assert "yolo" in "".join(text for _, text, *_ in line.prompt())
        assert "YOLO" in "".join(text for _, text, *_ in line.toolbar())


def test_the_toolbar_names_mode_model_and_session() -> None:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        text = "".join(text for _, text, *_ in composer().toolbar())
    assert "interactive" in text
    assert "demo" in text
    assert "01234567" in text


def test_the_history_is_private_and_survives(tmp_path: Path) -> None:
    home = tmp_path / "data"
    input_history(home, tmp_path).append_string("first message")
    (file,) = (home / "inputs").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "inputs").stat().st_mode) == 0o700
    assert "first message" in list(input_history(home, tmp_path).load_history_strings())


def test_each_project_has_a_history_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    (one / ".git").mkdir(parents=True)
    (one / "below").mkdir()
    input_history(tmp_path, one).append_string("said in one")
    assert list(input_history(tmp_path, one / "below").load_history_strings()) == ["said in one"]
    assert list(input_history(tmp_path, other).load_history_strings()) == []


def test_the_history_keeps_no_secret(tmp_path: Path) -> None:
    input_history(tmp_path, tmp_path, lambda text: text.replace("hunter2", "***")).append_string(
        "it is hunter2"
    )
    assert list(input_history(tmp_path, tmp_path).load_history_strings()) == ["it is ***"]


def test_a_long_history_loses_its_older_half(tmp_path: Path) -> None:
    history = input_history(tmp_path, tmp_path)
    for number in range(60):
        history.append_string(f"{number} {'x' * 99_000}\nend {number}")
    kept = list(input_history(tmp_path, tmp_path).load_history_strings())
    assert 15 < len(kept) < 25
    assert [text.split()[0] for text in kept] == [str(59 - place) for place in range(len(kept))]
    assert all(text.endswith(f"end {text.split()[0]}") for text in kept)
    (file,) = (tmp_path / "inputs").iterdir()
    assert file.stat().st_size < 4_000_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    input_history(tmp_path / "data", tmp_path).append_string("x")
    input_history(tmp_path, tmp_path).append_string("x")
    (file,) = (tmp_path / "inputs").iterdir()
    file.unlink()
    file.mkdir()
    history = input_history(tmp_path, tmp_path)
    history.append_string("x")
    assert list(history.load_history_strings()) == []
