"""What `docs/sdk.md` and the README say of Python is what happens."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT

import sandbur

PAGE = (ROOT / "docs" / "sdk.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
BOT = next(block for block in BLOCKS if block.startswith("# support/bot.py"))


def ran(code: str, place: str) -> dict[str, Any]:
    """Run a block, in an event loop if it awaits; return its names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    done = eval(compile(code, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(done):
        asyncio.run(done)
    return names


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SANDBUR_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_page_runs(house: Path, number: int) -> None:
    ran(BLOCKS[number], f"docs/sdk.md, block {number}")


def test_the_command_runs_the_agent_of_the_page_and_finds_it_again(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "bot.py").write_text(BOT)
    for line in re.findall(r"^sandbur (.*)$", PAGE, re.M):
        ended = command.run(*(quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)))
        assert ended.code == 0, ended.err
    (session,) = command.run("sessions", "list", "--json").lines
    shown = command.run("sessions", "show", session["id"])
    assert "and again" in shown.out


def readme_program() -> str:
    (section,) = re.findall(r"^## In Python\n(.*?)^## ", README, re.M | re.S)
    (program,) = re.findall(r"```python\n(.*?)```", section, re.S)
    return program


def test_the_program_in_the_readme_does_what_it_says(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(readme_program(), "README.md")
    assert capsys.readouterr().out == "Three anvils.\n"


def test_the_command_chats_with_the_agent_of_the_readme(command: Command) -> None:
    (command.folder / "shop.py").write_text(readme_program())
    ended = command.run("--agent", "shop:agent", "-p", "How many anvils?")
    assert (ended.code, ended.out) == (0, "Three anvils.\n")


def test_what_the_page_imports_is_public() -> None:
    for names in re.findall(r"^from sandbur import (.*)$", PAGE, re.M):
        assert set(names.split(", ")) <= set(sandbur.__all__)
