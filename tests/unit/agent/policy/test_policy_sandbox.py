"""What auto-edit mode lets pass because a sandbox without a network is under it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.actions.ports import Verdict
from sandbur.actions.tools.registry import builtin_tools, load_declared_traits
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules


def verdict(workspace: Path, command: str, mode: Any = "auto-edit", is_confined: bool = True) -> str:
    deny = parse_rules(("run_shell_command(make deploy*)",), load_declared_traits())
    policy = Policy((), deny, workspace, is_confined=is_confined)
    tool = builtin_tools()["run_shell_command"]
    return policy.judge(tool, tool.parse(json.dumps({"command": command})), mode).decision


INSIDE = (
    "npm test",
    "make",
    "mkdir -p build && rm -f build/b",
    "git commit -m text",
    "rm -f build/a",
    "make < Makefile",
    "echo $?; make X=$X $(pwd)/x",
    "pytest > /tmp/out 2>/dev/null",
    "ruff check *",
)


@pytest.mark.parametrize("command", INSIDE)
def test_what_is_about_the_workspace_alone_passes_in_auto_edit(tmp_path: Path, command: str):
    assert verdict(tmp_path, command) == "allow"
    assert verdict(tmp_path, command, is_confined=False) == "ask"
    assert verdict(tmp_path, command, "interactive") == "ask"
    assert verdict(tmp_path, command, "plan") == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cp /etc/passwd .",
        "tar -cf a.tar ~",
        "make --file=/tmp/elsewhere/Makefile",
        "cp .env a",
        "echo x > .git/hooks/pre-commit",
        "rm -rf .git",
        "rm -rf ~",
        "$PROGRAM x",
        "cd .. && make",
    ],
)
def test_what_leads_elsewhere_or_to_what_is_guarded_still_asks(tmp_path: Path, command: str):
    assert verdict(tmp_path, command) == "ask"


def test_a_deny_rule_holds_in_a_sandbox(tmp_path: Path):
    assert verdict(tmp_path, "make deploy") == "deny"


def sandboxed(workspace: Path, command: str, mode: Any = "interactive", ask: tuple[str, ...] = ()) -> Verdict:
    allow = parse_rules(("sandboxed(run_shell_command)",), load_declared_traits())
    deny = parse_rules(("run_shell_command(make deploy*)",), load_declared_traits())
    policy = Policy(allow, deny, workspace, ask=parse_rules(ask))
    tool = builtin_tools()["run_shell_command"]
    return policy.judge(tool, tool.parse(json.dumps({"command": command})), mode)


@pytest.mark.parametrize("command", INSIDE)
def test_a_rule_lets_commands_pass_that_then_run_in_a_sandbox(tmp_path: Path, command: str):
    found = sandboxed(tmp_path, command)
    assert (found.decision, found.in_sandbox) == ("allow", True)
    assert sandboxed(tmp_path, command, "plan").decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cp /etc/passwd .",
        "cat .env",
        "cat < .env",
        "cat < ../x",
        "python x.py < /etc/hostname",
        "cat .e*",
        "cat ./.[e]n?",
        "cat link",
        "cat $HOME/notes.txt",
        "cat ${HOME}/notes.txt",
        "tar -cf a.tar $HOME",
        "echo x > .git/hooks/pre-commit",
        "echo x > AGENTS.md",
        "rm -rf ~",
        "$P x",
    ],
)
def test_what_leads_elsewhere_or_to_what_is_guarded_asks_in_spite_of_the_rule(tmp_path: Path, command: str):
    (tmp_path / ".env").write_text("x")
    (tmp_path / "link").symlink_to(".env")
    assert sandboxed(tmp_path, command).decision == "ask"


def test_ask_and_deny_rules_hold_in_spite_of_the_rule(tmp_path: Path):
    assert sandboxed(tmp_path, "make deploy").decision == "deny"
    assert sandboxed(tmp_path, "npm test", ask=("run_shell_command(npm *)",)).decision == "ask"


def test_what_only_reads_needs_no_sandbox(tmp_path: Path):
    found = sandboxed(tmp_path, "ls")
    assert (found.decision, found.in_sandbox, found.by_proof) == ("allow", False, True)


def test_the_rule_is_about_no_other_tool_and_idle_for_an_older_version(tmp_path: Path):
    [rule] = parse_rules(("sandboxed(run_shell_command)",), load_declared_traits())
    assert not any(map(rule.names, load_declared_traits()))
    tool = builtin_tools()["write_file"]
    arguments = tool.parse(json.dumps({"path": "a", "content": "x"}))
    assert Policy((rule,), (), tmp_path).judge(tool, arguments, "interactive").decision == "ask"
