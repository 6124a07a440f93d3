"""Shells complete the sessions of the store; what stands in titles does nothing to shell or screen."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.command import Command
from support.required import needs
from support.screens.terminal_pair import Terminal

from sandbur.ui.commands.setup.completion.session_words import lines

HOSTILE = "$(touch owned) `touch owned` ; touch owned \x1b]0;owned\x07 'quoted' \"too\""
ONE, TWO, WAITS = (f"{digit * 8}-0000-4000-8000-{digit * 12}" for digit in "123")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return the command in a folder with three sessions, of which no test changes anything."""
    command = Command(tmp_path_factory.mktemp("sessions"))
    for session_id, title in ((ONE, "mend the parser"), (TWO, HOSTILE)):
        assert command.run("-p", "hello", "-m", "demo", "--session-id", session_id).code == 0
        assert command.run("sessions", "rename", session_id, title).code == 0
    command.run("-p", "run touch made", "-m", "demo", "--session-id", WAITS)
    (command.folder / "sqlite3.py").write_text("open('owned', 'w')")
    (command.folder / "sandbur").mkdir()
    (command.folder / "sandbur" / "__init__.py").write_text("open('owned', 'w')")
    return command


COMPLETED = [
    ("sandbur -r ", {ONE[:8], TWO[:8], WAITS[:8]}),
    ("sandbur -p --resume 11", {ONE[:8]}),
    ("sandbur sessions show 2", {TWO[:8]}),
    ("sandbur approve ", {WAITS[:8]}),
    ("sandbur deny 3", {WAITS[:8]}),
    ("sandbur settle 1", set[str]()),
    ("sandbur fork 1", {ONE[:8]}),
    ("sandbur replay 2", {TWO[:8]}),
    ("sandbur approve --al", {"--all", "--allow"}),
]


def shell(command: Command, *words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, cwd=command.folder, env=command.env, timeout=60
    )
    assert done.stderr == ""
    assert not (command.folder / "owned").exists()
    return done.stdout


def in_bash(command: Command, line: str) -> set[str]:
    script = command.folder / "completion"
    script.write_text(command.run("completion", "bash").out)
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    asked = (
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sandbur; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    return set(shell(command, "bash", "--norc", "-c", f"source {script}; {asked}").split())


def in_fish(command: Command, line: str) -> dict[str, str]:
    script = command.folder / "completion.fish"
    script.write_text(command.run("completion", "fish").out)
    shown = shell(command, "fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
    return {word: about for word, _, about in (row.partition("\t") for row in shown.splitlines())}


@needs("bash")
@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_bash_completes_sessions(sessions: Command, line: str, expected: set[str]) -> None:
    assert in_bash(sessions, line) & {*expected, ONE[:8], TWO[:8], WAITS[:8]} == expected - {"--allow"}


@needs("fish")
@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_fish_completes_sessions(sessions: Command, line: str, expected: set[str]) -> None:
    assert {*in_fish(sessions, line)} & {*expected, ONE[:8], TWO[:8], WAITS[:8]} == expected - {"--allow"}


@needs("bash")
@needs("fish")
def test_a_piece_of_a_title_finds_the_session(sessions: Command) -> None:
    assert in_bash(sessions, "sandbur -r parser") == {ONE[:8]}
    assert in_bash(sessions, "sandbur -r TOUCH") == {TWO[:8], WAITS[:8]}
    assert in_fish(sessions, "sandbur -r mend") == {"mend the parser": ONE[:8]}
    assert in_fish(sessions, "sandbur -r ")[TWO[:8]].startswith("$(touch owned)")
    assert "\x1b" not in "".join(in_fish(sessions, "sandbur -r ").values())


@needs("zsh")
def test_zsh_completes_sessions(sessions: Command) -> None:
    """In a terminal: zsh completes nowhere else."""
    folder = sessions.folder
    (folder / "completion").write_text(sessions.run("completion", "zsh").out)
    (folder / ".zshrc").write_text(
        f"PS1='ready> '\nautoload -U compinit && compinit -u\nsource {folder}/completion\n"
        "sandbur() { print ran $* }\n"
    )
    env = {**sessions.env, "ZDOTDIR": str(folder), "TERM": "dumb"}
    with Terminal(columns=200) as terminal:
        zsh = subprocess.Popen(["zsh", "-i"], env=env, cwd=folder, start_new_session=True, **terminal.streams)
        terminal.see("ready> ")
        terminal.type("sandbur approve \t")
        terminal.see(WAITS[:8])
        terminal.type("\x15sandbur -r 1\t")
        terminal.see(ONE[:8])
        terminal.type("\x15sandbur fork pars\t")
        # The line is drawn over: what counts is what runs.
        terminal.type("\r")
        terminal.see(f"ran fork {ONE[:8]}")
        terminal.type("sandbur -r \t\t")
        terminal.see("$(touch owned) `touch owned`")
        terminal.type("\x15exit\r")
        terminal.drain(zsh)
    assert b"\x1b]0;" not in terminal.output
    assert not (folder / "owned").exists()


def test_no_store_and_a_broken_one_offer_nothing_and_leave_nothing(command: Command, tmp_path: Path) -> None:
    asked = [sys.executable, "-P", "-m", "sandbur.ui.cli.main", "_complete", "zsh", "-r", ""]
    assert shell(command, *asked) == ""
    assert not (command.folder / "data").exists()
    (tmp_path / "junk.db").write_text("no database" * 500)
    command.env["SANDBUR_STORE"] = f"sqlite:///{tmp_path}/junk.db"
    assert shell(command, *asked) == ""


def test_what_a_shell_asks_imports_neither_the_agent_nor_the_store() -> None:
    asked = (
        "import sys; from sandbur.ui.cli.main import main; main(['_complete', 'zsh', '-r', '']);"
        " print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"asyncio", "pydantic", "rich", "burr", "ssl", "sandbur.state.store"})


def test_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    from sandbur.state.maintenance.session_names import NamedSession

    near = [NamedSession(f"12345678-0000-{n}", "t", "done") for n in "ab"]
    assert [line.split("\t")[0] for line in lines("zsh", near, "")] == ["12345678-0000-a", "12345678-0000-b"]
