"""Deny rules against commands that hide."""

import pytest

from sandbur.agent.policy.rules.shell_rules import hits

DENIED_BY_RM = [
    "rm",
    "rm x",
    "rm\t-rf x",
    "/bin/rm -rf x",
    "../../bin/rm x",
    "r\\m x",
    "'r'm x",
    'r""m x',
    "$'r\\x6d' x",
    "r\\\nm x",
    "\\rm x",
    "ls; rm x",
    "ls;rm x",
    "ls&&rm x",
    "ls||rm x",
    "ls|rm x",
    "ls & rm x",
    "ls\nrm x",
    "(rm x)",
    "{ rm x; }",
    "! rm x",
    "echo $(rm x)",
    'echo "a $(rm x) b"',
    'echo "$(echo "$(rm x)")"',
    "echo `rm x`",
    "echo `echo \\`rm x\\``",
    "diff <(rm x) y",
    "ls > >(rm x)",
    "if true; then rm x; fi",
    "for f in *; do rm $f; done",
    "while true; do rm x; done",
    "case a in a) rm x;; esac",
    "f() { rm x; }; f",
    "A=1 B=2 rm x",
    "X=rm; $X y",
    "X='rm y'; $X",
    "X=rm && ${X} y",
    'X=rm; "$X" y',
    "{rm,-rf,x}",
    "sudo rm x",
    "sudo -u bob -n rm x",
    "env rm x",
    "env -i A=1 rm x",
    "/usr/bin/env rm x",
    "command rm x",
    "exec rm x",
    "nohup rm x",
    "nice -n 5 rm x",
    "timeout -k 5 10 rm x",
    "stdbuf -oL rm x",
    "time -p rm x",
    "xargs rm",
    "ls | xargs -0 -n 1 rm -f",
    "find . -exec rm {} \\;",
    "find . -exec rm {} +",
    "find . -name x -print0 | xargs -0 rm",
    "eval rm x",
    "eval 'r'\"m x\"",
    "bash -c 'rm x'",
    "bash -lc 'cd y && rm x'",
    'sh -c "rm x"',
    "sudo bash -c 'rm x'",
    "bash -c \"bash -c 'rm x'\"",
    "ssh host 'rm x'",
    "su -c 'rm x' bob",
    "trap 'rm x' EXIT",
    "bash <<EOF\nrm x\nEOF",
    "bash <<< 'rm x'; rm x",
    "rm x > /dev/null 2>&1 &",
    "2>/dev/null rm x",
    "echo unclosed\nrm y '",
    "watch 'rm x'",
    "setsid -f rm x",
]


@pytest.mark.parametrize("text", DENIED_BY_RM)
def test_a_deny_rule_finds_its_command(text: str) -> None:
    assert hits("rm *", text)


@pytest.mark.parametrize(
    "text",
    [
        "echo rm",
        "rmdir x",
        "farm x",
        "git rm x",
        "grep rm x",
        "ls rm",
        "npm run rm",
        "echo 'rm x'",
        "cat /bin/rm",
    ],
)
def test_a_deny_rule_leaves_other_commands_alone(text: str) -> None:
    assert not hits("rm *", text)


@pytest.mark.parametrize(
    "text",
    [
        "git push",
        "git -C dir push -f",
        "git --no-pager push",
        "git -c a=b --bare push x",
        "/usr/bin/git push",
    ],
)
def test_a_deny_rule_sees_past_leading_options(text: str) -> None:
    assert hits("git push*", text)


def test_a_deny_rule_with_a_folder_finds_the_bare_program() -> None:
    assert hits("/bin/rm *", "rm x")
    assert not hits("/bin/r* x", "ls x")


def test_a_deny_rule_can_match_the_whole_text() -> None:
    assert hits("*> /etc/*", "echo x > /etc/passwd")
