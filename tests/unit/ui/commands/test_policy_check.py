"""`sandbur policy check` as a process: the verdict on a command, and on calls that come in line by line."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.agent.config.trust import trust

DENY = "run_shell_command(rm *)"


def call(tool: str, arguments: object, **more: object) -> str:
    return json.dumps({"tool": tool, "arguments": arguments, **more})


def test_it_says_the_verdict_the_rule_and_why(command: Command) -> None:
    ended = command.run("policy", "check", "rm -rf build", "--deny", DENY)
    assert ended.code == 0
    lines = dict(line.split(None, 1) for line in ended.out.splitlines())
    assert lines["verdict"] == "deny"
    assert lines["rule"] == DENY
    assert DENY in lines["why"]
    assert lines["folder"] == str(command.folder)


def test_as_json_it_is_one_object_of_three_keys(command: Command) -> None:
    ended = command.run("policy", "check", "npm test", "--json", "--allow", "run_shell_command(npm test)")
    assert ended.lines == [
        {
            "verdict": "allow",
            "rule": "run_shell_command(npm test)",
            "reason": "allowed by rule run_shell_command(npm test)",
        }
    ]
    assert list(ended.result) == ["verdict", "rule", "reason"]


def test_without_a_rule_the_mode_decides(command: Command) -> None:
    asked = command.run("policy", "check", "make install", "--json")
    passed = command.run("policy", "check", "make install", "--json", "--mode", "yolo")
    assert (asked.result["verdict"], asked.result["rule"]) == ("ask", None)
    assert (passed.result["verdict"], passed.result["rule"]) == ("allow", None)


def test_the_rules_of_the_user_and_of_a_trusted_project_count(command: Command, tmp_path: Path) -> None:
    project = tmp_path / "project"
    user, own = tmp_path / ".config/sandbur/config.toml", project / ".sandbur/config.toml"
    for path, rule in ((user, "run_shell_command(make user)"), (own, "run_shell_command(make project)")):
        path.parent.mkdir(parents=True)
        path.write_text(f'allow = ["{rule}"]\n')

    def verdict(line: str) -> str:
        return command.run("policy", "check", line, "--json", "-C", str(project)).result["verdict"]

    assert (verdict("make user"), verdict("make project")) == ("allow", "ask")
    trust(project, command.env)
    assert (verdict("make user"), verdict("make project")) == ("allow", "allow")


def test_a_configuration_that_is_not_trusted_is_named_on_stderr(command: Command, tmp_path: Path) -> None:
    own = tmp_path / ".sandbur/config.toml"
    own.parent.mkdir()
    own.write_text(f'deny = ["{DENY}"]\n')
    ended = command.run("policy", "check", "rm x", "--json")
    assert ended.result["verdict"] == "ask"
    assert f"Ignored {own}" in ended.err


def test_it_makes_no_file_and_needs_no_store(command: Command, tmp_path: Path) -> None:
    ended = command.run(
        "policy", "check", "touch made", "--mode", "yolo", "--store", "postgresql://nowhere/x"
    )
    assert ended.code == 0
    assert list(tmp_path.iterdir()) == []


def test_lines_are_answered_in_order_one_by_one(command: Command) -> None:
    lines = [
        call("run_shell_command", {"command": "rm a"}),
        call("write_file", {"path": "a", "content": ""}, mode="auto-edit"),
        call("write_file", '{"path": "a", "content": ""}'),
        call("read_file", {"path": "a"}),
    ]
    ended = command.run("policy", "check", "-", "--json", "--deny", DENY, stdin="\n".join(lines))
    assert ended.code == 0
    assert [line["verdict"] for line in ended.lines] == ["deny", "allow", "ask", "allow"]
    assert [line["rule"] for line in ended.lines] == [DENY, None, None, None]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not a JSON object"),
        ("not json", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"arguments": {}}', "`tool`"),
        ('{"tool": 3, "arguments": {}}', "`tool`"),
        ('{"tool": "read_file"}', "`arguments`"),
        ('{"tool": "read_file", "arguments": {}, "mode": "fast"}', "`mode`"),
        ('{"tool": "read_file", "arguments": {}, "mode": ["yolo"]}', "`mode`"),
    ],
)
def test_a_line_that_is_no_call_is_denied_and_the_others_are_answered(
    command: Command, line: str, why: str
) -> None:
    good = call("read_file", {"path": "a"})
    ended = command.run("policy", "check", "-", "--json", stdin=f"{good}\n{line}\n{good}\n")
    assert ended.code == 2
    assert [answer["verdict"] for answer in ended.lines] == ["allow", "deny", "allow"]
    assert "line 2 is not a call" in ended.lines[1]["reason"]
    assert why in ended.lines[1]["reason"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (call("no_such_tool", {}), "no tool named 'no_such_tool'"),
        (call("read_file", {}), "path"),
        (call("read_file", "no json"), "JSON"),
        (call("read_file", {"path": "a\0b"}), "NUL"),
        (call("read_file", {"path": "\ud800"}), "surrogate"),
    ],
)
def test_a_call_that_cannot_run_is_denied(command: Command, line: str, why: str) -> None:
    ended = command.run("policy", "check", "-", "--json", stdin=f"{line}\n")
    assert ended.code == 0
    assert ended.result["verdict"] == "deny"
    assert why in ended.result["reason"]


def test_an_answer_comes_while_the_next_line_is_still_to_be_written(command: Command) -> None:
    line = command.line("policy", "check", "-", "--json")
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=command.env, cwd=command.folder, text=True
    )
    with process as talk:
        assert talk.stdin is not None
        assert talk.stdout is not None
        for path, verdict in (("a", "allow"), ("/etc/passwd", "ask")):
            talk.stdin.write(call("read_file", {"path": path}) + "\n")
            talk.stdin.flush()
            assert json.loads(talk.stdout.readline())["verdict"] == verdict
        talk.stdin.close()
    assert process.returncode == 0


def test_ctrl_c_ends_it_while_it_waits_for_a_line(command: Command) -> None:
    line = command.line("policy", "check", "-", "--json")
    process = subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command.env,
        text=True,
    )
    with process as talk:
        assert talk.stdin is not None
        assert talk.stdout is not None
        talk.stdin.write(call("read_file", {"path": "a"}) + "\n")
        talk.stdin.flush()
        talk.stdout.readline()
        os.kill(process.pid, 2)
        assert process.wait(60) == 130


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("check", "-"),
        ("check", "ls", "--last", "3d"),
        ("check", "git", "status"),
        ("check", "ls", "--allow", "read_fil(x)"),
        ("suggest", "x"),
        ("guess",),
        (),
    ],
)
def test_words_that_do_not_go_together_are_refused(command: Command, words: tuple[str, ...]) -> None:
    ended = command.run("policy", *words)
    assert (ended.code, ended.out) == (2, "")


CIRCUMSTANCES = (
    ("--sandbox", "off"), ("--sandbox", "auto"), ("--sandbox", "auto", "--allow-net", "example.org"),
    ("--sandbox", "auto", "--allow", "run_shell_command(touch *)"), ("--sandbox", "auto", "--deny", DENY),
)  # fmt: skip
WISHES = (
    "touch made",
    "rm -rf build",
    "echo x >> data/x",
    "echo x >> .config/sandbur/config.toml",
    "touch .ssh/x",
)


@pytest.mark.slow
@pytest.mark.parametrize("words", CIRCUMSTANCES, ids=" ".join)
@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "yolo"])
def test_it_says_what_a_run_under_the_same_flags_says(
    command: Command, words: tuple[str, ...], mode: str
) -> None:
    for wish in WISHES:
        said = command.run("policy", "check", wish, "--json", "--mode", mode, *words).result
        run = command.run(
            "-p", f"run {wish}", "-m", "demo", "--mode", mode, "--output-format", "json", *words
        )
        pending = run.result["pending"]
        became = "ask" if pending else "deny" if run.result["status"] == "denied" else "allow"
        assert said["verdict"] == became, (wish, said, run.result)
        if pending:
            assert said["reason"] == pending[0]["reason"], wish
