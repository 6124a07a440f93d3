"""`--help`, the manual, and completion in real shells."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.commands.command import Command
from support.required import needs
from support.screens.terminal_pair import Terminal

from sandbur.agent.session.run_result import EXIT_CODES as OF_RUNS
from sandbur.state import errors
from sandbur.state.errors import UsageError
from sandbur.ui.cli.arguments import parse
from sandbur.ui.cli.grammar import COMMANDS, command_class, parser_for
from sandbur.ui.commands.setup.help import EXIT_CODES, variables

NAMES = ("chat", *COMMANDS)


def words_of(line: str) -> list[str]:
    words = shlex.split(re.split(r"\s[|<>]\s", line)[-1 if "| sandbur" in line else 0])
    return words[words.index("sandbur") + 1 :] if "sandbur" in words else []


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_a_command_line_that_can_be_read(name: str) -> None:
    command = command_class(name)
    examples = [*command.EXAMPLES, *(one for action in command.ACTIONS.values() for one in action.examples)]
    for line, _ in examples:
        if words := words_of(line):
            parse(words)


@pytest.mark.parametrize("name", [name for name in NAMES if command_class(name).ACTIONS])
def test_an_action_has_a_help_of_its_own_with_flags_that_there_are(name: str, command: Command) -> None:
    known = set(parser_for(name).options)
    for action, entry in command_class(name).ACTIONS.items():
        assert set(entry.flags) <= known
        shown = command.run(name, action, "--help")
        assert shown.code == 0
        assert shown.out.startswith(f"usage: sandbur {name} {action}")
        others = {flag for one in command_class(name).ACTIONS.values() for flag in one.flags} - set(
            entry.flags
        )
        assert [flag for flag in others if re.search(rf"  {flag}\b(?!-)", shown.out)] == []


def test_every_exit_code_is_explained() -> None:
    explained = {code for code, _ in EXIT_CODES}
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    of_errors = {kind.exit_code for kind in kinds if issubclass(kind, errors.SandburError)}
    assert of_errors | set(OF_RUNS.values()) | {0, 2, 129, 130, 143} == explained


def test_the_manual_names_every_command_flag_and_variable(command: Command) -> None:
    manual = command.run("manual").out
    for name in COMMANDS:
        assert f"SANDBUR {name.upper()}\n" in manual
        for flag in parser_for(name).options:
            assert flag in manual
    for variable, _ in variables():
        assert variable in manual


@needs("man")
def test_the_man_page_is_one(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "sandbur.1"
    page.write_text(command.run("manual", "--man").out)
    shown = subprocess.run(
        ["man", "-l", str(page)],
        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    assert "carry an interrupted run on from the exact action" in shown.stdout
    assert "sandbur config set --project max_budget_usd 2" in shown.stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--dangerously-skip-permissions x", "Did you mean -y?"),
        ("-p x --permission-mode plan", "Did you mean --mode?"),
        ("-p x --json", "Did you mean --output-format json?"),
        ("approve x --json", "Did you mean --output-format json?"),
        ("-p x --image a.png", "Did you mean --attach?"),
        ("--append-system-prompt x", "Did you mean an AGENTS.md in the folder?"),
        ("exec do it", 'To run without a chat: sandbur -p "..."'),
        ("run", 'To run without a chat: sandbur -p "..."'),
    ],
)
def test_flags_of_other_agents_are_answered_with_ours(line: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(line.split())
    assert says in str(refused.value)


COMPLETED = [
    ("sandbur sess", {"sessions"}),
    ("sandbur sessions ", {"list", "show", "rename", "verify", "delete", "prune", "export", "import"}),
    ("sandbur --mode ", {"interactive", "plan", "auto-edit", "yolo"}),
    ("sandbur sessions export --format h", {"html"}),
    ("sandbur -p --max-b", {"--max-budget-usd"}),
    ("sandbur --store x config un", {"unset"}),
    ("sandbur completion f", {"fish"}),
    ("sandbur test a", {"add"}),
    ("sandbur config get m", set[str]()),
    ("sandbur sessions import no", {"notes.md"}),
    ("sandbur --attach no", {"notes.md"}),
]


@needs("bash")
@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_bash_completes_it(command: Command, tmp_path: Path, line: str, expected: set[str]) -> None:
    (tmp_path / "notes.md").touch()
    script = tmp_path / "completion"
    script.write_text(command.run("completion", "bash").out)
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    asked = (
        f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sandbur;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


@needs("fish")
@pytest.mark.parametrize(("line", "expected"), COMPLETED)
def test_fish_completes_it(command: Command, tmp_path: Path, line: str, expected: set[str]) -> None:
    (tmp_path / "notes.md").touch()
    script = tmp_path / "completion.fish"
    script.write_text(command.run("completion", "fish").out)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert ({row.split("\t")[0] for row in done.stdout.splitlines()}, done.stderr) == (expected, "")


@needs("zsh")
def test_zsh_completes_it(command: Command, tmp_path: Path) -> None:
    """In a terminal: zsh completes nowhere else."""
    (tmp_path / "completion").write_text(command.run("completion", "zsh").out)
    (tmp_path / ".zshrc").write_text(
        f"PS1='ready> '\nautoload -U compinit && compinit -u\nsource {tmp_path}/completion\n"
    )
    env = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb", "HOME": str(tmp_path)}
    with Terminal(columns=200) as terminal:
        shell = subprocess.Popen(
            ["zsh", "-i"], env=env, cwd=tmp_path, start_new_session=True, **terminal.streams
        )
        terminal.see("ready> ")
        terminal.type("sandbur sessions pru\t--older\t")
        terminal.see("--older-than")
        terminal.type("\x15sandbur --effort xh\t")
        terminal.see("xhigh")
        terminal.type("\x15sandbur sessions import .zsh\t")
        terminal.see("import .zshrc")
        terminal.type("\x15exit\r")
        terminal.drain(shell)
