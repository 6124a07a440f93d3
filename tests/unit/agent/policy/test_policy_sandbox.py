"""What auto-edit mode lets pass because a sandbox without a network is under it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.actions.tools.registry import builtin_tools, declared
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules import parse_rules


def verdict(workspace: Path, command: str, mode: Any = "auto-edit", is_confined: bool = True) -> str:
    deny = parse_rules(("run_shell_command(make deploy*)",), declared())
    policy = Policy((), deny, workspace, is_confined=is_confined)
    tool = builtin_tools()["run_shell_command"]
    return policy.judge(tool, tool.parse(json.dumps({"command": command})), mode).decision


INSIDE = ("npm test", "make", "mkdir -p build && rm -f build/b", "git commit -m text", "rm -f build/a")


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
