"""Commands as they are typed: at a question, on a narrow screen, in a project that brings its own."""

import re
import time

import pytest
from support.screens.tmux_window import ASKS, DEAF_S, Terminal


def test_a_rule_typed_at_the_question_lets_the_call_run(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.type("/clear")
    terminal.see("/clear waits until the question is answered.")
    terminal.see(ASKS, after="waits until")
    time.sleep(DEAF_S)
    terminal.type("/permissions allow run_shell_command(touch *)")
    screen = terminal.see("exit 0", after="runs without a question in this session")
    assert "Nothing is lost" not in screen
    assert (terminal.folder / "made").exists()
    terminal.see("❯", after="model calls")
    terminal.type("/compact")
    terminal.see("A summary now replaces")
    terminal.type("/uncompact")
    terminal.see("messages are back")
    terminal.type("/exit")
    terminal.see("exit=0")
    terminal.close()
    terminal.start("-c")
    terminal.see("Resumed:")
    terminal.type("/permissions")
    terminal.see("run_shell_command(touch *)", after="Mode interactive")


def test_help_tears_no_word_on_a_narrow_screen(terminal: Terminal) -> None:
    terminal.start(width=40, height=100, COLUMNS="", LINES="")
    terminal.see("interactive")
    terminal.type("/help")
    screen = terminal.see("a message to the")
    lines = [line.strip() for line in screen.splitlines()]
    assert "/compact [FOCUS]" in lines
    assert "replace older messages by a summary" in lines
    assert "change what runs without a question" in lines


def test_what_a_project_brings_is_asked_about_and_then_there(terminal: Terminal) -> None:
    commands = terminal.folder / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("---\ndescription: Say hello\nargument-hint: NAME\n---\nhello $1")
    skill = terminal.folder / ".agents/skills/drawing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: drawing\ndescription: How we draw\n---\nUse pens.")
    agents = terminal.folder / ".claude/agents"
    agents.mkdir()
    (agents / "tester.md").write_text("---\ndescription: Tests\nmodel: lab/big\n---\nTest.")
    (terminal.folder / ".git").mkdir()
    terminal.start(HOME=str(terminal.folder / "home"))
    for name in ("drawing/SKILL.md", "greet.md (argument-hint: NAME)", "tester.md (model: lab/big)"):
        terminal.see("until one of them changes?", after=name)
        time.sleep(DEAF_S)
        terminal.keys("y")
    terminal.see("interactive · demo")
    terminal.keys("/", "g", "r")
    terminal.see("Say hello")
    terminal.keys("C-u")
    terminal.type("/greet you")
    terminal.see("I am the demo", after="hello you")
    terminal.type("/skill")
    terminal.see("How we draw")


def test_mode_theme_and_model_are_picked_with_the_arrow_keys(terminal: Terminal) -> None:
    terminal.start("-m demo", height=30)
    terminal.see("interactive · demo")
    terminal.type("/mode ")
    screen = terminal.see("Which mode?")
    assert "> interactive  asks before all calls but reading, in force now" in screen
    terminal.keys("Down", "Enter")
    terminal.see("plan · demo")
    terminal.type("/theme ")
    terminal.see("> dark   for dark terminals, in force now", after="Which theme?")
    terminal.keys("-l", "light")
    terminal.see("1 of 3; type to filter")
    terminal.keys("Enter")
    terminal.see("The theme is light in this chat")
    terminal.type("/model ")
    terminal.see("> demo", after="Which model?")
    terminal.keys("Escape")
    terminal.see("plan · demo", after="The theme is light")
    assert "Which" not in terminal.screen()
    terminal.type("/mode ")
    terminal.see("Which mode?")
    terminal.keys("C-c")
    terminal.type("/status")
    terminal.see("mode         plan")


@pytest.mark.parametrize("is_in_tmux", [True, False])
def test_copy_claims_a_clipboard_only_where_a_program_reports_it(
    terminal: Terminal, is_in_tmux: bool
) -> None:
    inside = {"TMUX": f"{terminal.next_socket},1,0"} if is_in_tmux else {}
    terminal.start("-m demo", DISPLAY="", WAYLAND_DISPLAY="", **inside)
    terminal.see("interactive · demo")
    terminal.type("hello")
    terminal.see("model call")
    terminal.type("/copy")
    screen = terminal.see("it does not report it")
    assert "Copied" not in screen
    assert ("in the buffer of tmux" in screen) is is_in_tmux
    if is_in_tmux:
        assert terminal.buffer().startswith("Hello! I am the demo")


def test_printed_choices_are_broken_between_words_in_a_narrow_window(terminal: Terminal) -> None:
    terminal.start("-m demo", width=40, TERM="dumb")
    terminal.see("❯")
    terminal.type("hello")
    terminal.see("model call")
    terminal.type("/rewind")
    rows = terminal.see("Ctrl-C goes back").splitlines()
    assert any(re.fullmatch(r"  1  [-0-9]+ [:0-9]+  hello", row.rstrip()) for row in rows), rows
