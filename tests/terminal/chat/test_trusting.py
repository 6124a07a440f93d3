"""A project's own configuration counts only after a person has said so."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Command
from support.screens.tmux_window import DEAF_S, Terminal, open_terminal

CONFIG = 'model = "demo"\nallow = ["run_shell_command(touch *)"]\n'


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / ".sandbur").mkdir()
    (tmp_path / ".sandbur/config.toml").write_text(CONFIG)
    with open_terminal(tmp_path) as window:
        yield window


def test_a_trusted_configuration_counts_from_then_on(terminal: Terminal) -> None:
    terminal.start("")
    screen = terminal.see("Use it in this folder")
    assert "! allows without a question: run_shell_command(touch *)" in screen
    assert f"sandbur trust --remove {terminal.folder}" in screen.replace("\n", "")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see("❯", after="model calls")
    terminal.type("/exit")
    terminal.see("exit=0")
    terminal.close()
    terminal.start("")
    assert "Use it" not in terminal.see("interactive · demo")


def test_without_trust_it_is_ignored_and_that_is_said(terminal: Terminal) -> None:
    terminal.start("-m demo")
    terminal.see("Use it in this folder")
    time.sleep(DEAF_S)
    terminal.keys("n")
    terminal.see("is not trusted")
    terminal.type("run touch made")
    terminal.see("wants to run")


def test_headless_ignores_it_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / ".sandbur").mkdir()
    (tmp_path / ".sandbur/config.toml").write_text(CONFIG)
    ended = Command(tmp_path).run("-p", "hello", "-m", "demo")
    assert ended.code == 0
    assert "not trusted" in ended.err


def test_what_can_do_harm_is_shown_whole_and_what_cannot_comes_after_it(tmp_path: Path) -> None:
    rule = "run_shell_command(" + "echo and on " * 40 + "*)"
    (tmp_path / ".sandbur").mkdir()
    harmless = "".join(f'"lab/m{number}" = 1000\n' for number in range(200))
    config = f'allow = ["{rule}", "run_shell_command(\\u001b[2J\\u202ex *)"]\n[context_windows]\n{harmless}'
    (tmp_path / ".sandbur/config.toml").write_text(config)
    with open_terminal(tmp_path) as terminal:
        terminal.start("-m demo")
        screen = terminal.see("Use it in this folder")
    assert rule.replace(" ", "") in screen.replace("\n", "").replace(" ", "")
    assert "\x1b" not in screen
    assert "\u202e" not in screen


def test_yolo_mode_is_acknowledged_once(tmp_path: Path) -> None:
    with open_terminal(tmp_path) as terminal:
        (tmp_path / "data/yolo-acknowledged").unlink()
        terminal.start()
        terminal.see("interactive · demo")
        terminal.type("/mode yolo")
        terminal.see("Go on in yolo mode?")
        time.sleep(DEAF_S)
        terminal.keys("n")
        terminal.see("The mode stays as it is.")
        terminal.type("/mode yolo")
        terminal.see("Go on in yolo mode?", after="stays as it is")
        time.sleep(DEAF_S)
        terminal.keys("y")
        terminal.see("Mode: yolo")
        terminal.type("/exit")
        terminal.see("exit=0")
        terminal.close()
        terminal.start("-m demo -y")
        assert "Go on in" not in terminal.see("YOLO: nothing is asked")


@pytest.mark.parametrize(("words", "env"), [("-m demo --yolo", {}), ("-m demo", {"SANDBUR_MODE": "yolo"})])
def test_a_flag_or_a_variable_is_acknowledged_too(tmp_path: Path, words: str, env: dict[str, str]) -> None:
    with open_terminal(tmp_path) as terminal:
        (tmp_path / "data/yolo-acknowledged").unlink()
        terminal.start(words, **env)
        terminal.see("Go on in yolo mode?")
        time.sleep(DEAF_S)
        terminal.keys("n")
        terminal.see("Yolo mode stays off: the mode is interactive.")
        terminal.see("interactive · demo")
        assert not (tmp_path / "data/yolo-acknowledged").exists()


def test_a_prompt_of_the_command_line_changes_no_mode(tmp_path: Path) -> None:
    with open_terminal(tmp_path) as terminal:
        terminal.start('-m demo "/mode yolo"')
        terminal.see("is accepted only from a person in the chat")
        terminal.see("exit=2")


def test_instructions_from_elsewhere_are_read_after_a_yes(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").symlink_to("/etc/hostname")
    with open_terminal(tmp_path) as terminal:
        terminal.start()
        screen = terminal.see("Read it, and tell the model what it says?")
        assert "/etc/hostname" in screen
        time.sleep(DEAF_S)
        terminal.keys("y")
        terminal.see("interactive · demo")
        terminal.type("/exit")
        terminal.see("exit=0")
        terminal.close()
        terminal.start()
        assert "Read it" not in terminal.see("interactive · demo")
    assert Command(tmp_path).run("trust").out == f"{tmp_path}/AGENTS.md\n"
