"""The page about tool servers says what is so: commands, files, keys, numbers, and its program."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur.agent.config.values import parse_config
from sandbur.agent.extensions.mcp.catalogue import MOST_PAGES, MOST_TOOLS
from sandbur.agent.extensions.mcp.configuration.servers import McpServerTable, parse_mcp_json
from sandbur.agent.extensions.mcp.results import MAX_TEXT_CHARS
from sandbur.agent.extensions.mcp.transport.border import MOST_MESSAGE_BYTES
from sandbur.agent.extensions.mcp.transport.stdio import server_environment
from sandbur.agent.policy.rules.rules import parse_rule
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("line", [line for block in blocks("sh") for line in block.splitlines()])
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    assert parse(shlex.split(line)[1:]).name == "mcp"


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_configuration_of_the_page_fits(block: str) -> None:
    values = parse_config(block.encode(), Path("config.toml"))
    assert values
    for rule in (*values.get("allow", ()), *values.get("deny", ())):
        parse_rule(rule)


@pytest.mark.parametrize("block", blocks("json"))
def test_a_list_of_the_page_is_read_whole(block: str) -> None:
    found, notices = parse_mcp_json(block.encode(), Path(".mcp.json"))
    assert (bool(found), notices) == (True, [])


def test_the_program_of_the_page_runs(command: Command) -> None:
    program = next(block for block in blocks("python") if "mcp-server-time" in block)
    # Whether that server is installed, the program says in a notice only.
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"


def test_every_key_is_explained_and_no_other() -> None:
    table = PAGE.split("| key | means |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(McpServerTable.model_fields)


def test_the_numbers_of_the_page_are_those_of_the_program() -> None:
    said = (
        f"{MOST_MESSAGE_BYTES // 10**6} MB",
        f"{MOST_PAGES} pages",
        f"{MOST_TOOLS} tools",
        f"{MAX_TEXT_CHARS:,} char",
    )
    assert [one for one in said if one not in PAGE] == []
    usual = McpServerTable(command="x")
    assert f"| default {usual.startup_timeout_s:g};" in PAGE
    assert f"| default {usual.timeout_s:g}:" in PAGE
    seen = re.findall(r"it sees `([A-Z_ ]+)`", PAGE)[0].split()
    assert list(server_environment(dict.fromkeys((*seen, "SECRET"), "x"), {})) == seen
