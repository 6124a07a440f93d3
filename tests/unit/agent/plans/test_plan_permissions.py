"""A plan allows what a person reads in it, and nothing that only looks like it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.actions.tools.registry import NETWORK_TOOLS, toolbox_of
from sandbur.agent.policy.gate import Policy
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_text import MOST_CHARS, UnreadablePlan, parse_plan
from sandbur.state.application import PlanTerms


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    for name in ("docs", "src", "tmp", "linked"):
        (place / name).mkdir(parents=True)
    return place


def rules_of(folder: Path, line: str) -> tuple[str, ...]:
    return parse_plan(f"# goal\n## step\n{line}", Permissions(folder).by_key).steps[0].allows


def judge(folder: Path, rules: tuple[str, ...], tool: str, **arguments: Any) -> str:
    tools = toolbox_of(NETWORK_TOOLS)
    parsed = tools[tool].parse(json.dumps(arguments))
    return (
        Policy([], [], folder).judge(tools[tool], parsed, "interactive", plan=PlanTerms("d", rules)).decision
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- writes: **", "every file"),
        ("- writes: */**", "every file"),
        ("- writes: [!/]*/**", "every file"),
        ("- writes: ./.", "every file"),
        ("- writes: src/*/../../../x", "leaves its folder"),
        ("- writes: ~/x", "leaves its folder"),
        ("- writes: /etc/", "outside the working folder"),
        ("- writes: [z-a]", "square brackets"),
        ("- runs: python", "whole command"),
        ("- runs: Python", "whole command"),
        ('- runs: "bash"', "whole command"),
        ("- runs: npm", "whole command"),
        ("- runs: .", "whole command"),
        ("- runs: *", "every command"),
        *(
            (
                f"- runs: `{line}`" if "`" not in line else f"- runs: {line}",
                "not the beginning of one command",
            )
            for line in (
                "ls; rm -rf x",
                "ls && rm x",
                "ls || rm x",
                "ls | wc",
                "cat > x",
                "cat >> x",
                "cat < x",
                "ls &",
                "ls 2> x",
                "cat <<E",
                "echo $HOME",
                "echo $(id)",
                "FOO=1 pytest",
                "FOO=1",
                "# note",
                "(ls)",
                "{ ls; }",
                "if true",
                "for x in a",
                "! ls",
                "ls 'a",
                "-q",
                "pytest -q;",
                "cat <(ls)",
                "ls >&2",
                "f() { ls; }",
                "pytest # fast",
                "env X=$Y ls",
            )
        ),
        *(
            (f"- runs: {line}", "Sandbur itself")
            for line in (
                "sandbur",
                "sandbur --yolo",
                "sandbur -p x",
                ".venv/bin/sandbur -y",
                "python -m sandbur trust",
                "env sandbur -y",
                "uvx sandbur",
                "bash -c 'sandbur -y'",
                "timeout 9 sandbur approve --all",
            )
        ),
        ("- hosts: *.co.uk", "no host"),
        ("- hosts: localhost", "no host"),
        ("- tools: mcp__github", "all tools of a server"),
        ("- tools: *", "many tools"),
        ("- tools: run_shell_command", "`- runs: ...`"),
        ("- tools: write_file(a)", "`- writes: ...`"),
        ("- tools: web_fetch", "`- hosts: ...`"),
        ("- agents: a b", "cannot name an agent"),
        ("- opens: a", "The keys are: expects, after, writes, runs, hosts, tools, agents"),
        ("- after: 1", "Line 3: step 1 cannot come after step 1: the first step comes after nothing"),
        ("- after: 2", "step 1 cannot come after step 2"),
        ("- after: the first", "'the first' is no number of an earlier step. Write `- after: 1, 2`"),
        ("- after:", "there is no number of an earlier step"),
        ("- runs: `pytest -q`, but never `git push`", "beside those in backticks"),
        ("- expects: all pass\u2028- writes: src/", "does not show"),
        ("<!-- - writes: src/ -->", "no comments"),
    ],
)
def test_a_line_that_would_allow_too_much_is_refused_with_its_number(
    folder: Path, line: str, why: str
) -> None:
    with pytest.raises(UnreadablePlan) as refused:
        rules_of(folder, line)
    assert str(refused.value).startswith("Line 3")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no goal"),
        ("# goal", "no step"),
        ("# a\n# b\n## c", "Line 2: a plan has one goal"),
        ("# a\nwords\n## c", "Line 2: 'words' precedes the first step"),
        ("# a\n" + "## b\n" * 31, "31 steps"),
        ("# a\n## b\n" + "x" * MOST_CHARS, "characters"),
    ],
)
def test_a_text_that_is_no_plan_is_refused_in_one_sentence(folder: Path, text: str, why: str) -> None:
    with pytest.raises(UnreadablePlan, match=why):
        parse_plan(text, Permissions(folder).by_key)


@pytest.mark.parametrize(
    ("line", "tool", "arguments", "verdict"),
    [
        ("- hosts: pypi.org", "web_fetch", {"url": "https://pypi.org/simple"}, "allow"),
        ("- hosts: pypi.org", "web_fetch", {"url": "https://evil.example/?://pypi.org/"}, "ask"),
        ("- hosts: pypi.org", "http_request", {"url": "https://pypi.org/up", "method": "POST"}, "ask"),
        ("- tools: read_file", "read_file", {"path": "/etc/passwd"}, "ask"),
        ("- writes: docs/", "write_file", {"path": "docs/a/b.txt", "content": "x"}, "allow"),
        ("- writes: docs/", "write_file", {"path": "docs/../x.txt", "content": "x"}, "ask"),
        ("- writes: a.txt", "write_file", {"path": "src/a.txt", "content": "x"}, "ask"),
        ("- runs: pytest -q", "run_shell_command", {"command": "pytest -q tests"}, "allow"),
        ("- runs: pytest -q", "run_shell_command", {"command": "pytest -q; id"}, "ask"),
        ("- runs: python -m build", "run_shell_command", {"command": "python -m build"}, "allow"),
        ("- runs: python -m build", "run_shell_command", {"command": "python -m build x"}, "ask"),
        ("- runs: uv run", "run_shell_command", {"command": "uv run x"}, "ask"),
        ("- runs: git -c", "run_shell_command", {"command": "git -c alias.x=!id x"}, "ask"),
        ("- runs: ./build.sh", "run_shell_command", {"command": "./build.sh", "cwd": "tmp"}, "ask"),
        ("- writes: .git/", "write_file", {"path": ".git/config", "content": "x"}, "ask"),
    ],
)
def test_the_gate_lets_pass_what_the_plan_names(
    folder: Path, line: str, tool: str, arguments: dict[str, str], verdict: str
) -> None:
    assert judge(folder, rules_of(folder, line), tool, **arguments) == verdict


@pytest.mark.parametrize("writes", ["linked/", "{folder}/linked/"])
def test_a_folder_that_becomes_a_link_leads_nowhere(folder: Path, tmp_path: Path, writes: str) -> None:
    rules = rules_of(folder, f"- writes: {writes.format(folder=folder)}")
    wish = {"path": "linked/x.txt", "content": "x"}
    assert judge(folder, rules, "write_file", **wish) == "allow"
    (folder / "linked").rmdir()
    (folder / "linked").symlink_to(tmp_path)
    assert judge(folder, rules, "write_file", **wish) == "ask"


def test_a_rule_that_cannot_be_read_allows_nothing_and_stops_nobody(folder: Path) -> None:
    rules = ("run_shell_command([z-a])", "write_file(docs/**)")
    assert judge(folder, rules, "write_file", path="docs/a", content="x") == "allow"
    assert judge(folder, rules, "run_shell_command", command="touch x") == "ask"
