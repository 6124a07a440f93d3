"""Every example of the page for people who come from another framework runs as it stands."""

import ast
import asyncio
import inspect
import re
import shlex
import warnings
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.ui.chat.slash.table import find
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
(PRELUDE,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
_, TERMINAL_AGENTS, _, *FRAMEWORKS = PAGE.split("\n## ")
SECTIONS = [section.partition("\n") for section in FRAMEWORKS]
HERE = [row.split(" | ")[1] for row in re.findall(r"^\| (.+) \|$", TERMINAL_AGENTS, re.M)]
ROWS = [
    (framework, line.split(" | "))
    for framework, _, text in SECTIONS
    for line in text.splitlines()
    if line.startswith("| ") and not line.startswith("| there |")
]


def test_each_terminal_agent_has_a_table() -> None:
    names = re.findall(r"^### (.+)$", TERMINAL_AGENTS, re.M)
    assert names == ["Claude Code", "Codex", "aider"]
    assert len(HERE) > 30


@pytest.mark.parametrize("line", sorted(set(re.findall(r"`((?:sandbur|-)[^`]*)`", " ".join(HERE)))))
def test_the_command_line_here_is_one(line: str) -> None:
    parse(shlex.split(line.removeprefix("sandbur")))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`/(\w+)[^`]*`", " ".join(HERE)))))
def test_the_slash_command_here_is_one(name: str) -> None:
    assert find(name) is not None


def test_each_framework_has_a_table_of_three_columns() -> None:
    names = [framework for framework, _, _ in SECTIONS]
    assert names == ["openai-agents", "pydantic-ai", "LangGraph and deepagents", "smolagents", "AgentScope"]
    assert {len(cells) for _, cells in ROWS} == {3}
    assert all(sum(framework == one for one, _ in ROWS) >= 10 for framework in names)


@pytest.mark.parametrize("framework", [framework for framework, _, _ in SECTIONS])
def test_the_examples_run(framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for number, (_, cells) in enumerate(row for row in ROWS if row[0] == framework):
        lines = re.findall(r"`([^`]+)`", cells[2])
        assert len(lines) == 2, cells
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SANDBUR_HOME", str(folder / "data"))
        code = compile(
            PRELUDE + "\n".join(lines), " ".join(lines), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            done = eval(code, {"__name__": "__main__"})
            if inspect.iscoroutine(done):
                asyncio.run(done)
