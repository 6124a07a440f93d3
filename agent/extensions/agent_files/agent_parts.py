"""Turns the text of an agent file into the parts of an agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....actions.ports import Tool
from ....actions.tools.registry import (
    SERVER_PREFIX,
    builtin_tools,
    load_declared_traits,
    network_tools,
    usual_network_tools,
)
from ....actions.turn.output.format import output_schema
from ....actions.turn.output.json_schema import BadSchema
from ....actions.turn.plan.decision_tools import RESERVED_NAMES
from ....state.errors import ConfigError, SandburError, UsageError
from ....state.session import AgentFileText, OutputSchema
from ...config.sources import reader_of
from ...config.values import settable_rows
from ...policy.rules.rules import parse_rule
from ...runtime.agent_definition import AgentParts
from ...session.run_limits import Limits
from .document import ParsedFile, read_document
from .flows import prepare_flows
from .http_entries import make_http_tool
from .reader import read_agent_file, require_known_tools
from .schema import ActionBook, AgentFile, BasicSettings, HttpToolEntry

_BOOKS = """\
# What to do when
Below are conditions, each with what you do when it holds. Check them against every message of the user; \
where none holds, answer as well as you can by yourself."""


def parse_agent_file(
    text: AgentFileText, env: Mapping[str, str] | None, more_tools: frozenset[str]
) -> AgentParts:
    """Return the parts of an agent; raises `ConfigError` with file, line and key.

    `more_tools` are the names of tools that a program adds. The action books of the file may name them.
    """
    document = read_document(Path(text.path), text.text)
    file = read_agent_file(document)
    tools = _make_tools(file, document, env, text.is_project)
    known = {*tools, *more_tools}
    prefixes = tuple(f"{SERVER_PREFIX}{name}__" for name in file.mcp_servers)
    require_known_tools(file, document, known, prefixes)
    _check_rules(file, document, known)
    flows = prepare_flows(file.flows, document, known, prefixes)
    has_plans = any(flow.plan is not None for flow in file.flows)
    if has_plans and file.planning == "off":
        document.refuse(("planning",), "is off, but a flow has a plan", "Remove `planning`.")
    arguments: dict[str, Any] = {
        "model": file.model,
        "name": file.basic_settings.name,
        "instructions": _write_system_prompt(file),
        "tools": tuple(tools.values()),
        "flows": flows,
        "mode": file.mode,
        "allow": () if text.is_project else tuple(file.rules.allow),
        "ask": tuple(file.rules.ask),
        "deny": tuple(file.rules.deny),
        "limits": Limits(**file.limits.model_dump()),
        "fallback_models": tuple(file.fallback_models),
        "effort": file.effort,
        "mcp_servers": _check_servers(file, document) or None,
        "planning": file.planning,
    }
    return AgentParts(
        file=text,
        arguments={key: value for key, value in arguments.items() if value is not None},
        output=_output_of(file, document),
        skills=tuple(file.skills),
        variables=_variables_of(file),
        needs_planning=has_plans,
        notices=tuple(_list_ignored_keys(file, text)),
    )


def _list_ignored_keys(file: AgentFile, text: AgentFileText) -> Iterator[str]:
    """Yield a notice for each key that a project's file cannot set."""
    if text.is_project and file.rules.allow:
        yield f"Ignored `rules.allow` in {text.path}: a project's file may only restrict what is allowed."


def _make_tools(
    file: AgentFile, document: ParsedFile, env: Mapping[str, str] | None, is_project: bool
) -> dict[str, Tool]:
    shipped = builtin_tools() | network_tools(usual_network_tools(has_search=False))
    found: dict[str, Tool] = {}
    for number, entry in enumerate(file.tools):
        place = ("tools", number)
        if isinstance(entry, HttpToolEntry):
            tool: Tool = make_http_tool(entry, document, place, env, is_project)
        elif entry in shipped:
            tool = shipped[entry]
        else:
            document.refuse(place, f"names no tool of Sandbur: {entry}", f"There are: {', '.join(shipped)}.")
        name = tool.spec.name
        if name in found or name in RESERVED_NAMES:
            other = "a second tool" if name in found else "not the only tool"
            document.refuse(place, f"is {other} called {name}", "Rename it.")
        found[name] = tool
    return found


def _check_rules(file: AgentFile, document: ParsedFile, tools: set[str]) -> None:
    for key in ("allow", "ask", "deny"):
        texts: list[str] = getattr(file.rules, key)
        for number, text in enumerate(texts):
            try:
                parse_rule(text, {*tools, *load_declared_traits()})
            except UsageError as error:
                document.refuse(("rules", key, number), f"does not fit: {_clause(error)}", error.hint)


def _clause(error: SandburError) -> str:
    """Return the sentence of an error as a clause, without its full stop."""
    return f"{error.message[:1].lower()}{error.message[1:]}".rstrip(".")


def _check_servers(file: AgentFile, document: ParsedFile) -> Mapping[str, Any]:
    """Return the tool servers; raises `ConfigError` for a server that does not fit the schema."""
    row = settable_rows().get("mcp_servers")
    if file.mcp_servers and row is None:
        document.refuse(("mcp_servers",), "needs the extension for tool servers", "Install Sandbur again.")
    if row is None:
        return {}
    for name, table in file.mcp_servers.items():
        try:
            reader_of(row).check({name: table}, str(document.path), ConfigError)
        except ConfigError as error:
            problem = error.message.partition(" does not fit: ")[2].rstrip(".") or _clause(error)
            document.refuse(("mcp_servers", name), f"does not fit: {problem}", error.hint)
    return file.mcp_servers


def _output_of(file: AgentFile, document: ParsedFile) -> OutputSchema | None:
    if file.output_schema is None:
        return None
    try:
        return output_schema(file.output_schema)
    except BadSchema as problem:
        document.refuse(("output_schema",), f"is not a JSON schema: {str(problem).rstrip('.')}")


def _variables_of(file: AgentFile) -> dict[str, str]:
    chatbot = file.basic_settings.chatbot_id
    own = {"chatbot_id": chatbot, "chatbotId": chatbot} if chatbot else {}
    return {**own, **file.variables}


def _write_system_prompt(file: AgentFile) -> str:
    """Return the system prompt: basic settings, instructions, action books."""
    basic = file.basic_settings
    parts = (
        " ".join(filter(None, (f"You are {basic.name}." if basic.name else "", basic.description.strip()))),
        f"# Background\n{basic.background.strip()}" if basic.background.strip() else "",
        "\n".join(_style(basic)),
        file.instructions.strip(),
        "\n".join((_BOOKS, *_books(file.action_books))) if file.action_books else "",
    )
    return "\n\n".join(filter(None, parts))


def _style(basic: BasicSettings) -> Iterator[str]:
    if basic.language or basic.tone:
        yield "# How you answer"
    if basic.language:
        yield f"- Language: {basic.language}, also where the user writes in another one."
    if basic.tone:
        yield f"- Tone: {basic.tone}"


def _books(books: list[ActionBook]) -> Iterator[str]:
    for number, book in enumerate(books, 1):
        yield f"{number}. Condition: {_indent(book.condition)}"
        yield f"   Action: {_indent(book.action)}"
        if book.tools:
            yield f"   Tools: {', '.join(book.tools)}"


def _indent(text: str) -> str:
    """Return a text whose lines after the first one are indented."""
    return "\n   ".join(line.strip() for line in text.strip().splitlines())
