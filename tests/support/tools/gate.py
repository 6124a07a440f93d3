"""Asks the gate about calls of built-in tools, and of a tool that is not built in."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbur.actions.ports import Tool, ToolContext, ToolOutcome, ToolSpec, ToolTraits, Verdict
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.calls import Effect


@dataclass(frozen=True)
class SmallTool:
    """A tool for tests of the gate; its arguments are a plain dict."""

    name: str
    effect: Effect

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {})

    @property
    def traits(self) -> ToolTraits:
        return ToolTraits()

    def parse(self, arguments: str) -> Any:
        return json.loads(arguments)

    def effect_of(self, arguments: Any) -> Effect:
        return self.effect

    def subject(self, arguments: dict[str, str]) -> str:
        return arguments["path"]

    def paths(self, arguments: dict[str, str]) -> Sequence[str]:
        return [arguments["path"]]

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", "")


TOOLS: dict[str, Tool] = {
    **builtin_tools(),
    "send_mail": SmallTool("send_mail", "effect"),
    "look": SmallTool("look", "read"),
}
_NEEDED = {"write_file": {"content": "x"}, "edit_file": {"old": "x", "new": "y"}}


def judge_call(
    workspace: Path,
    tool: str,
    mode: Any = "interactive",
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    add_dirs: Sequence[Path] = (),
    ask: Sequence[str] = (),
    own: Sequence[Path] = (),
    runs_catastrophes: bool = False,
    **arguments: str,
) -> Verdict:
    rules = [parse_rules(texts, TOOLS) for texts in (allow, deny, ask)]
    policy = Policy(*rules[:2], workspace, add_dirs, rules[2], own, runs_catastrophes)
    parsed = TOOLS[tool].parse(json.dumps({**_NEEDED.get(tool, {}), **arguments}))
    return policy.judge(TOOLS[tool], parsed, mode)


def command(workspace: Path, text: str, mode: Any = "interactive", **more: Any) -> Verdict:
    """Ask about a shell command."""
    return judge_call(workspace, "run_shell_command", mode, **more, command=text)


def with_ways_out(place: Path) -> Path:
    """Make a workspace with a repository, files, and links that lead outside of it; return its folder."""
    folder = place / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "src" / "a.py").write_text("a")
    (place / "secret").mkdir()
    (place / "secret" / "key").write_text("k")
    (folder / "way_out").symlink_to(place / "secret")
    (folder / "src" / "link").symlink_to("/etc/passwd")
    return folder
