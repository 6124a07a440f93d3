"""`sandbur flows list` and `sandbur flows test`: no session is opened, and nothing is run."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from ....actions.ports import Tool
from ....actions.ports.message_router import MessageRouter, RoutedMessage
from ....actions.turn.flows.flow_turn import MOST_CHARS
from ....agent.config.load import load_settings
from ....agent.config.settings import Settings
from ....agent.extensions.extension import load
from ....agent.extensions.flows.flow_tools import make_flow_tool
from ....agent.extensions.flows.flows_runtime import require_different_names
from ....agent.extensions.flows.router import FlowRouter
from ....agent.extensions.flows.tables import ConfiguredFlow
from ....agent.extensions.registry import list_shipped
from ....agent.sdk.loading import load_named_agent
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from .command import FlowsCommand

_SKILLS = ".agent.extensions.skills"
_GENERAL = ".agent.agents.task:GENERAL"
_FIND_AGENTS = ".agent.agents.markdown.agent_files:find_agents"


class FolderFlows(NamedTuple):
    """The flows of a folder or an agent, and the skills with triggers."""

    flows: tuple[ConfiguredFlow, ...]
    skills: Mapping[str, Any]
    settings: Settings
    agents: Set[str] | None = None
    """The agents of a program that its sessions may start; None: those of the folder."""

    @property
    def starts_agents(self) -> bool:
        """Whether sessions here start sub-agents."""
        has_agents = any(one.name == "agents" for one in list_shipped())
        return has_agents and bool(self.settings.of("agent_depth"))

    def may_start(self, agent: str) -> bool:
        """Return whether a session here may start the agent of a skill."""
        return self.starts_agents

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that the flows bring, by name."""
        made = (make_flow_tool(one.flow, one.source) for one in self.flows)
        return {tool.spec.name: tool for tool in made if tool is not None}


async def list_flows(command: FlowsCommand) -> int:
    """Print the flows in the order in which they are tried."""
    found = await _find(command)
    by_name = {one.flow.name: one.source for one in found.flows}
    rows = [
        {
            "name": flow.name,
            "kind": flow.kind,
            "priority": flow.priority,
            "triggers": list(flow.triggers.describe()),
            "does": flow.describe(),
            "description": flow.description,
            "source": by_name[flow.name],
        }
        for flow in FlowRouter([one.flow for one in found.flows]).flows
    ]
    rows += [
        {
            "name": skill.name,
            "kind": "skill",
            "priority": 0,
            "triggers": list(skill.triggers.describe()),
            "does": _describe_skill(skill),
            "description": skill.description,
            "source": str(skill.folder),
        }
        for skill in found.skills.values()
    ]
    if command.json:
        for row in rows:
            put(encode(row))
    else:
        put("\n".join(line for row in rows for line in _describe_row(row)) or "There are no flows here.")
    return 0


def _describe_skill(skill: Any) -> str:
    if skill.runs_as_agent:
        return "starts a sub-agent that works by the skill"
    return "gives the model the text of the skill"


def _describe_row(row: Mapping[str, Any]) -> Iterator[str]:
    priority = f"  (priority {row['priority']})" if row["priority"] else ""
    yield one_line(f"{row['name']}{priority}")
    yield one_line(f"    on    {' or '.join(row['triggers'])}")
    yield one_line(f"    does  {row['does']}")
    yield one_line(f"    from  {row['source']}")


async def test_flows(command: FlowsCommand) -> int:
    """Print what a message would start."""
    found = await _find(command)
    routed: RoutedMessage | None = None
    if len(command.text) <= MOST_CHARS:
        flows = [one.flow for one in found.flows]
        routed = await FlowRouter(flows, found.tools).route(command.text)
    if routed is None and found.skills and len(command.text) <= MOST_CHARS:
        router: MessageRouter = load(f"{_SKILLS}.skills_runtime:SkillRouter")(
            found.settings.cwd, os.environ, tuple(found.skills), found.may_start
        )
        routed = await router.route(command.text)
    described = _object(routed) | await asyncio.to_thread(_find_problem, routed, found)
    if command.json:
        put(encode(described))
    else:
        put("\n".join(_lines(described, routed is None)))
    return 0


def _find_problem(routed: RoutedMessage | None, found: FolderFlows) -> dict[str, str]:
    """Return the key `problem` for an agent that a session here could not start."""
    if routed is None or not routed.match.starts_agent:
        return {}
    agent = str(json.loads(routed.arguments)["agent"])
    if not found.starts_agents:
        return {"problem": "A session here starts no agents."}
    names = found.agents
    if names is None:
        names = set(load(_FIND_AGENTS)(found.settings.cwd, os.environ, found.settings.aliases).agents)
        names |= {load(_GENERAL).name} if found.settings.agent is None else set()
    if routed.match.kind == "skill_agent" or agent in names:
        return {}
    return {"problem": f"There is no agent {agent[:64]!r} here. There are: {', '.join(sorted(names))}."}


def _object(routed: RoutedMessage | None) -> dict[str, Any]:
    if routed is None:
        return {"flow": None, "does": None, "why": "no trigger matches"}
    match = routed.match
    if match.kind == "refused":
        return {"flow": None, "does": "refused", "why": match.answer}
    calls: dict[str, Any] = {}
    if match.starts_agent:
        task = json.loads(routed.arguments)
        calls = {"agent": task["agent"], "prompt": task["prompt"]}
    elif match.kind == "tool":
        calls = {"tool": match.target, "arguments": json.loads(routed.arguments)}
    text = "" if match.starts_agent else routed.text
    texts = {"answer": match.answer, "text": text, "command": "" if calls else match.target}
    more = {name: text for name, text in texts.items() if text}
    steps = {"steps": list(routed.steps)} if routed.steps else {}
    return {"flow": match.name, "does": match.kind, "why": match.why, **calls, **steps, **more}


def _lines(found: dict[str, Any], asks_model: bool) -> Iterator[str]:
    if found["flow"] is None:
        yield one_line(f"{found['why']}: the model is asked." if asks_model else str(found["why"]))
        return
    yield one_line(f"flow      {found.pop('flow')}")
    yield one_line(f"why       {found.pop('why')}")
    for name, value in found.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield one_line(f"{name:<9} {text}")


async def _find(command: FlowsCommand) -> FolderFlows:
    """Return the flows of the agent that is named, else those of this folder; raises `SandburError`."""
    overrides = read_overrides(command)
    settings = load_settings(overrides, os.environ)
    for notice in settings.notices:
        say(one_line(notice))
    skills = await asyncio.to_thread(_find_skills, settings)
    if settings.agent is None:
        return FolderFlows(tuple(settings.of("flows").values()), skills, settings)
    definition = load_named_agent(settings, overrides, os.environ)
    require_different_names(definition.flows)
    own = {name: skill for name, skill in skills.items() if name in definition.skills}
    flows = tuple(ConfiguredFlow(flow, definition.source) for flow in definition.flows)
    agents = None if definition.file is not None else {one.name for one in definition.agents}
    return FolderFlows(flows, own, settings, agents)


def _find_skills(settings: Settings) -> dict[str, Any]:
    """Return the skills with triggers by name; without the extension for skills there are none."""
    if all(one.name != "skills" for one in list_shipped()):
        return {}
    found = load(f"{_SKILLS}.catalogue:find_skills")(settings.cwd, os.environ)
    return {name: skill for name, skill in found.skills.items() if skill.triggers}
