"""The gate: modes, rules, and paths that try to leave the workspace."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actions.ports import ToolContext, ToolOutcome, ToolSpec, Verdict
from agent.policy import Policy
from agent.rules import parse_rules
from state.calls import Effect

PATH_TOOLS = ("read_file", "write_file", "edit_file", "list_directory")


@dataclass(frozen=True)
class SmallTool:
    """A tool as the gate sees it; the arguments are a plain dict."""

    name: str
    effect: Effect

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "", {})

    def parse(self, arguments: str) -> Any:
        return arguments

    def subject(self, arguments: dict[str, str]) -> str:
        return next(arguments[key] for key in ("command", "pattern", "path") if key in arguments)

    def paths(self, arguments: dict[str, str]) -> Sequence[str]:
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


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "src" / "a.py").write_text("a")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("k")
    (folder / "way_out").symlink_to(tmp_path / "secret")
    (folder / "src" / "link").symlink_to("/etc/passwd")
    return folder


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
    assert judged(workspace, tool, mode, **arguments).decision == "allow"


@pytest.mark.parametrize(("tool", "arguments"), READS_OUTSIDE)
def test_reading_outside_the_workspace_asks(workspace: Path, tool: str, arguments: dict[str, str]) -> None:
    verdict = judged(workspace, tool, **arguments)
    assert verdict.decision == "ask"
    assert verdict.reason.endswith("is outside the workspace")
    assert judged(workspace, tool, "auto-edit", **arguments).decision == "ask"
    assert judged(workspace, tool, "plan", **arguments).decision == "deny"


def test_an_added_folder_belongs_to_the_workspace(workspace: Path) -> None:
    added = workspace.parent / "secret"
    assert judged(workspace, "read_file", add_dirs=[added], path="../secret/key").decision == "allow"
    assert judged(workspace, "read_file", add_dirs=[added], path="../secretive").decision == "ask"


def test_a_workspace_that_is_a_link_is_the_folder_behind_it(workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    assert judged(link, "read_file", path="src/a.py").decision == "allow"
    assert judged(link, "read_file", path=str(workspace / "src" / "a.py")).decision == "allow"


def test_what_is_not_read_only_asks_and_says_so(workspace: Path) -> None:
    verdict = judged(workspace, "run_shell_command", command="ls")
    assert (verdict.decision, verdict.reason) == ("ask", "run_shell_command is not read-only")
    assert judged(workspace, "write_file", path="src/a.py").decision == "ask"
    assert judged(workspace, "send_mail", path="x").decision == "ask"


def test_plan_mode_denies_everything_but_looking(workspace: Path) -> None:
    verdict = judged(workspace, "write_file", "plan", allow=["write_file"], path="src/a.py")
    assert verdict.decision == "deny"
    assert verdict.reason == "plan mode only looks: write_file is not read-only"
    assert judged(workspace, "run_shell_command", "plan", allow=["*"], command="ls").decision == "deny"
    assert judged(workspace, "read_file", "plan", allow=["read_file(/etc/*)"], path="/etc/passwd").by_rule


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_auto_edit_passes_edits_inside_only(workspace: Path, tool: str) -> None:
    assert judged(workspace, tool, "auto-edit", path="src/new.py").decision == "allow"
    outside = [
        "/etc/passwd",
        "way_out/key",
        "src/link",
        "../x",
        ".git/hooks/pre-commit",
        ".sandbur/config.toml",
    ]
    for path in [*outside, "src/.GIT/config", "src/../.git/config"]:
        assert judged(workspace, tool, "auto-edit", path=path).decision == "ask", path
    assert judged(workspace, "run_shell_command", "auto-edit", command="ls").decision == "ask"


def test_yolo_passes_everything_but_what_a_rule_denies(workspace: Path) -> None:
    assert judged(workspace, "run_shell_command", "yolo", command="rm -rf /").decision == "allow"
    assert judged(workspace, "write_file", "yolo", path="/etc/passwd").decision == "allow"
    verdict = judged(
        workspace, "run_shell_command", "yolo", deny=["run_shell_command(rm *)"], command="sudo rm x"
    )
    assert verdict == Verdict("deny", "denied by rule run_shell_command(rm *)", by_rule=True)


@pytest.mark.parametrize("mode", ["interactive", "plan", "auto-edit", "yolo"])
def test_deny_wins_over_allow_in_every_mode(workspace: Path, mode: str) -> None:
    rules = {"allow": ["read_file", "read_file(src/**)"], "deny": ["read_file(src/a.py)"]}
    assert judged(workspace, "read_file", mode, **rules, path="src/a.py").decision == "deny"
    assert judged(workspace, "read_file", mode, **rules, path="src/b.py").decision == "allow"


def test_an_allow_rule_is_named_in_the_verdict(workspace: Path) -> None:
    verdict = judged(
        workspace,
        "run_shell_command",
        allow=["run_shell_command(git *)", "run_shell_command(ls*)"],
        command="git status && ls",
    )
    assert verdict.decision == "allow"
    assert verdict.by_rule
    assert verdict.reason == "allowed by rule run_shell_command(git *), run_shell_command(ls*)"


@pytest.mark.parametrize("rule", ["run_shell_command", "run_shell_command(*)", "run_*", "*"])
def test_only_a_rule_for_everything_covers_what_cannot_be_proved(workspace: Path, rule: str) -> None:
    command = 'for f in *; do rm "$f" > x; done'
    assert judged(workspace, "run_shell_command", allow=[rule], command=command).decision == "allow"
    narrower = ["run_shell_command(for *)", "run_shell_command(**)"]
    assert judged(workspace, "run_shell_command", allow=narrower, command=command).decision == "ask"


def test_a_command_rule_holds_inside_the_workspace_only(workspace: Path) -> None:
    rules = ["run_shell_command(git status*)"]
    inside = judged(workspace, "run_shell_command", allow=rules, command="git status", cwd="src")
    outside = judged(workspace, "run_shell_command", allow=rules, command="git status", cwd="/")
    assert (inside.decision, outside.decision) == ("allow", "ask")


@pytest.mark.parametrize("path", ["src/a.py", "src/deep/x", "src/../src/x", "./src/x", "src"])
def test_a_path_rule_covers_its_folder(workspace: Path, path: str) -> None:
    assert judged(workspace, "write_file", allow=["write_file(src/**)"], path=path).decision == "allow"
    assert judged(workspace, "write_file", allow=["write_file(src/)"], path=path).decision == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "x",
        "srcx/a",
        "src/../x",
        "src/../../secret/key",
        "src/link",
        "/src/a",
        "src/deep/../../x",
        "way_out/key",
    ],
)
def test_a_path_rule_cannot_be_escaped(workspace: Path, path: str) -> None:
    assert judged(workspace, "write_file", allow=["write_file(src/**)"], path=path).decision == "ask"


def test_a_folder_that_is_a_link_does_not_carry_a_rule_elsewhere(workspace: Path) -> None:
    rules = ["write_file(way_out/**)"]
    assert judged(workspace, "write_file", allow=rules, path="way_out/key").decision == "ask"


def test_an_absolute_rule_covers_the_place_behind_its_links(workspace: Path) -> None:
    link = workspace.parent / "alias"
    link.symlink_to(workspace.parent / "secret")
    rules = [f"write_file({link}/**)"]
    for path in (f"{link}/key", "../secret/key", "way_out/key"):
        assert judged(workspace, "write_file", allow=rules, path=path).decision == "allow"


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/deep/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("**/*.py", "src/deep/a.py", True),
        ("**", "src/deep/a.py", True),
        ("**", "../secret/key", False),
        ("*.py", "src/deep/a.py", True),
        ("*", "src/deep/a.py", True),
        ("*", "/etc/passwd", False),
        ("*.py", "/etc/x.py", False),
        ("src/?.py", "src/a.py", True),
        ("src/[ab].py", "src/a.py", True),
        ("src/[!a].py", "src/a.py", False),
        ("src/[!/].py", "src/a.py", True),
        ("../secret/*", "../secret/key", True),
        ("src/[a--z].py", "src/a.py", True),
    ],
)
def test_stars_stay_in_a_folder_and_double_stars_cross(
    workspace: Path, pattern: str, path: str, covered: bool
) -> None:
    verdict = judged(workspace, "write_file", allow=[f"write_file({pattern})"], path=path)
    assert (verdict.decision == "allow") is covered


def test_a_workspace_with_pattern_characters_in_its_name_is_taken_literally(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]*"
    (folder / "src").mkdir(parents=True)
    assert judged(folder, "write_file", allow=["write_file(src/**)"], path="src/x").decision == "allow"
    other = tmp_path / "ab" / "src" / "x"
    assert judged(folder, "write_file", allow=["write_file(src/**)"], path=str(other)).decision == "ask"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("read_file(.env)", ".env"),
        ("read_file(.env)", "src/.env"),
        ("read_file(.env*)", "src/../.env.local"),
        ("read_file(secrets)", "secrets/deep/key"),
        ("read_file(secrets/)", "secrets/deep/key"),
        ("read_file(secrets/**)", "src/../secrets/key"),
        ("read_file(way_out/**)", "way_out/key"),
        ("read_file(way_out/**)", "../secret/key"),
        ("read_file(../secret/**)", "way_out/key"),
        ("read_file(/etc/**)", "src/link"),
        ("read_file(src/link)", "src/link"),
        ("*(**/key)", "way_out/key"),
    ],
)
def test_a_path_is_denied_as_written_and_where_it_leads(workspace: Path, rule: str, path: str) -> None:
    assert judged(workspace, "read_file", "yolo", deny=[rule], path=path).decision == "deny"


def test_a_deny_rule_for_paths_leaves_neighbours_alone(workspace: Path) -> None:
    rules = ["read_file(secrets/**)", "read_file(.env)"]
    for path in ("secretsx/key", "src/a.py", ".envrc", "env"):
        assert judged(workspace, "read_file", deny=rules, path=path).decision == "allow", path


def test_what_cannot_be_a_path_is_refused_without_an_error(workspace: Path) -> None:
    for path in ("a\0b", "\ud800"):
        for mode in ("interactive", "auto-edit", "plan"):
            assert judged(workspace, "read_file", mode, path=path).decision == "deny"
            assert (
                judged(workspace, "write_file", mode, allow=["write_file(*)"], path=path).decision == "deny"
            )


def test_a_path_with_control_characters_is_shown_escaped(workspace: Path) -> None:
    reason = judged(workspace, "read_file", path="/\x1b[2Jx\u202e").reason
    assert reason.isprintable()
    assert len(judged(workspace, "read_file", path="/" + "x" * 9000).reason) < 300


def test_an_unknown_user_is_no_home_folder(workspace: Path) -> None:
    assert judged(workspace, "read_file", path="~nobody_of_that_name/x").decision == "allow"
    assert not (workspace / "~nobody_of_that_name").exists()
