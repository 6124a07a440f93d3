"""What `docs/hooks.md` shows works as it says."""

import json
import re
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.agent.config.values import parse_config
from sandbur.agent.extensions.hooks.declared import HOOK_EVENTS, HookCommand
from sandbur.agent.extensions.hooks.hook_answers import HookAnswer, answer_of
from sandbur.agent.extensions.hooks.hook_process import HookPlace, run_hook
from sandbur.agent.extensions.hooks.hooks_runtime import parse_hooks

PAGE = (ROOT / "docs" / "hooks.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


async def said(tmp_path: Path, language: str, given: dict[str, str]) -> HookAnswer:
    """Run the script of the page on a call with these arguments."""
    [script] = blocks(language)
    path = tmp_path / "hook"
    path.write_text(script)
    path.chmod(0o755)
    hook = HookCommand("PreToolUse", "", str(path))
    return answer_of(hook, await run_hook(hook, json.dumps({"tool_input": given}), HookPlace(tmp_path, None)))


def test_the_tables_of_the_page_can_be_read() -> None:
    [table] = blocks("toml")
    assert [hook.event for hook in parse_config(table.encode(), Path("x"))["hooks"]] == [
        "PreToolUse",
        "PostToolUse",
    ]
    [other] = blocks("json")
    assert [hook.event for hook in parse_hooks(other.encode(), Path("x"))[0]] == ["Stop"]


@pytest.mark.parametrize(("path", "decision"), [("dist/a.js", "deny"), ("uv.lock", "deny"), ("src/a.js", "")])
async def test_the_script_that_refuses_refuses(tmp_path: Path, path: str, decision: str) -> None:
    answer = await said(tmp_path, "bash", {"path": path})
    assert (answer.decision, answer.notices) == (decision, ())
    assert answer.reason == (f"{path} is generated: change what it is made of" if decision else "")


async def test_the_program_that_asks_asks(tmp_path: Path) -> None:
    assert (await said(tmp_path, "python", {"command": "pip install x"})).decision == "ask"
    other = await said(tmp_path, "python", {"command": "ls"})
    assert other.updated_input == {"command": "ls", "timeout_s": 20}


def test_the_page_names_every_event() -> None:
    table = PAGE.split("## Events")[1]
    assert set(re.findall(r"`([A-Z]\w+)`", table)) == set(HOOK_EVENTS)
