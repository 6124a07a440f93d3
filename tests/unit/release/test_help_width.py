"""Helps and tables fit into windows of 40, 60 and 80 columns, and no word of them is torn."""

import re
import subprocess

import pytest
from rich.cells import cell_len
from support.commands.command import Command
from support.screens.terminal_pair import Terminal

from sandbur.ui.cli.grammar import COMMANDS, command_class
from sandbur.ui.terminal.text.sanitize import plain

LINES = [
    (name, action) for name in ("", *COMMANDS) for action in ("", *command_class(name or "chat").ACTIONS)
]
MARKS = re.compile(r"[\s|\\#]+")
"""What a help may add or break at: spaces, alternatives, ends of lines and comments."""


def words_of(text: str) -> list[str]:
    return sorted(word for word in MARKS.split(text) if word)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    command = Command(tmp_path_factory.mktemp("wide"))
    return {line: command.run(*filter(None, line), "--help", COLUMNS="400").out for line in LINES}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_line_of_a_help_is_longer_than_the_window_and_no_word_is_torn(
    command: Command, wide: dict[tuple[str, str], str], columns: int
) -> None:
    for line in LINES:
        shown = command.run(*filter(None, line), "--help", COLUMNS=str(columns)).out
        long = [row for row in shown.splitlines() if len(row) > columns]
        # What has no place to break at stays whole, so that it can be copied.
        assert not [row for row in long if " " in row.strip().strip("[]").replace("--budget ", "")], long
        assert words_of(shown) == words_of(wide[line]), line


def show_in_window(command: Command, columns: int, *words: str) -> list[str]:
    """Return the lines that a command prints in a window of this width."""
    with Terminal(columns=columns) as terminal:
        shown = subprocess.Popen(
            command.line(*words),
            env=command.env,
            cwd=command.folder,
            start_new_session=True,
            **terminal.streams,
        )
        terminal.drain(shown)
        return [plain(row) for row in terminal.output.decode().splitlines()]


def test_an_example_in_several_lines_is_still_a_command(command: Command) -> None:
    shown = command.run("worker", "--help", COLUMNS="40").out
    assert "  sandbur worker \\\n      --store postgresql://db/runs \\\n" in shown


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_listings_break_between_words_and_leave_out_columns_that_have_no_room(
    command: Command, columns: int
) -> None:
    fact = "Deployments of the parser happen on Fridays, after the release meeting and never before it"
    command.run("memory", "add", fact)
    (command.folder / "notes").mkdir()
    (command.folder / "notes" / "a.md").write_text("# Notes\n\nThe parser reads words.\n")
    command.run("index", "add", "notes")
    command.run("-p", "run echo hi", "-m", "demo", "-y")
    for words in LISTINGS:
        rows = show_in_window(command, columns, *words)
        # A word of its own, such as a path, is wider than the window and stays whole.
        assert not [row for row in rows if cell_len(row) > columns and " " in row.strip()], words
        whole = show_in_window(command, 200, *words)
        assert words_of("\n".join(rows)) == words_of("\n".join(whole)), words
    rows = show_in_window(command, columns, "stats")
    assert not [row for row in rows if cell_len(row) > columns]
    # Only a folder is cut.
    assert not [row for row in rows if "…" in row and not row.startswith(("/", "..."))]


LISTINGS = [
    ("memory", "list"),
    ("policy", "test"),
    ("policy", "suggest"),
    ("policy", "check", "echo a long command with many words && rm -rf build/everything"),
    ("index", "list"),
]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_tables_fit_into_the_window_of_a_terminal(command: Command, columns: int) -> None:
    command.run("-p", "run echo hi, and tell me at length what that printed", "-m", "demo", "-y")
    (session,) = command.run("sessions", "--json").lines
    for words in (("sessions",), ("doctor",), ("sessions", "show", session["id"])):
        rows = show_in_window(command, columns, *words)
        # A path, an id, or a command on a line of its own is not broken, so that it can be copied.
        long = [row for row in rows if cell_len(row) > columns]
        assert [row for row in long if not re.fullmatch(r"[a-z]+ +\S+| +(export|sandbur|sudo) .*", row)] == []
