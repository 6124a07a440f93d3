"""A command that wants to ask somebody is ended, or ends by itself, and is told what to do instead."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from support.required import require

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.tool import RunShellCommand

pytestmark = pytest.mark.slow

ON_A_TERMINAL = """
import os, pty, sys
pid, end = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        os.write(1, os.read(end, 1000))
    except OSError:
        break
"""


async def run(folder: Path, command: str) -> ToolOutcome:
    tool = RunShellCommand()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"command": command})), context)


ALONE = f"{sys.executable} terminal.py"
ASKING = {"head": f"{ALONE} head -1", "bash": f"{ALONE} bash -c 'read -p Sure? x'"}
LOOKED_AFTER = f"{ALONE} cat & for n in $(seq 200); do sleep 0.1; done; kill %1; echo over"
ONLY_SLOW = f"{ALONE} sleep 20; echo over"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ToolOutcome]:
    """Return what became of the commands that take twenty seconds; they run at once."""

    async def ended(command: str) -> ToolOutcome:
        folder = tmp_path_factory.mktemp("terminal")
        folder.joinpath("terminal.py").write_text(ON_A_TERMINAL)
        async with asyncio.timeout(90):
            return await run(folder, command)

    async def all_ended() -> dict[str, ToolOutcome]:
        commands = (*ASKING.values(), LOOKED_AFTER, ONLY_SLOW)
        return dict(zip(commands, await asyncio.gather(*map(ended, commands)), strict=True))

    return asyncio.run(all_ended())


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="the kernel does not tell system calls")
@pytest.mark.parametrize("asking", ASKING)
def test_a_command_that_reads_from_a_terminal_of_its_own_is_ended(
    outcomes: dict[str, ToolOutcome], asking: str
):
    outcome = outcomes[ASKING[asking]]
    assert outcome.outcome == "error"
    assert f"[stopped: {asking} waited for keyboard input" in outcome.content


def test_a_terminal_that_the_command_itself_looks_after_is_left_alone(outcomes: dict[str, ToolOutcome]):
    assert outcomes[LOOKED_AFTER].content.startswith("over\n")


def test_a_command_that_is_only_slow_is_left_alone(outcomes: dict[str, ToolOutcome]):
    assert outcomes[ONLY_SLOW].content == "over\nexit code: 0"


QUESTIONS = {
    "an editor for a commit": (
        "git init -q . && touch a && git add a && git -c user.name=n -c user.email=e commit"
    ),
    "a password": "echo 'sudo: a terminal is required to read the password' >&2; exit 1",
    "python's input": f"{sys.executable} -c 'input()'",
    "the terminal itself": "exec 3</dev/tty",
}


@pytest.mark.parametrize("command", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_command_that_cannot_ask_ends_with_advice(tmp_path: Path, command: str):
    if command.startswith("git"):
        require("git")
    async with asyncio.timeout(60):
        outcome = await run(tmp_path, command)
    assert outcome.outcome == "error"
    assert "[it asked for input, but nobody can answer" in outcome.content


async def test_what_succeeds_needs_no_advice(tmp_path: Path):
    outcome = await run(tmp_path, "echo 'the input device is not a TTY'")
    assert outcome.content == "the input device is not a TTY\nexit code: 0"
