"""The table of slash commands: found, completed, listed, refused with a sentence."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest
from support.screens.slash_desk import slash_desk

from sandbur.agent.extensions.extension import load
from sandbur.ui.chat.slash.command import DONE, SlashCommand, SlashResult
from sandbur.ui.chat.slash.table import (
    COMMANDS,
    ENTRIES,
    completions,
    describe_unknown,
    editor_entries,
    find,
    help_lines,
)


def texts(typed: str) -> list[str]:
    return [one.text for one, _ in completions(typed)]


def test_no_two_commands_share_a_name() -> None:
    names = [name for one in COMMANDS for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_what_a_row_runs_is_there(command: SlashCommand) -> None:
    home = inspect.getclosurevars(command.run).nonlocals
    if "home" in home:
        assert inspect.iscoroutinefunction(load(home["home"]))
    elif home:
        found = getattr(import_module(f"sandbur.ui.chat.slash.{home['module']}"), home["name"])
        assert inspect.iscoroutinefunction(found)


def test_a_command_is_found_whatever_its_case_and_by_its_alias() -> None:
    assert find("MODE") is find("mode") is not None
    assert find("quit") is find("exit") is not None
    assert find("quits") is None


def test_completion_offers_names_and_then_what_may_stand_behind_them() -> None:
    assert texts("/") == [one.typed for one in COMMANDS]
    assert texts("/REW") == ["/rewind"]
    assert [length for _, length in completions("/mode y")] == [1]
    assert texts("/mode ") == ["interactive", "plan", "auto-edit", "yolo"]
    assert texts("/mode yolo now") == texts("say /m") == texts("/m\nb") == texts("/nothing ") == []


def test_help_lists_every_command_and_nothing_invisible() -> None:
    async def nothing(context: object, words: str) -> object:
        return DONE

    evil = SlashCommand("evil", "\x1b[2J", "a\u202eb\nc", "Yours", nothing)  # pyright: ignore[reportArgumentType]
    text = "\n".join(line for _, line in help_lines([evil]))
    assert all(one.typed in text and one.summary in text for one in COMMANDS)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "b\\nc" in text


async def test_an_unknown_command_is_one_sentence_with_the_nearest_name(tmp_path: Path) -> None:
    assert describe_unknown("rewnd") == "There is no command /rewnd. Did you mean /rewind?"
    assert describe_unknown("xyzzy") == "There is no command /xyzzy. /help lists them."
    async with slash_desk(tmp_path) as desk:
        assert await desk.type("/moed plan") == DONE
        assert desk.read_output() == "There is no command /moed. Did you mean /mode?\n"
        for message in ("hello", "/usr/bin is a folder", "/ a", "what is /mode?"):
            assert await desk.type(message) is None
        assert desk.runtime.store.sessions() == []


async def test_help_and_mode_do_what_they_say(tmp_path: Path) -> None:
    async with slash_desk(tmp_path) as desk:
        await desk.type("/help")
        assert "  /mode [MODE]" in desk.read_output()
        await desk.type("/help mode")
        assert desk.read_output() == "/mode [MODE]   change what runs without a question\n"
        result = await desk.type("/mode plan")
        assert result == SlashResult(goes_on=True)
        session_id = desk.session.id
        assert "Mode: plan" in desk.read_output()
        assert await desk.type("/exit") == SlashResult(leaves=True)
    async with slash_desk(tmp_path, resume=session_id) as desk:
        assert desk.session.state.execution_mode == "plan"


def test_every_entry_is_a_command_of_the_chat_or_of_editors() -> None:
    assert all(entry.home or entry.editor for entry in ENTRIES)
    assert [one.name for one in COMMANDS] == [entry.name for entry in ENTRIES if entry.home]
    homes = [home for entry in ENTRIES for home in (entry.home, entry.editor, entry.complete) if home]
    assert all(callable(load(home)) for home in homes)


def test_an_editor_has_the_commands_that_say_so() -> None:
    names = [entry.name for entry in editor_entries()]
    assert names == ["help", "mode", "model", "mcp", "continue", "memory", "compact", "skill", "recall"]
    assert find("continue") is None
