"""What is cut on a screen and what is never cut: ids, dates, durations, thinking."""

import re
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, say
from support.screens.terminal_pair import Terminal as Pair
from support.screens.tmux_window import Terminal

from sandbur.state.session import make_title

ASKED = {"COLUMNS": "", "LINES": ""}
"""The terminal is asked how wide it is, whatever the environment of the tests says."""
LONG = "a title that no terminal of eighty columns has the room for, 表示 and all"


def started(command: Command, prompt: str = LONG, folder: Path | None = None) -> str:
    """Return a new session of the demo model in a folder."""
    words = ("-p", prompt, "-m", "demo", "--output-format", "json", "-C", str(folder or command.folder))
    return command.run(*words).result["session_id"]


def listed(command: Command, columns: int) -> list[str]:
    """Return the lines of `sessions list` on a terminal of this width."""
    command.env |= {"TERM": "xterm", "PYTHONUTF8": "1", **ASKED}
    with Pair(columns=columns) as pair:
        pair.drain(command.start("sessions", "list", start_new_session=True, **pair.streams))
        return re.sub(r"\x1b\[[\d;]*m", "", pair.output.decode()).splitlines()


@pytest.mark.parametrize("columns", [60, 80, 120, 300])
def test_a_listed_session_has_its_age_and_the_beginning_of_its_id(command: Command, columns: int) -> None:
    session_id = started(command)
    _, line = listed(command, columns)
    assert line.split()[:3] == [session_id[:8], "0m", "done"]


@pytest.mark.parametrize(
    ("columns", "words"), [(60, "a title that no"), (80, "a title that no terminal of eighty")]
)
def test_a_title_takes_what_is_left_and_ends_with_an_ellipsis(
    command: Command, columns: int, words: str
) -> None:
    started(command)
    head, line = listed(command, columns)
    assert head.split()[0] == "id"
    assert words in line
    assert line.endswith("…")
    assert len(line) <= columns


def test_a_wide_terminal_shows_everything(command: Command) -> None:
    started(command)
    _, line = listed(command, 300)
    assert line.endswith(make_title(LONG))
    assert "demo" in line


def test_a_piped_list_is_not_cut(command: Command) -> None:
    session_id = started(command, LONG * 5)
    (line,) = command.run("sessions", "list").out.splitlines()
    cells = line.split("\t")
    title = command.run("sessions", "list", "--json").lines[0]["title"]
    assert (cells[0], cells[4], cells[5]) == (session_id, str(command.folder), title)


def test_the_picker_shows_this_project_first_and_all_with_a_key(command: Command, terminal: Terminal) -> None:
    project, other = command.folder / "project", command.folder / "other"
    (project / ".git").mkdir(parents=True)
    for folder in (project / "inner", other):
        folder.mkdir()
    started(command, "hello far", other)
    started(command, "hello near", project)
    started(command, "hello inner", project / "inner")
    terminal.start(f"-r -C {project}")
    screen = terminal.see("2 of 2; type to filter")
    assert "hello near" in screen
    assert "hello inner" in screen
    assert "hello far" not in screen
    assert "Tab shows all 3" in screen
    terminal.keys("Tab")
    screen = terminal.see("3 of 3; type to filter")
    assert re.search(r"other +hello far", screen)
    terminal.keys("-l", "far")
    terminal.see("1 of 3; type to filter")
    terminal.keys("Tab")
    terminal.see("0 of 2; type to filter")
    terminal.keys("Tab", "Enter")
    terminal.see("Resumed: hello far")


def test_a_project_without_sessions_is_offered_all(command: Command, terminal: Terminal) -> None:
    folder = command.folder / "new"
    folder.mkdir()
    started(command, "hello far")
    terminal.start(f"-r -C {folder}")
    screen = terminal.see("1 of 1; type to filter")
    assert "hello far" in screen
    assert "Tab" not in screen


THOUGHT = (
    "First I look at the\x1b[2J logs, then at the disk.\nThen I tell what came out, one word after the other."
)


@pytest.mark.parametrize("is_text", [True, False])
def test_thinking_flows_as_text(command: Command, is_text: bool) -> None:
    with ModelServer([say("Done." if is_text else "", reasoning=THOUGHT, pieces=40)] * 3) as server:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        told = command.run("-v", "-p", "go", "-m", "anthropic/claude-test", **keys).err.splitlines()
    assert told[:2] == THOUGHT.replace("\x1b[2J", "").splitlines()


def test_thinking_wraps_between_words_on_a_terminal(terminal: Terminal) -> None:
    thought = " ".join(f"word{number:02}" for number in range(30))
    with ModelServer([say("Done.", reasoning=thought, pieces=100, delay_s=0.01)]) as server:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        terminal.start("-v -m anthropic/claude-test", width=70, **keys, **ASKED)
        terminal.see("interactive · anthropic")
        terminal.type("go")
        screen = terminal.see("model call")
    lines = [line for line in screen.splitlines() if line.startswith("word")]
    assert " ".join(lines) == thought
    assert len(lines) == 3


def test_a_long_command_leaves_room_for_its_elapsed_time(terminal: Terminal) -> None:
    terminal.start("-m demo --yolo", width=60, **ASKED)
    terminal.see("YOLO")
    terminal.type("run sleep 600; echo one two three four five six seven eight nine ten eleven twelve")
    screen = terminal.see("shell sleep 600", after="twelve")
    line = next(line for line in screen.splitlines() if "shell sleep" in line)
    assert re.fullmatch(r". shell sleep 600; echo one two.*…  ?[\d.]+s", line)
    terminal.keys("C-c")
    terminal.see("Nothing is lost")


RAW = (
    "This is a long line of ordinary prose that is much wider than forty columns.\n"
    "https://example.com/a/very/long/path/that/cannot/be/broken/anywhere?query=more\n"
    "    def a_function(argument_one, argument_two): return argument_one + argument_two\n"
)


def test_no_word_that_fits_is_torn_in_a_narrow_window(terminal: Terminal) -> None:
    (terminal.folder / "words.txt").write_text(RAW)
    terminal.start("-m demo -v", width=40, height=60, **ASKED)
    terminal.see("❯")
    terminal.type("run cat words.txt")
    screen = terminal.see("model call")
    shown = screen.partition("exit 0")[2]
    assert all(len(row) <= 40 for row in screen.splitlines())
    for word in (word for word in RAW.split() if len(word) < 30):
        assert re.search(rf"(^|\s){re.escape(word)}(\s|$)", shown, re.M), word
    assert "  │ https://example.com/" in shown
    assert "\n  │ This is a long line of ordinary\n    prose that is much" in shown


def test_in_a_wide_window_a_line_is_broken_between_words_and_a_wider_word_stays_whole(
    terminal: Terminal,
) -> None:
    (terminal.folder / "words.txt").write_text("word " * 30 + "\n" + "x" * 150 + "\n")
    terminal.start("-m demo -v -y", width=100, height=60, **ASKED)
    terminal.see("❯")
    terminal.type("run cat words.txt")
    terminal.see("model call")
    # What the terminal wraps is joined again by it.
    shown = terminal.join_rows()
    assert f"  │ {' '.join(['word'] * 19)}\n    {' '.join(['word'] * 11)}\n" in shown
    assert f"  │ {'x' * 150}\n" in shown


@pytest.mark.parametrize("width", [40, 100])
def test_the_picker_fits_the_window_and_filters(terminal: Terminal, command: Command, width: int) -> None:
    started(command, "hello to the parser")
    newest = started(command, LONG)
    terminal.start("-r", width=width, height=24, **ASKED)
    screen = terminal.see("you: a title that no")
    assert "Resume which session?" in screen
    rows = screen.splitlines()
    assert all(len(row) <= width for row in rows)
    taken = next(row for row in rows if row.startswith("> "))
    assert (newest[:8] in taken, taken.rstrip().endswith("...")) == (width == 100, True)
    terminal.keys("-l", "parser")
    terminal.see("1 of 2; type to filter")
    terminal.keys("Enter")
    terminal.see("❯ hello to the parser", after="Resumed: ")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_list_of_slash_commands_tears_no_word(terminal: Terminal, width: int) -> None:
    terminal.start("-m demo", width=width, height=140, **ASKED)
    terminal.see("❯")
    terminal.type("/help ")
    screen = terminal.see("❯", after="Anything else is a message")
    shown = screen.rpartition("❯ /help")[2].rpartition("Anything else")[0]
    assert "show the commands" in " ".join(shown.split())
    # What the terminal itself has to wrap, it shows joined here.
    assert shown.rstrip() in "\n".join(line.rstrip() for line in terminal.join_rows().splitlines())


@pytest.mark.parametrize("width", [60, 80])
def test_doctor_steps_and_status_tear_no_word(terminal: Terminal, width: int) -> None:
    terminal.start("-m demo", width=width, height=60, **ASKED)
    terminal.see("❯")
    terminal.type("hello")
    terminal.see("❯", after="model call")
    for command, whole in (
        ("/steps ", ("ANTHROPIC_API_KEY=...`", "agent: Hello!")),
        ("/doctor ", ("GEMINI_API_KEY,", "OPENROUTER_API_KEY,", "DASHSCOPE_API_KEY")),
        ("/status ", ("tokens out", "stands at")),
    ):
        terminal.type(command)
        screen = terminal.see("❯", after=whole[-1])
        shown = screen.rpartition(f"❯ {command.strip()}")[2].rpartition("❯")[0]
        assert all(part in " ".join(shown.split()) for part in whole)
        # What the terminal itself has to wrap, it shows joined here.
        assert shown.rstrip() in "\n".join(line.rstrip() for line in terminal.join_rows().splitlines())
