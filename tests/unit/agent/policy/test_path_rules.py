"""Rules about paths, and paths that try to get around them."""

from pathlib import Path

import pytest
from support.tools.gate import judge_call, with_ways_out


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return with_ways_out(tmp_path)


@pytest.mark.parametrize("path", ["src/a.py", "src/deep/x", "src/../src/x", "./src/x", "src"])
def test_a_path_rule_covers_its_folder(workspace: Path, path: str) -> None:
    assert judge_call(workspace, "write_file", allow=["write_file(src/**)"], path=path).decision == "allow"
    assert judge_call(workspace, "write_file", allow=["write_file(src/)"], path=path).decision == "allow"


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
    assert judge_call(workspace, "write_file", allow=["write_file(src/**)"], path=path).decision == "ask"


def test_a_folder_that_is_a_link_does_not_carry_a_rule_elsewhere(workspace: Path) -> None:
    rules = ["write_file(way_out/**)"]
    assert judge_call(workspace, "write_file", allow=rules, path="way_out/key").decision == "ask"


def test_an_absolute_rule_covers_the_place_behind_its_links(workspace: Path) -> None:
    link = workspace.parent / "alias"
    link.symlink_to(workspace.parent / "secret")
    rules = [f"write_file({link}/**)"]
    for path in (f"{link}/key", "../secret/key", "way_out/key"):
        assert judge_call(workspace, "write_file", allow=rules, path=path).decision == "allow"


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
    verdict = judge_call(workspace, "write_file", allow=[f"write_file({pattern})"], path=path)
    assert (verdict.decision == "allow") is covered


def test_a_workspace_with_pattern_characters_in_its_name_is_taken_literally(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]*"
    (folder / "src").mkdir(parents=True)
    assert judge_call(folder, "write_file", allow=["write_file(src/**)"], path="src/x").decision == "allow"
    other = tmp_path / "ab" / "src" / "x"
    assert judge_call(folder, "write_file", allow=["write_file(src/**)"], path=str(other)).decision == "ask"


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
    assert judge_call(workspace, "read_file", "yolo", deny=[rule], path=path).decision == "deny"


def test_a_deny_rule_for_paths_leaves_neighbours_alone(workspace: Path) -> None:
    rules = ["read_file(secrets/**)", "read_file(.env)"]
    for path in ("secretsx/key", "src/a.py", ".environment", "env"):
        assert judge_call(workspace, "read_file", deny=rules, path=path).decision == "allow", path


def test_what_cannot_be_a_path_is_refused_without_an_error(workspace: Path) -> None:
    for path in ("a\0b", "\ud800"):
        for mode in ("interactive", "auto-edit", "plan"):
            assert judge_call(workspace, "look", mode, path=path).decision == "deny"
            assert judge_call(workspace, "look", mode, allow=["write_file(*)"], path=path).decision == "deny"


def test_a_path_with_control_characters_is_shown_escaped(workspace: Path) -> None:
    reason = judge_call(workspace, "read_file", path="/\x1b[2Jx\u202e").reason
    assert reason.isprintable()
    assert len(judge_call(workspace, "read_file", path="/" + "x" * 9000).reason) < 300


def test_an_unknown_user_is_no_home_folder(workspace: Path) -> None:
    assert judge_call(workspace, "read_file", path="~nobody_of_that_name/x").decision == "allow"
    assert not (workspace / "~nobody_of_that_name").exists()
