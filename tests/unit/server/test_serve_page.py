"""What `docs/serve.md` tells people to type works, block by block."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.network.sandbur_server import RunningServer, serve
from support.places import ROOT
from support.required import require

PAGE = (ROOT / "docs" / "serve.md").read_text("utf-8")
BLOCKS = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)]
LINES = [line for block in BLOCKS for line in block.splitlines()]
STARTS = [line for line in LINES if re.match(r"sandbur serve( -|$)", line)]
OTHERS = [line for line in LINES if line.startswith("sandbur") and line not in STARTS]
CURLS = [line for line in LINES if line.startswith("curl")]
SUPPORT = """
from sandbur import Agent
from sandbur.testing import ScriptedModel

agent = Agent(ScriptedModel(["hi"]), instructions="You help customers.")
"""
BILLING = "model: demo\ninstructions: You know about bills.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page names, and with `sandbur` on the PATH."""
    home = tmp_path_factory.mktemp("page")
    work, programs = home / "work", home / "bin"
    (work / "support").mkdir(parents=True)
    programs.mkdir()
    (work / "support" / "bot.py").write_text(SUPPORT)
    (work / "billing.yaml").write_text(BILLING)
    program = programs / "sandbur"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sandbur.ui.cli.main "$@"\n')
    program.chmod(0o755)
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[RunningServer]:
    with serve(home, "--mode", "yolo") as running:
        yield running


def environment_of(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR")}
    return {
        **clean, "HOME": str(home), "SANDBUR_HOME": str(home / "sandbur"), "SANDBUR_MODEL": "demo",
        "PATH": f"{home}/bin:{os.environ['PATH']}", **more,
    }  # fmt: skip


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_the_page_has_every_kind_of_line() -> None:
    assert (len(STARTS), len(OTHERS), len(CURLS)) == (3, 6, 2)
    assert len(STARTS) + len(OTHERS) + len(CURLS) == len([line for line in LINES if line.strip()])


@pytest.mark.parametrize("line", STARTS)
def test_each_line_that_starts_a_server_starts_one(home: Path, line: str) -> None:
    port = find_free_port()
    line = line.replace("--port 7252", "") + f" --port {port}"
    with subprocess.Popen(
        ["sh", "-c", f"exec {line}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=home / "work", env=environment_of(home, SANDBUR_HOME=str(home / f"own{port}")),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        if first:
            RunningServer(port, "", process).ask("GET", "/healthz", token="")
        process.send_signal(signal.SIGTERM)
        errors = process.stderr.read()
        code = process.wait(60)
    assert re.match(rf"Serving http://[\w.-]+:{port}/", first), errors
    assert code == 128 + signal.SIGTERM


def test_the_other_commands_of_the_page_work_one_after_the_other(home: Path, server: RunningServer) -> None:
    known = ""
    for line in OTHERS:
        words = shlex.split(line)
        if "revoke-token" in words:
            words[-1] = known
        run = subprocess.run(
            words, cwd=home / "work", env=environment_of(home), capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, (line, run.stderr)
        if "list-tokens" in words:
            known = run.stdout.split()[0]
            assert run.stdout.split()[1:3] == ["ci", "read,run"]
    assert (home / "work" / "sandbur_client.ts").exists()


def test_the_requests_of_the_page_are_answered(home: Path, server: RunningServer) -> None:
    require("curl")
    environment = environment_of(home, TOKEN=server.token)
    begin, follow = (line.replace("7252", str(server.port)) for line in CURLS)
    run = subprocess.run(["sh", "-c", begin], env=environment, capture_output=True, text=True, check=True)
    assert '"session_id": "order-17"' in run.stdout
    server.wait_for("order-17", "done")
    with subprocess.Popen(
        ["sh", "-c", f"exec {follow}"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as stream:
        assert stream.stdout is not None
        assert any(b'"type": "result"' in line for line in stream.stdout)
        stream.kill()


def test_the_python_program_of_the_page_runs_with_the_client_beside_it(
    home: Path, server: RunningServer
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    folder = home / "program"
    folder.mkdir()
    (line,) = [one for one in OTHERS if "client python" in one]
    subprocess.run(["sh", "-c", line], cwd=folder, env=environment_of(home), capture_output=True, check=True)
    (folder / "program.py").write_text(block.replace("7252", str(server.port)))
    run = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env=environment_of(home, TOKEN=server.token),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip()
