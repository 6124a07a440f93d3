"""The policy of the machine: nothing lifts it, and a policy that is wrong or not safe lets nothing run."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.machine import Machine
from support.required import require

from sandbur import Agent
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.config.trust import trust
from sandbur.agent.policy.judge import Judge
from sandbur.agent.runtime.wiring import choose_sandbox, gates_of, settings_of_resumed, settings_of_session
from sandbur.state.application import PlanTerms
from sandbur.state.errors import ConfigError
from sandbur.testing import ScriptedModel, ToolCall

POLICY = """
deny = ["run_shell_command(curl *)", "read_file(secrets/**)"]
ask = ["write_file"]
sandbox = "required"
"""
LOOSE = """
allow = ["run_shell_command(curl x)", "run_shell_command", "write_file", "read_file"]
sandbox = "off"
"""
CALLS = (
    ("run_shell_command", {"command": "curl x"}, "deny"),
    ("run_shell_command", {"command": "sh -c 'curl x'"}, "deny"),
    ("read_file", {"path": "secrets/a"}, "deny"),
    ("write_file", {"path": "a.txt", "content": "x"}, "ask"),
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine whose variable names a policy."""
    machine = Machine(tmp_path)
    machine.env["SANDBUR_POLICY"] = str(machine.write(tmp_path / "etc/policy.toml", POLICY))
    return machine


def by_flags(machine: Machine) -> dict[str, Any]:
    return {"allow": ("run_shell_command(curl x)", "write_file"), "sandbox": "off", "mode": "yolo"}


def by_variables(machine: Machine) -> dict[str, Any]:
    machine.env |= {"SANDBUR_ALLOW": "run_shell_command,write_file,read_file", "SANDBUR_SANDBOX": "off"}
    return {}


def by_own_file(machine: Machine) -> dict[str, Any]:
    machine.write(machine.user_config, LOOSE + 'catastrophic = "run"\n')
    return {}


def by_project(machine: Machine) -> dict[str, Any]:
    machine.write(machine.project_config, LOOSE)
    trust(machine.project, machine.env, LOOSE.encode())
    return {}


@pytest.mark.parametrize("plan", [None, ("run_shell_command(curl *)", "write_file", "read_file")])
@pytest.mark.parametrize("loosen", [by_flags, by_variables, by_own_file, by_project])
def test_nothing_lifts_the_policy(
    machine: Machine, loosen: Callable[[Machine], dict[str, Any]], plan: tuple[str, ...] | None
) -> None:
    flags = loosen(machine)
    settings = machine.load(**flags)
    stored = settings_of_session(settings, "m").model_copy(
        update={"allow": ("run_shell_command", "write_file", "read_file"), "sandbox": "off"}
    )
    terms = None if plan is None else PlanTerms(digest="", rules=plan)
    for session in (stored, settings_of_resumed(stored, settings, flags)):
        judge = Judge(gates_of(settings, machine.env, None)(session), builtin_tools(), terms)
        for mode in ("yolo", "auto-edit", "interactive"):
            verdicts = [judge.verdict(tool, json.dumps(given), mode) for tool, given, _ in CALLS]
            assert [one.decision for one in verdicts] == [decision for _, _, decision in CALLS]
            assert all(machine.env["SANDBUR_POLICY"] in one.reason for one in verdicts)
        assert choose_sandbox(session, settings) == "required"
    assert (settings.sandbox, settings.sources["sandbox"]) == (
        "required",
        (machine.env["SANDBUR_POLICY"],),
    )


@pytest.mark.parametrize("named", ["{}", "/etc/sandbur/policy.toml", "/etc/sandbur/other"])
def test_a_write_to_the_policy_asks_in_every_mode(machine: Machine, named: str) -> None:
    path = named.format(machine.env["SANDBUR_POLICY"])
    machine.write(Path(machine.env["SANDBUR_POLICY"]), "")
    settings = machine.load(mode="yolo")
    session = settings_of_session(settings, "m").model_copy(update={"allow": ("run_shell_command",)})
    judge = Judge(gates_of(settings, machine.env, None)(session), builtin_tools())
    assert judge.command_verdict(f"echo x > {path}", "yolo").decision == "ask"
    given = json.dumps({"path": path, "content": "x"})
    assert judge.verdict("write_file", given, "yolo").decision == "ask"


async def test_an_agent_of_a_program_has_the_policy_also_of_the_process(
    tmp_path: Path, machine: Machine
) -> None:
    model = ScriptedModel([ToolCall("run_shell_command", command="curl x"), "done"])
    agent = Agent(
        model,
        tools=[builtin_tools()["run_shell_command"]],
        allow=["run_shell_command"],
        mode="yolo",
        cwd=machine.project,
        store="memory:",
        planning="off",
        env={**machine.env, "SANDBUR_POLICY": machine.env["SANDBUR_POLICY"]},
    )
    result = await agent.run("go")
    assert result.status == "denied"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('allow = ["read_file"]', "no key `allow`"),
        ('deny = "read_file"', "list of rules"),
        ("deny = [1]", "list of rules"),
        ('deny = ["run_shel_command"]', "names no tool"),
        ('ask = ["x("]', "cannot be read"),
        ('sandbox = "off"', 'only be "required"'),
        ("deny = [", "not valid TOML"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_policy_that_is_wrong_lets_nothing_run(machine: Machine, content: str | bytes, says: str) -> None:
    machine.write(Path(machine.env["SANDBUR_POLICY"]), content)
    problem = machine.problem()
    assert isinstance(problem, ConfigError)
    assert says in problem.message


def make_writable(path: Path) -> None:
    path.chmod(0o666)


def make_writable_by_group(path: Path) -> None:
    path.chmod(0o620)


def make_folder_writable(path: Path) -> None:
    path.parent.chmod(0o777)


def remove(path: Path) -> None:
    path.unlink()


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def link_into_open_folder(path: Path) -> None:
    folder = path.parent / "open"
    folder.mkdir()
    path.rename(folder / "real.toml")
    folder.chmod(0o777)
    path.symlink_to(folder / "real.toml")


@pytest.mark.parametrize(
    "spoil",
    [
        make_writable,
        make_writable_by_group,
        make_folder_writable,
        remove,
        make_folder,
        make_pipe,
        link_to_nothing,
        link_into_open_folder,
    ],
)
def test_a_policy_that_others_can_change_or_nobody_can_read_lets_nothing_run(
    machine: Machine, spoil: Callable[[Path], None]
) -> None:
    spoil(Path(machine.env["SANDBUR_POLICY"]))
    assert isinstance(machine.problem(), ConfigError)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_policy_of_another_user_lets_nothing_run(machine: Machine) -> None:
    os.chown(machine.env["SANDBUR_POLICY"], 12345, -1)
    assert "belongs to the user 12345" in machine.problem().message


@pytest.mark.slow
def test_the_file_in_etc_counts_beside_the_one_that_the_variable_names(tmp_path: Path) -> None:
    require("bwrap")
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "policy.toml").write_text('deny = ["run_shell_command(curl *)"]\n')
    (tmp_path / "own.toml").write_text('ask = ["run_shell_command(ls *)"]\n')
    command = Command(tmp_path)

    def run(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        confined = ["bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--dev-bind", "/", "/"]
        confined += ["--tmpfs", "/etc", "--bind", str(folder), "/etc/sandbur"]
        return subprocess.run(
            [*confined, *command.line(*words)],
            env={**command.env, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    named = {"SANDBUR_POLICY": str(tmp_path / "own.toml")}
    assert "denied by rule run_shell_command(curl *) of /etc/sandbur/policy.toml" in " ".join(
        run("policy", "check", "curl x", "--allow", "run_shell_command", "-y", **named).stdout.split()
    )
    assert "verdict  ask" in run("policy", "check", "ls", **named).stdout
    assert "/etc/sandbur/policy.toml: 1 deny rule" in run("doctor", **named).stdout
    (folder / "policy.toml").chmod(0o666)
    refused = run("-p", "hello", "-m", "demo")
    assert (refused.returncode, refused.stdout) == (52, "")
    assert "/etc/sandbur/policy.toml can be changed by others" in refused.stderr
