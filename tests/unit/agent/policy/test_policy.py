"""The gate: what passes, asks and is denied in each mode."""

from pathlib import Path

import pytest
from support.tools.gate import judge_call, with_ways_out

from sandbur.actions.ports import Verdict


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return with_ways_out(tmp_path)


READS_INSIDE = [
    ("read_file", {"path": "src/a.py"}),
    ("read_file", {"path": "missing/file"}),
    ("read_file", {"path": "src/../src/a.py"}),
    ("read_file", {"path": ".git/config"}),
    ("list_directory", {"path": "."}),
    ("glob", {"pattern": "**/*.py"}),
    ("glob", {"pattern": "src/*.py"}),
    ("glob", {"pattern": "*.py", "path": "src"}),
    ("grep", {"pattern": r"\.\./|^/etc"}),
    ("grep", {"pattern": "x", "path": "src"}),
]
READS_OUTSIDE = [
    ("read_file", {"path": "/etc/passwd"}),
    ("read_file", {"path": "../secret/key"}),
    ("read_file", {"path": "src/../../secret/key"}),
    ("read_file", {"path": "way_out/key"}),
    ("read_file", {"path": "src/link"}),
    ("read_file", {"path": "~/.ssh/id_rsa"}),
    ("read_file", {"path": "~root/.bashrc"}),
    ("list_directory", {"path": ".."}),
    ("list_directory", {"path": "way_out"}),
    ("glob", {"pattern": "../../**"}),
    ("glob", {"pattern": "/etc/*"}),
    ("glob", {"pattern": "~/.ssh/*"}),
    ("glob", {"pattern": "~/*"}),
    ("glob", {"pattern": "~root/*", "path": "src"}),
    ("glob", {"pattern": "*", "path": "~"}),
    ("glob", {"pattern": "/*"}),
    ("glob", {"pattern": "*/../../secret/*"}),
    ("glob", {"pattern": "**/.."}),
    ("glob", {"pattern": "{../secret,src}/*"}),
    ("glob", {"pattern": "{/etc,src}/*"}),
    ("glob", {"pattern": "way_out/*"}),
    ("glob", {"pattern": "../secret/key"}),
    ("glob", {"pattern": "*", "path": "/etc"}),
    ("glob", {"pattern": "../../secret/*", "path": "src"}),
    ("grep", {"pattern": "x", "path": "/etc"}),
]


@pytest.mark.parametrize(("tool", "arguments"), READS_INSIDE)
@pytest.mark.parametrize("mode", ["interactive", "plan", "auto-edit", "yolo"])
def test_reading_inside_the_workspace_passes_in_every_mode(
    workspace: Path, tool: str, arguments: dict[str, str], mode: str
) -> None:
    assert judge_call(workspace, tool, mode, **arguments).decision == "allow"


@pytest.mark.parametrize(("tool", "arguments"), READS_OUTSIDE)
def test_reading_outside_the_workspace_asks(workspace: Path, tool: str, arguments: dict[str, str]) -> None:
    verdict = judge_call(workspace, tool, **arguments)
    assert verdict.decision == "ask"
    assert verdict.reason.startswith("leads outside the workspace: /")
    assert judge_call(workspace, tool, "auto-edit", **arguments).decision == "ask"
    assert judge_call(workspace, tool, "plan", **arguments).decision == "deny"


def test_an_added_folder_belongs_to_the_workspace(workspace: Path) -> None:
    added = workspace.parent / "secret"
    assert judge_call(workspace, "read_file", add_dirs=[added], path="../secret/key").decision == "allow"
    assert judge_call(workspace, "read_file", add_dirs=[added], path="../secretive").decision == "ask"


def test_a_workspace_that_is_a_link_is_the_folder_behind_it(workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    assert judge_call(link, "read_file", path="src/a.py").decision == "allow"
    assert judge_call(link, "read_file", path=str(workspace / "src" / "a.py")).decision == "allow"


def test_the_question_says_where_a_link_leads(workspace: Path) -> None:
    verdict = judge_call(workspace, "read_file", path="way_out/key")
    assert verdict.reason == f"leads outside the workspace: {workspace.parent.resolve()}/secret/key"


def test_what_is_no_reading_asks_and_says_what_it_does(workspace: Path) -> None:
    verdict = judge_call(workspace, "run_shell_command", command="touch x")
    assert (verdict.decision, verdict.reason) == ("ask", "writes files")
    assert judge_call(workspace, "write_file", path="src/a.py").reason == "writes files"
    assert judge_call(workspace, "send_mail", path="x").reason == "may change something: send_mail"


def test_plan_mode_denies_everything_but_looking(workspace: Path) -> None:
    verdict = judge_call(workspace, "write_file", "plan", allow=["write_file"], path="src/a.py")
    assert verdict.decision == "deny"
    assert verdict.reason == "plan mode only looks: writes files"
    assert (
        judge_call(workspace, "run_shell_command", "plan", allow=["*"], command="touch x").decision == "deny"
    )
    assert judge_call(workspace, "run_shell_command", "plan", command="ls").decision == "allow"
    assert judge_call(workspace, "read_file", "plan", allow=["read_file(/etc/*)"], path="/etc/passwd").rule


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_auto_edit_passes_edits_inside_only(workspace: Path, tool: str) -> None:
    assert judge_call(workspace, tool, "auto-edit", path="src/new.py").decision == "allow"
    outside = [
        "/etc/passwd",
        "way_out/key",
        "src/link",
        "../x",
        ".git/hooks/pre-commit",
        ".sandbur/config.toml",
    ]
    for path in [*outside, "src/.GIT/config", "src/../.git/config"]:
        assert judge_call(workspace, tool, "auto-edit", path=path).decision == "ask", path
    assert judge_call(workspace, "run_shell_command", "auto-edit", command="touch x").decision == "allow"
    assert judge_call(workspace, "run_shell_command", "auto-edit", command="rm x").decision == "ask"


def test_yolo_passes_everything_but_what_a_rule_denies(workspace: Path) -> None:
    assert judge_call(workspace, "run_shell_command", "yolo", command="rm -rf build").decision == "allow"
    assert judge_call(workspace, "write_file", "yolo", path="/etc/passwd").decision == "allow"
    verdict = judge_call(
        workspace, "run_shell_command", "yolo", deny=["run_shell_command(rm *)"], command="sudo rm x"
    )
    assert verdict == Verdict("deny", "denied by rule run_shell_command(rm *)", "run_shell_command(rm *)")


@pytest.mark.parametrize("mode", ["interactive", "plan", "auto-edit", "yolo"])
def test_deny_wins_over_allow_in_every_mode(workspace: Path, mode: str) -> None:
    rules = {"allow": ["read_file", "read_file(src/**)"], "deny": ["read_file(src/a.py)"]}
    assert judge_call(workspace, "read_file", mode, **rules, path="src/a.py").decision == "deny"
    assert judge_call(workspace, "read_file", mode, **rules, path="src/b.py").decision == "allow"


def test_an_allow_rule_is_named_in_the_verdict(workspace: Path) -> None:
    verdict = judge_call(
        workspace,
        "run_shell_command",
        allow=["run_shell_command(git *)", "run_shell_command(make*)"],
        command="git add . && make",
    )
    assert verdict.decision == "allow"
    assert verdict.rule
    assert verdict.reason == "allowed by rule run_shell_command(git *), run_shell_command(make*)"


@pytest.mark.parametrize("rule", ["run_shell_command", "run_shell_command(*)", "run_*", "*"])
def test_only_a_rule_for_everything_covers_what_cannot_be_proved(workspace: Path, rule: str) -> None:
    command = 'for f in *; do rm "$f" > x; done'
    assert judge_call(workspace, "run_shell_command", allow=[rule], command=command).decision == "allow"
    narrower = ["run_shell_command(for *)", "run_shell_command(**)"]
    assert judge_call(workspace, "run_shell_command", allow=narrower, command=command).decision == "ask"


def test_a_command_rule_holds_inside_the_workspace_only(workspace: Path) -> None:
    rules = ["run_shell_command(git add*)"]
    inside = judge_call(workspace, "run_shell_command", allow=rules, command="git add .", cwd="src")
    outside = judge_call(workspace, "run_shell_command", allow=rules, command="git add .", cwd="/")
    assert (inside.decision, outside.decision) == ("allow", "ask")
