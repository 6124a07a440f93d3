"""The command runs the hooks of the configuration."""

from pathlib import Path

import pytest
from support.commands.command import Command

pytestmark = pytest.mark.slow

JSON = ("--output-format", "json")


def configure(command: Command, text: str) -> None:
    path = Path(command.env["HOME"], ".config/sandbur/config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_hook_of_the_users_configuration_denies_a_call(command: Command) -> None:
    configure(command, '[[hooks.PreToolUse]]\nhooks = [{command = "echo no writing >&2; exit 2"}]\n')
    ended = command.run("-p", "write two into a.txt", "-m", "demo", "--yolo", *JSON)
    assert (ended.code, ended.result["status"]) == (3, "denied")
    assert not (command.folder / "a.txt").exists()


def test_the_end_of_the_command_is_told(command: Command) -> None:
    configure(command, '[[hooks.SessionEnd]]\nhooks = [{command = "cat > ended.json"}]\n')
    assert command.run("-p", "hello", "-m", "demo", *JSON).code == 0
    assert '"hook_event_name": "SessionEnd"' in (command.folder / "ended.json").read_text()


def test_hooks_that_cannot_be_read_end_the_command_with_one_sentence(command: Command) -> None:
    configure(command, '[[hooks.PreToolUze]]\nhooks = [{command = "x"}]\n')
    ended = command.run("-p", "hello", "-m", "demo")
    assert (ended.code, ended.out) == (52, "")
    assert "`hooks.PreToolUze`" in ended.err
