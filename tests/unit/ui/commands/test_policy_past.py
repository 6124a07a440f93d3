"""`sandbur policy test` and `suggest` on a store that real runs filled."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from support.commands.command import Command

ALLOW = 'allow = ["run_shell_command(touch a *)"]\n'


def asked(command: Command, line: str, answer: str, *words: str) -> None:
    """Let the demo model ask for a command, and answer."""
    ended = command.run("-m", "demo", "-p", f"run {line}", "--output-format", "json")
    assert ended.result["status"] == "needs_approval"
    if answer:
        command.run(answer, ended.result["session_id"], *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with four questions of one kind, three others, and a run in yolo mode."""
    command = Command(tmp_path_factory.mktemp("past"))
    for line in ("touch a 1", "touch a 1", "touch a 2", "touch a 3"):
        asked(command, line, "approve")
    asked(command, "touch b 1", "deny")
    asked(command, "touch b 1", "approve")
    asked(command, "touch c", "")
    assert command.run("-m", "demo", "-y", "-p", "run touch free").code == 0
    return command.folder / "data"


@pytest.fixture
def past(made: Path, command: Command) -> Command:
    """Return a copy of that store."""
    shutil.copytree(made, command.folder / "data")
    return command


def verdicts(command: Command, *words: str) -> dict[str, int]:
    found = json.loads(command.run("policy", "test", *words, "--json").out)
    return {f"{one['then']} {one['now']}": one["calls"] for one in found["verdicts"]}


def test_the_same_rules_say_what_was_said(past: Command) -> None:
    ended = past.run("policy", "test")
    assert ended.code == 0
    assert ended.out.startswith("8 calls since ")
    assert "0 would be judged differently." in ended.out
    assert verdicts(past) == {"allowed allow": 1, "approved ask": 5, "declined ask": 1, "open ask": 1}


def test_other_rules_show_each_call_that_they_judge_differently_once(past: Command, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(ALLOW + 'deny = ["run_shell_command(touch free)"]\n')
    ended = past.run("policy", "test", "rules.toml")
    assert "5 would be judged differently." in ended.out
    assert "     4  asked, approved -> allow\n" in ended.out
    assert "     2  asked, approved -> allow: run_shell_command touch a 1\n" in ended.out
    assert ended.out.count("touch a 2") == 1
    assert "allowed -> deny: run_shell_command touch free" in ended.out
    assert "denied by rule run_shell_command(touch free)" in ended.out


def test_the_rules_of_a_file_take_the_place_of_all_others(past: Command, tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text("")
    rule = ("--deny", "run_shell_command")
    assert verdicts(past, *rule)["allowed deny"] == 1
    assert verdicts(past, "none.toml", *rule)["allowed allow"] == 1


def test_a_mode_that_is_named_holds_for_all_calls(past: Command) -> None:
    assert verdicts(past, "--mode", "yolo") == {
        "allowed allow": 1, "approved allow": 5, "declined allow": 1, "open allow": 1
    }  # fmt: skip


def test_as_json_it_names_each_difference_with_its_number(past: Command, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(ALLOW)
    found = json.loads(past.run("policy", "test", "rules.toml", "--json").out)
    first = found["differences"][0]
    assert (first["calls"], first["then"], first["now"]) == (2, "approved", "allow")
    assert (first["tool"], first["subject"]) == ("run_shell_command", "touch a 1")
    assert first["rule"] == "run_shell_command(touch a *)"
    assert (found["changed"], found["calls_left_out"]) == (4, 0)


def test_only_the_calls_of_the_time_that_is_named_count(past: Command) -> None:
    assert past.run("policy", "test", "--last", "0s").out.startswith("0 calls since ")


@pytest.mark.parametrize(
    ("text", "code"), [(None, 2), ("allow = 3", 52), ('allow = ["x("]', 52), ('deny = ["read_fil"]', 52)]
)
def test_a_file_that_holds_no_rules_is_refused(
    command: Command, tmp_path: Path, text: str | None, code: int
) -> None:
    if text is not None:
        (tmp_path / "rules.toml").write_text(text)
    ended = command.run("policy", "test", "rules.toml")
    assert (ended.code, ended.out) == (code, "")


def test_a_rule_is_suggested_that_saves_questions_and_lets_nothing_denied_through(past: Command) -> None:
    ended = past.run("policy", "suggest")
    assert ended.code == 0
    assert tomllib.loads(ended.out) == {"allow": ["run_shell_command(touch a *)"]}
    assert "# Of 5 questions since " in ended.out
    assert "# 4 questions" in ended.out


def test_what_is_suggested_saves_what_it_says(past: Command, tmp_path: Path) -> None:
    found = json.loads(past.run("policy", "suggest", "--json").out)
    (tmp_path / "rules.toml").write_text(past.run("policy", "suggest").out)
    saved = sum(rule["saved"] for rule in found["rules"])
    assert verdicts(past, "rules.toml")["approved allow"] == saved == 4


def test_a_rule_that_would_have_passed_what_was_denied_is_not_suggested(past: Command) -> None:
    asked(past, "touch a 9", "deny")
    found = json.loads(past.run("policy", "suggest", "--json").out)
    assert found["rules"] == [{"rule": "run_shell_command(touch a 1)", "saved": 2}]
    assert found["not_suggested"] == ["run_shell_command(touch a *)"]


@pytest.mark.parametrize("line", ["rm -f x", "python3 x.py", "bash -c true", "env true", "sudo -n true"])
def test_no_rule_is_suggested_for_what_can_do_anything(command: Command, line: str) -> None:
    for _ in range(2):
        asked(command, line, "approve", "--record-only")
    found = json.loads(command.run("policy", "suggest", "--json").out)
    assert found["questions"] == 2
    assert found["rules"] == []


def test_an_edited_approval_speaks_for_no_rule(command: Command, tmp_path: Path) -> None:
    (tmp_path / "edit.json").write_text('{"command": "touch b"}')
    for _ in range(2):
        asked(command, "touch a 1", "approve", "--edit", "edit.json")
    assert json.loads(command.run("policy", "suggest", "--json").out)["rules"] == []


def test_an_empty_store_has_nothing_to_say(command: Command) -> None:
    assert command.run("policy", "test").out.startswith("0 calls since ")
    assert command.run("policy", "suggest").out.startswith("# Of 0 questions since ")
