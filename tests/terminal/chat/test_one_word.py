"""A single word that sounds like a command of some other agent is not sent to the model unseen."""

from contextlib import suppress
from pathlib import Path

import pytest
from support.commands.command import KEYS, Command
from support.screens.tmux_window import Terminal

from sandbur.state.errors import UsageError
from sandbur.ui.chat.slash.table import COMMANDS as SLASH_COMMANDS
from sandbur.ui.cli.arguments import parse
from sandbur.ui.cli.grammar import COMMANDS, command_class
from sandbur.ui.cli.lone_words import INSTEAD
from sandbur.ui.commands.review.trials.command import TRIAL_ACTIONS

WORDS = ("init", "login", "logout", "models", "upgrade")


@pytest.mark.parametrize("word", WORDS)
def test_a_command_of_other_agents_is_no_prompt(word: str) -> None:
    for words in ([word], ["--mode", "yolo", word], ["-v", word]):
        with pytest.raises(UsageError) as caught:
            parse(words)
        assert caught.value.message == f"There is no command `{word}`."
        assert f"sandbur -- {word}" in caught.value.hint


def list_words_like_commands() -> set[str]:
    """Return every word that does something in the chat, behind a command, or in another agent."""
    actions = {action for name in COMMANDS for action in command_class(name).ACTIONS}
    slash = {name for one in SLASH_COMMANDS for name in (one.name, *one.aliases)}
    return {*actions, *slash, *TRIAL_ACTIONS, *INSTEAD} - {*COMMANDS, "help", "version"}


def test_no_word_that_sounds_like_a_command_is_sent_unasked() -> None:
    accepted: list[str] = []
    for word in list_words_like_commands():
        for typed in (word, word.upper(), word + word[-1] if len(word) > 4 else word):
            assert parse(["-p", typed]).prompt == typed
            with suppress(UsageError):
                parse([typed])
                accepted.append(typed)
    assert accepted == []


def test_a_word_that_sounds_like_a_command_is_sent_after_one_question(terminal: Terminal) -> None:
    terminal.start("undo -m demo")
    terminal.see("[y/N]")
    terminal.type("n")
    terminal.see("exit=2")
    assert "model call" not in terminal.screen()
    terminal.start("undo -m demo")
    terminal.see("[y/N]")
    terminal.type("y")
    terminal.see("model call")


@pytest.mark.parametrize("word", ["继续", "撤销", "帮助", "登录", "Hilfe", "weiter", "Help", "/help"])
def test_a_command_in_another_language_or_with_capitals_is_no_prompt(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse([word])
    assert caught.value.message == f"There is no command `{word}`."
    for words in (["-p", word], ["-c", word], ["--", word], [f"{word} hello"]):
        assert word in str(parse(words).prompt)
    if word in ("Help", "/help", "Hilfe", "帮助"):
        assert "`sandbur help`" in caught.value.hint


@pytest.mark.parametrize("key", ["Enter", "C-d", "C-c"])
def test_what_follows_a_question_that_was_left_begins_on_a_line_of_its_own(
    terminal: Terminal, key: str
) -> None:
    terminal.start("undo -m demo", width=40)
    terminal.see("[y/N]")
    terminal.keys(key)
    rows = terminal.see("exit=").splitlines()
    assert any(row.rstrip().endswith(("[y/N]", "[y/N] ^C")) for row in rows), rows
    assert "Send `undo` to the model as a message?" in rows  # the question is broken between words


@pytest.mark.parametrize("words", [(), ("aply",), ("undoo",), ("show",), ("rm",)])
def test_a_trial_without_a_task_is_none(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = Command(tmp_path)
    ended = command.run("try", *words, "-m", "demo")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "sandbur try" in ended.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("word", [*WORDS, "help", "version", "sesions"])
def test_such_a_word_can_be_sent_all_the_same(word: str) -> None:
    for words in (["-p", word], ["-c", word], ["--", word], ["--yolo", "--", word]):
        assert parse(words).prompt == word
    assert parse([f"{word} this project"]).prompt == f"{word} this project"


@pytest.mark.parametrize("words", [["version"], ["-v", "version"]])
def test_version_is_a_word_too(words: list[str]) -> None:
    assert (parse(words).version, parse(words).prompt) == (True, None)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["help"], "usage: sandbur [-h]"),
        (["--yolo", "help"], "usage: sandbur [-h]"),
        (["help", "approve"], "usage: sandbur approve"),
    ],
)
def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str], words: list[str], start: str) -> None:
    with pytest.raises(SystemExit) as left:
        parse(words)
    assert left.value.code in (0, None)
    assert capsys.readouterr().out.startswith(start)


def test_words_that_are_refused_are_no_commands() -> None:
    assert not set(INSTEAD) & set(COMMANDS)


@pytest.mark.parametrize("word", ["help", "version"])
def test_help_and_version_are_printed_without_a_model(tmp_path: Path, word: str) -> None:
    command = Command(tmp_path)
    assert command.run(word) == command.run(f"--{word}")


def test_a_refused_word_starts_nothing(tmp_path: Path) -> None:
    command = Command(tmp_path)
    ended = command.run("login", "-m", "demo")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "ANTHROPIC_API_KEY" in ended.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_exit_and_quit_alone_leave_the_chat(terminal: Terminal, word: str) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type(f"{word} code of false?")
    terminal.see("model call")
    terminal.type(word)
    screen = terminal.see("exit=0")
    assert screen.count("model call") == 1


def test_a_chat_without_any_model_is_the_demo_and_says_so(terminal: Terminal) -> None:
    terminal.start("", OLLAMA_HOST="http://127.0.0.1:9", **dict.fromkeys(KEYS, ""))
    terminal.see("interactive · demo")
    terminal.see("No model is set up, so this is the demo")
    lines = terminal.see("  ollama serve").splitlines()
    assert all(f"  export {key}=..." in lines for key in KEYS)
