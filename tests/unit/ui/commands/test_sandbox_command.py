"""The flags of the sandbox: what is told, what is kept, and what happens where there is none."""

import json
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.command import Command
from support.places import ROOT
from support.required import unless
from support.tools.sandboxes import KINDS, trouble_with

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter of this test is x86-64's"),
]
needs_one = unless(
    sys.platform != "linux" or not all(map(trouble_with, KINDS)), "no sandbox works on this machine"
)
WITHOUT = """
import os, sys
sys.path.insert(0, sys.argv[1])
import confine
confine.filter_calls(int(sys.argv[2]))
os.execv(sys.argv[3], sys.argv[3:])
"""
INSIDE = ROOT / "actions/tools/shell/sandbox/inside"
UNSHARE, LANDLOCK = 272, 444


def refusing(*numbers: int) -> bytes:
    """Return a filter under which the kernel has no such system calls."""
    codes = [(0x20, 0, 0, 0)]
    for number in numbers:
        codes += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 38)]
    codes += [(0x06, 0, 0, 0x7FFF0000)]
    return b"".join(struct.pack("=HBBI", *code) for code in codes)


def run_without_any(command: Command, tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run `sandbur` where there is no bubblewrap, and the kernel has no Landlock and no namespaces."""
    program = tmp_path / "filter"
    program.write_bytes(refusing(UNSHARE, LANDLOCK))
    with program.open("rb") as file:
        return subprocess.run(
            [sys.executable, "-c", WITHOUT, INSIDE, str(file.fileno()), *command.line(*words)],
            cwd=command.folder,
            env={**command.env, "PATH": str(tmp_path)},
            pass_fds=[file.fileno()],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=100,
        )


def test_a_required_sandbox_that_is_not_there_ends_before_anything_runs(command: Command, tmp_path: Path):
    ended = run_without_any(
        command, tmp_path, "-p", "-y", "-m", "demo", "--sandbox", "required", "--output-format", "json", "go"
    )
    result = json.loads(ended.stdout)
    assert (ended.returncode, result["exit_code"], result["error"]["code"]) == (44, 44, "sandbox")
    assert "bubblewrap: bwrap is not installed; landlock: this kernel does not offer it" in ended.stderr
    assert command.run("sessions", "list", "--json").out.strip() in ("", "[]")


def test_a_sandbox_that_would_be_nice_is_missed_once(command: Command, tmp_path: Path):
    ended = run_without_any(
        command, tmp_path, "-p", "-m", "demo", "--sandbox", "auto", "--output-format", "stream-json", "hello"
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("There is no sandbox here, so commands run without one") == 1
    assert json.loads(ended.stdout.splitlines()[0])["sandbox"] == "off"


@needs_one
def test_the_first_line_of_a_stream_says_what_commands_run_in(command: Command):
    ended = command.run(
        "-p", "-m", "demo", "--sandbox", "required", "--output-format", "stream-json", "hello"
    )
    assert ended.lines[0]["sandbox"] in ("bubblewrap, network off", "landlock, network off")
    assert "Commands run in a sandbox: " in ended.err
    ended = command.run(
        "-p", "-m", "demo", "--sandbox", "auto", "--allow-net", "pypi.org", "--allow-net=*.npmjs.org",
        "--output-format", "stream-json", "hello",
    )  # fmt: skip
    assert ended.lines[0]["sandbox"].endswith(", network pypi.org, *.npmjs.org")


def test_without_the_flag_there_is_none(command: Command):
    ended = command.run("-p", "-m", "demo", "--output-format", "stream-json", "hello")
    assert ended.lines[0]["sandbox"] == "off"


@needs_one
def test_a_session_keeps_its_sandbox_until_a_flag_changes_it(command: Command):
    first = command.run("-p", "-m", "demo", "--sandbox", "required", "--output-format", "json", "hello")
    session = first.result["session_id"]

    def sandbox(*words: str, **env: str) -> str:
        again = command.run("-p", "-r", session, *words, "--output-format", "stream-json", "more", **env)
        return again.lines[0]["sandbox"]

    assert sandbox() != "off"
    assert sandbox(SANDBUR_SANDBOX="off") != "off"
    assert sandbox("--sandbox", "off") == "off"
    assert sandbox(SANDBUR_SANDBOX="required") != "off"


@needs_one
def test_the_doctor_says_which_sandboxes_work(command: Command):
    ended = command.run("doctor")
    line = next(line for line in ended.out.splitlines() if " sandbox " in line)
    assert "off; bubblewrap " in line
    assert " works" in line


@needs_one
def test_a_report_names_the_sandbox(command: Command):
    session = command.run(
        "-p", "-m", "demo", "--sandbox", "required", "--output-format", "json", "hello"
    ).result["session_id"]
    assert " · sandbox `required`*\n" in command.run("sessions", "export", session, "--format", "md").out


@pytest.mark.parametrize("wish", ["on", ""])
def test_a_wish_that_is_none_is_refused(command: Command, wish: str):
    ended = command.run("-p", "-m", "demo", f"--sandbox={wish}", "hello")
    assert ended.code == 2
