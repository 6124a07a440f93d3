"""Shell commands against rules: a corpus of honest and of nasty ones."""

import random
import subprocess
import time
from pathlib import Path

import pytest

from sandbur.agent.policy.rules.shell_rules import MAX_CHARS, covers, hits, read_commands

ALLOWED_BY_GIT_STATUS = [
    "git status",
    "git status --short",
    "  git   status\t-s  ",
    "git status 2>&1",
    "git status >/dev/null 2>&1",
    "git status 2>/dev/null",
    "git status &>/dev/null",
    "git status </dev/null",
    "git status; git status -s",
    "git status && git status -s || git status -v",
    "git status\ngit status -s",
    "git status | git status --porcelain",
    "git \\\n  status --short",
    "'git' \"status\"",
    "git status 'a b; c'",
    'git status "x"',
    "git status -- *.py",
    "git status -- '$(rm x)'",
    "git status \\; x",
]

NOT_ALLOWED_BY_GIT_STATUS = [
    "",
    "   ",
    "# git status",
    "git log",
    "git statu",
    "git status; rm -rf ~",
    "git status;rm -rf ~",
    "git status && rm -rf ~",
    "git status || rm -rf ~",
    "git status | sh",
    "git status |& sh",
    "git status & rm -rf ~",
    "git status &",
    "git status\nrm -rf ~",
    "git status\r\nrm -rf ~",
    "git status $(rm -rf ~)",
    'git status "$(rm -rf ~)"',
    "git status `rm -rf ~`",
    'git status "`rm -rf ~`"',
    "git status <(rm -rf ~)",
    "git status >(rm -rf ~)",
    "git status > ~/.bashrc",
    "git status >> ~/.bashrc",
    "git status >| x",
    "git status &> x",
    "git status 2> x",
    "git status >&x",
    "git status > /dev/null/../../etc/passwd",
    "git status > /dev/sda",
    "git status < /etc/passwd",
    "git status <<EOF\nx\nEOF",
    "git status <<< x",
    "git status <> x",
    "git status >",
    "{ git status; }",
    "(git status)",
    "! git status",
    "if git status; then git status; fi",
    "while git status; do git status; done",
    "for x in a; do git status; done",
    "case x in x) git status;; esac",
    "f() { git status; }; f",
    "function f { git status; }",
    "time git status",
    "coproc git status",
    "[[ x ]] && git status",
    "LD_PRELOAD=x git status",
    "GIT_EXTERNAL_DIFF=x git status",
    "PATH=. && git status",
    "git status $X",
    "git status ${X:-$(rm x)}",
    "$X git status",
    "git status $((1+1))",
    "git status $'\\x41'",
    'git status $"x"',
    "git status # x",
    "git status {a,b}",
    "git status 'a",
    'git status "a',
    "git status \\",
    "git status (",
    "git status )",
    "git\u00a0status",
    "git status\u2028rm -rf ~",
    "git status \u202ex",
    "git status \u200bx",
    "git status \u3164",
    "git status \x00",
    "git status \x1b[2K",
    "'git status'",
    "'git status/../../bin/rm' -rf ~",
    "git\\ status",
    "'git status; rm' x",
    "/tmp/git status",
    "./git status",
    "env git status",
    "sudo git status",
    "command git status",
    "eval git status",
    "eval 'git status'",
    "bash -c 'git status'",
    "xargs git status",
    "find . -exec git status {} +",
    "git status x;rm y",
    "git -c core.pager=evil status",
    "gi\u0442 status",
]


def is_covered(text: str, *patterns: str) -> bool:
    commands, doubts = read_commands(text)
    return (
        bool(commands)
        and not doubts
        and all(any(covers(pattern, command) for pattern in patterns) for command in commands)
    )


@pytest.mark.parametrize("text", ALLOWED_BY_GIT_STATUS)
def test_a_rule_covers_its_command_however_it_is_written(text: str) -> None:
    assert is_covered(text, "git status*")


@pytest.mark.parametrize("text", NOT_ALLOWED_BY_GIT_STATUS)
def test_a_rule_is_not_fooled_into_covering_more(text: str) -> None:
    assert not is_covered(text, "git status*")


def test_every_command_of_a_line_needs_a_rule() -> None:
    assert is_covered("git status && ls -la | head -n 3", "git status", "ls *", "head *")
    assert not is_covered("git status && ls -la | head -n 3", "git status", "ls *")


def test_a_trailing_star_also_means_no_arguments() -> None:
    assert is_covered("ls", "ls *")
    assert not is_covered("lsof", "ls *")


def test_file_name_patterns_are_covered_by_a_trailing_star_only() -> None:
    assert is_covered("rm tmp_a", "rm tmp_?")
    assert not is_covered("rm tmp_*", "rm tmp_?")
    assert not is_covered("rm *", "rm ?")
    assert not is_covered("rm ~", "rm ?")
    assert is_covered("ls *.py", "ls *")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("find . -name x -delete", "find *"),
        ("find . -exec rm -rf x \\;", "find *"),
        ("find . -execdir rm x +", "find *"),
        ("find . -fprintf /etc/passwd x", "find *"),
        ("git -c alias.x=!rm x", "git *"),
        ("git diff --output=/etc/passwd", "git diff *"),
        ("rg --pre=rm x", "rg *"),
        ("sort -o /etc/passwd x", "sort *"),
    ],
)
def test_a_wide_rule_does_not_cover_options_that_run_or_write(text: str, pattern: str) -> None:
    assert not is_covered(text, pattern)


def test_a_rule_that_names_such_an_option_covers_it() -> None:
    assert is_covered("find . -name x -delete", "find . * -delete")


def test_a_text_too_long_to_read_is_denied_and_never_covered() -> None:
    text = "ls " + "x" * MAX_CHARS
    assert hits("rm *", text)
    assert not is_covered(text, "ls *")


@pytest.mark.slow
def test_reading_takes_no_longer_for_hostile_text() -> None:
    hostile = [
        "$(",
        "`",
        "(",
        '"$(',
        "a=xx;b=$a$a;a=$b$b;",
        "'\\",
        "rm ",
        "sudo ",
        "bash -c 'x y' ",
        "env -a ",
    ]
    for piece in hostile:
        text = (piece * MAX_CHARS)[:MAX_CHARS]
        begin = time.process_time()
        assert not is_covered(text, "git status*")
        hits("zzz*zz zz*", text)
        assert time.process_time() - begin < 20


def test_no_text_makes_reading_fail() -> None:
    pieces = [*" \n\t'\"\\$`(){}[]<>|&;#!*?~=ab1", "$(", "${", "$'", "<<", ">&", "\n\n", "rm ", "bash -c "]
    chance = random.Random(2)
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 40)))
        is_covered(text, "*")
        hits("rm *", text)


def test_what_is_covered_runs_nothing_but_the_command(tmp_path: Path) -> None:
    """Random texts that pass a rule for `echo` are run for real: none of them may create or remove a file."""
    pieces = [
        " ",
        "\n",
        "'",
        '"',
        "\\",
        "$",
        "`",
        "(",
        ")",
        "<",
        ">",
        "|",
        "&",
        ";",
        "#",
        "a",
        "echo ",
        "touch x",
    ]
    chance = random.Random(7)
    passed = 0
    texts = ("echo " + "".join(chance.choices(pieces, k=chance.randint(1, 9))) for _ in range(20_000))
    for text in texts:
        if "touch" in text and is_covered(text, "echo*"):
            passed += 1
            if passed % 20 == 0:
                subprocess.run(
                    ["bash", "-c", text], cwd=tmp_path, capture_output=True, timeout=5, check=False
                )
                assert not list(tmp_path.iterdir()), text
    assert passed > 100
