"""Rules as people write them."""

import pytest

from sandbur.agent.policy.rules.rules import exact_rule, idle_rules, literal_of, parse_rule, parse_rules
from sandbur.state.errors import UsageError

TOOLS = ("run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "glob", "grep")


@pytest.mark.parametrize(
    ("text", "tool", "pattern"),
    [
        ("read_file", "read_file", None),
        (" write_file(src/**) ", "write_file", "src/**"),
        ("run_shell_command(git status*)", "run_shell_command", "git status*"),
        ("run_shell_command(echo (a) b)", "run_shell_command", "echo (a) b"),
        ("*_file(*.env)", "*_file", "*.env"),
        ("*", "*", None),
    ],
)
def test_a_rule_is_a_tool_and_maybe_a_pattern(text: str, tool: str, pattern: str | None) -> None:
    rule = parse_rule(text, TOOLS)
    assert (rule.tool, rule.pattern) == (tool, pattern)
    assert rule.text == text.strip()


@pytest.mark.parametrize(
    "text", ["", "()", "read_file(", "read_file(x", "read_file x", "(x)", "a b(c)", "x(y)z"]
)
def test_a_rule_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text, TOOLS)
    assert f"`{text}`" in caught.value.message
    assert caught.value.exit_code == 2


def test_an_empty_pattern_and_a_bad_range_are_refused() -> None:
    with pytest.raises(UsageError, match="empty pattern"):
        parse_rule("read_file( )", TOOLS)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_rule("read_file([z-a])", TOOLS)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("run_shell_comand(ls)", "run_shell_command"),
        ("readfile", "read_file"),
        ("Bash(git *)", "run_shell_command"),
        ("Edit", "edit_file"),
    ],
)
def test_an_unknown_tool_gets_the_near_name(text: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rules([text], TOOLS)
    assert caught.value.hint == f"Did you mean `{near}`?"


def test_a_tool_like_no_other_may_be_one_that_is_yet_to_come() -> None:
    assert parse_rule("find_customer", TOOLS).tool == "find_customer"


def test_a_rule_that_names_no_tool_of_a_session_is_found() -> None:
    rules = ["find_customer", "read_file(*.env)", "find_*", "mcp__time__*"]
    assert idle_rules(rules, ["find_customer"]) == []
    assert idle_rules(rules, []) == ["find_customer", "find_*"]


def test_without_a_list_of_tools_only_the_form_is_checked() -> None:
    assert parse_rule("tool_of_tomorrow(x)").tool == "tool_of_tomorrow"


@pytest.mark.parametrize("subject", ["git status", "a; b | c > d", "ls *.py [ab]?", "two\nlines", "echo (x)"])
def test_an_exact_rule_covers_the_one_command_it_was_made_from(subject: str) -> None:
    rule = parse_rule(exact_rule("run_shell_command", subject), TOOLS)
    assert literal_of(rule.pattern or "") == subject


def test_a_pattern_with_wildcards_is_no_literal() -> None:
    assert literal_of("git status*") is None
