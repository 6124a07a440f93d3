"""`sandbur --agent FILE`: who may name a file, what it may decide, and what a stored session keeps."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.agent.config.trust import trust

pytestmark = pytest.mark.slow

TEXT = "flows: [{name: f, trigger: hours, reply: Nine.}]\n"
CONFIG = 52
WIDE = "mode: auto-edit\nrules: {allow: [run_shell_command]}\ntools: [run_shell_command]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(TEXT)
    return path


def project(command: Command, text: str) -> None:
    """Write the configuration of a trusted project."""
    folder = command.folder / ".sandbur"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)
    trust(command.folder, command.env)


def test_a_session_keeps_its_file_and_says_what_became_of_it(command: Command, file: Path) -> None:
    assert command.run("--agent", "agent.yaml", "-m", "demo", "-p", "hours").out == "Nine.\n"
    again = command.run("-c", "-p", "hours", COLUMNS="300")
    assert (again.out, "changed" in again.err) == ("Nine.\n", False)
    file.write_text(TEXT.replace("Nine", "Ten"))
    for words in (("-c",), ("-c", "--agent", "agent.yaml")):
        changed = command.run(*words, "-p", "hours", COLUMNS="300")
        assert changed.out == "Nine.\n"
        assert (
            f"{file} has changed since this session began: it goes on with what it began with." in changed.err
        )
    file.unlink()
    gone = command.run("-c", "-p", "hours", COLUMNS="300")
    assert (gone.out, f"{file} is gone" in gone.err) == ("Nine.\n", True)


def test_trust_that_is_taken_back_counts_for_stored_sessions(command: Command, file: Path) -> None:
    assert command.run("--agent", "agent.yaml", "-m", "demo", "-p", "hours").code == 0
    assert command.run("trust", "--remove", "agent.yaml").code == 0
    again = command.run("-c", "-p", "hours", COLUMNS="300")
    assert "which is not trusted here. Resume it with --agent" in again.err
    assert again.out != "Nine.\n"


def test_a_project_names_a_file_that_counts_once_its_version_is_trusted(command: Command, file: Path) -> None:
    project(command, 'agent = "agent.yaml"\n')
    refused = command.run("-m", "demo", "-p", "hours", COLUMNS="300")
    assert refused.code == CONFIG
    assert f"names the agent file {file}, but its present version is not trusted." in refused.err
    assert command.run("--agent", "agent.yaml", "-m", "demo", "-p", "hours").out == "Nine.\n"
    assert command.run("-m", "demo", "-p", "hours").out == "Nine.\n"
    file.write_text(TEXT.replace("Nine", "Ten"))
    assert command.run("-m", "demo", "-p", "hours").code == CONFIG


def test_a_projects_file_only_narrows(command: Command, file: Path) -> None:
    file.write_text(WIDE)
    project(command, 'agent = "agent.yaml"\nmax_turns = 3\n')
    command.run("--agent", "agent.yaml", "-m", "demo", "-p", "run echo hi")
    asked = command.run("-m", "demo", "-p", "run echo a > b", COLUMNS="300")
    assert f"Ignored `rules.allow` in {file}" in asked.err
    assert f"Ignored `mode` in {file}: your own is interactive." in asked.err
    assert asked.code == 3, asked
    assert not (command.folder / "b").exists()


@pytest.mark.parametrize("mode", ["mode: auto-edit\n", ""])
def test_a_file_is_no_looser_than_what_the_person_set(command: Command, file: Path, mode: str) -> None:
    file.write_text(f"{mode}tools: [run_shell_command]\n")
    words = ("--agent", "agent.yaml", "-m", "demo", "-p", "run touch x")
    ended = command.run(*words, COLUMNS="300", SANDBUR_MODE="plan")
    assert (f"Ignored `mode` in {file}: your own is plan." in ended.err) == bool(mode)
    assert "plan mode only looks" in ended.out
    assert not (command.folder / "x").exists()


def test_a_mistake_is_one_sentence(command: Command, file: Path) -> None:
    file.write_text("basic_settings:\n  tonne: friendly\n")
    ended = command.run("--agent", "agent.yaml", "-p", "hi", COLUMNS="300")
    assert (ended.code, ended.out) == (CONFIG, "")
    assert ended.err == (
        f"sandbur: {file}, line 2: `basic_settings.tonne` is not a key here. Did you mean `tone`?\n"
    )


def test_a_file_that_is_not_there_is_a_wrong_flag(command: Command) -> None:
    ended = command.run("--agent", "gone.yaml", "-p", "hi", COLUMNS="300")
    assert (ended.code, "does not exist" in ended.err) == (2, True)


def test_the_schema_is_printed_for_editors(command: Command) -> None:
    schema = json.loads(command.run("config", "schema").out)
    assert {"basic_settings", "action_books", "tools", "flows"} <= set(schema["properties"])
