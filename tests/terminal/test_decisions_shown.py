"""What a person decides about, on narrow and wide terminals: no line is longer, no word is torn."""

import json
import time
from pathlib import Path

import pytest
from support.models.server import ModelServer, ToolCall, call, calls, say
from support.screens.tmux_window import ASKS, DEAF_S, Terminal

WIDTHS = [40, 80, 160]
WISHES = (
    ("run_shell_command", {"command": "touch made && rm -rf build"}),
    ("write_file", {"path": "a.py", "content": "print(1)\n"}),
    ("run_shell_command", {"command": "touch other"}),
)
THREE = calls(*(ToolCall(tool, json.dumps(arguments)) for tool, arguments in WISHES))


def press(terminal: Terminal, key: str) -> None:
    time.sleep(DEAF_S)
    terminal.keys(key)


@pytest.mark.parametrize("width", WIDTHS)
def test_three_calls_are_in_view_and_approved_by_one_key_and_enter(terminal: Terminal, width: int) -> None:
    with ModelServer([THREE, say("all done")]) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        terminal.start("-m openai-chat/some 'do three things'", width=width, height=60, **env)
        screen = terminal.see(ASKS)
        shown = screen.partition("wants to run")[2]
        for part in ("1 of 3", "2 of 3  waits", "3 of 3  waits", "asks why:", "deletes", "sandbox:"):
            assert part in shown, screen
        assert all(len(line) <= width for line in screen.splitlines())
        facts = shown.partition("asks why:")[2].partition("[y]")[0].replace("│", " ").split()
        assert "workspace)" not in facts or "(outside" in facts
        assert {"rights", "your"} <= set(facts)
        press(terminal, "A")
        terminal.see("Run all 3 as shown?")
        press(terminal, "y")
        time.sleep(DEAF_S)
        assert not (terminal.folder / "made").exists()
        terminal.keys("Enter")
        terminal.see("all done")
    assert (terminal.folder / "made").exists()
    assert (terminal.folder / "other").exists()
    assert (terminal.folder / "a.py").read_text() == "print(1)\n"


def test_an_edit_in_an_editor_is_what_runs(terminal: Terminal, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\ncp "$1" seen.txt\nsed -i s/print.1./two/ "$1"\n')
    editor.chmod(0o755)
    wish = call("write_file", path="a.py", content="print(1)\n")
    with ModelServer([wish, say("written")]) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k", "EDITOR": str(editor)}
        terminal.start("-m openai-chat/some 'write it'", **env)
        terminal.see(ASKS)
        press(terminal, "e")
        terminal.see("+two")
        terminal.see(ASKS, after="+two")
        press(terminal, "y")
        terminal.see("written")
        told = json.dumps(server.requests[-1].body)
    assert (terminal.folder / "a.py").read_text() == "two\n"
    assert "the user edited this call" in told
