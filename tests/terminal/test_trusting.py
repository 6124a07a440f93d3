"""A project's own configuration counts only after a person has said so."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from tmux_window import DEAF_S, Terminal, opened

CONFIG = 'model = "demo"\nallow = ["run_shell_command(touch *)"]\n'


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / ".sandbur").mkdir()
    (tmp_path / ".sandbur/config.toml").write_text(CONFIG)
    with opened(tmp_path) as window:
        yield window


def test_a_trusted_configuration_counts_from_then_on(terminal: Terminal) -> None:
    terminal.start("")
    screen = terminal.see("Use it in this folder")
    assert "touch *" in screen
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
