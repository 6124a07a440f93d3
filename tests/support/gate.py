"""Small tools and one function, to ask the gate about a call."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbur.actions.ports import ToolContext, ToolOutcome, ToolSpec, ToolTraits, Verdict
from sandbur.actions.tools.glob import Glob
from sandbur.actions.tools.registry import traits_of
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules import parse_rules
from sandbur.state.calls import Effect


@dataclass(frozen=True)
class SmallTool:
    """A tool as the gate sees it; the arguments are a plain dict."""

    name: str
    effect: Effect

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {})

    @property
    def traits(self) -> ToolTraits:
        return traits_of(self.name)

    def parse(self, arguments: str) -> Any:
        return arguments

    def subject(self, arguments: dict[str, str]) -> str:
        return next(arguments[key] for key in ("command", "pattern", "path") if key in arguments)

    def paths(self, arguments: dict[str, str]) -> Sequence[str]:
        if self.name == "glob":
            return Glob().paths(Glob().parse(json.dumps(arguments)))
        return [arguments[key] for key in ("path", "cwd") if key in arguments]

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", "")


TOOLS = {
    tool.name: tool
    for tool in (
        SmallTool("run_shell_command", "effect"),
        SmallTool("write_file", "verifiable"),
        SmallTool("edit_file", "verifiable"),
        SmallTool("read_file", "read"),
        SmallTool("list_directory", "read"),
        SmallTool("glob", "read"),
        SmallTool("grep", "read"),
        SmallTool("send_mail", "effect"),
    )
}


def judged(
    workspace: Path,
    tool: str,
    mode: Any = "interactive",
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    add_dirs: Sequence[Path] = (),
    **arguments: str,
) -> Verdict:
    policy = Policy(parse_rules(allow, TOOLS), parse_rules(deny, TOOLS), workspace, add_dirs)
    return policy.judge(TOOLS[tool], arguments, mode)
