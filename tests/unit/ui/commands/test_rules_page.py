"""The page about rules says what is so: each row of its table, and each command that it shows."""

import re
import shlex

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "rules.md").read_text("utf-8")
SECTION = PAGE.split("## Precedence")[1].split("\n## ")[0]
ROWS = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in SECTION.splitlines()
        if line.startswith("|")][2:]  # fmt: skip
SHOWN = re.findall(r"^sandbur (policy .*?)\s+#", PAGE, re.M)


def test_the_table_has_every_verdict() -> None:
    assert len(ROWS) > 12
    assert {row[3] for row in ROWS} == {"allow", "ask", "deny"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " | ".join(row))
def test_a_row_is_what_the_gate_says(command: Command, row: list[str]) -> None:
    allow, deny, line, verdict = row
    rules = [*(("--allow", allow) if allow else ()), *(("--deny", deny) if deny else ())]
    assert command.run("policy", "check", line, "--json", *rules).result["verdict"] == verdict


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    parse(shlex.split(line.partition(" < ")[0]))
