"""What a type checker sees of Sandbur in somebody's own program, where it is installed from its sources."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pydantic
import pytest
from support.places import ROOT

PROGRAM = """
from dataclasses import dataclass, replace
from typing import assert_type

from collections.abc import Mapping
from typing import Any

from sandbur import Agent, DoneResult, EventStream, Message, ModelRetry, PendingToolCall, RunContext
from sandbur import RunResult, tool, web_tools
from sandbur.testing import ScriptedModel


@dataclass
class Report:
    text: str


@tool(effect="read", repeats=True)
async def find(email: str) -> int:
    return len(email)


async def main() -> None:
    agent = Agent(ScriptedModel(["x"]), tools=[find, *web_tools()], output=Report, planning="off")
    assert_type(agent, Agent[Report])
    result = await agent.run("x")
    assert_type(result, RunResult[Report])
    assert_type(result.output, Report | None)
    assert_type(result.raise_for_status(), DoneResult[Report])
    assert_type(result.raise_for_status().output, Report)
    either = Agent("demo", output=int | str)
    assert_type((await either.run("x")).raise_for_status().output, int | str)
    assert_type((await Agent("demo").run("x")).raise_for_status().output, str)
    assert_type(agent.stream("x"), EventStream)
    Agent("demo", limits={})  # expected: an error
    agent.add_hook("pre_acting", lambda call: replace(call, arguments={}))
    Agent.add_class_hook("post_reply", sign)
    agent.add_hook("pre_acting", sign)  # expected: an error


def sign(text: str) -> str | None:
    return f"{text} Yours, Ada."


@dataclass
class Shop:
    name: str


@tool
def sell(item: str, run: RunContext[Shop]) -> str:
    assert_type(run.deps, Shop)
    return run.deps.name


@tool
def greet(name: str, run: RunContext) -> str:
    return f"{run.session_id} {name}"


def instructions(run: RunContext[Shop]) -> str:
    return run.deps.name


async def decide(call: PendingToolCall) -> bool | str | None:
    assert_type(call.arguments, Mapping[str, Any])
    return True


async def own_arguments() -> None:
    agent = Agent("demo", tools=[sell, greet], instructions=["Be kind.", instructions], output=Report)

    @agent.output_validator
    def check(report: Report, run: RunContext[Shop]) -> None:
        if not report.text:
            raise ModelRetry("Write a text.")

    shop, history = Shop("x"), [Message.user("a", name="ada"), Message.assistant("b")]
    assert_type((await agent.run("x", deps=shop)).output, Report | None)
    assert_type((await agent.run("x", deps=shop, output=Shop)).output, Shop | None)
    assert_type(agent.run_sync("x", output=int, message_history=history).raise_for_status().output, int)
    async with agent.session("id", app="shop", user="ada", tags=["a"]) as session:
        assert_type((await session.run("x", output=Shop, tool_choice="none")).output, Shop | None)
        assert_type((await session.run("x", on_approval=decide)).output, Report | None)
        assert_type(session.usage.by_model["m"].cost_usd, float | None)
    assert_type(await agent.approve("id", deps=shop), RunResult[Report])
    async for info in agent.sessions(user="ada", limit=20):
        assert_type(info.user, str)
    assert_type(agent.clone(name="other"), Agent[Report])
    await agent.run("x", dep=shop)  # expected: an error
"""


def installed_from_sources(folder: Path) -> Path:
    """Install a copy of the sources as `pip install -e` does; return the Python that finds it."""
    sources, wheels = folder / "sources", folder / "wheels"
    sources.mkdir()
    wheels.mkdir()
    for name in ("agent", "actions", "state", "ui"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("sandbur.py", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    build = f"from hatchling.build import build_editable; build_editable({str(wheels)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=sources, check=True, capture_output=True)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    (packages / "zz_others.pth").write_text(
        f"{sysconfig.get_paths()['purelib']}\n{Path(pydantic.__file__).parents[1]}\n"
    )
    return python


@pytest.mark.slow
def test_a_type_checker_sees_the_types_of_an_editable_installation(tmp_path: Path) -> None:
    python = installed_from_sources(tmp_path)
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "program.py").write_text(PROGRAM)
    (place / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["program.py"]}')
    line = [sys.executable, "-m", "pyright", "--pythonpath", str(python), "--outputjson"]
    done = subprocess.run(line, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = PROGRAM.splitlines()
    expected = {number for number, text in enumerate(lines) if "# expected: an error" in text}
    numbers = {one["range"]["start"]["line"] for one in found if one["severity"] == "error"}
    assert numbers == expected, found
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "program.py"]
    checked = subprocess.run(mypy, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    wrong = {int(line.split(":")[1]) - 1 for line in checked.stdout.splitlines() if ": error:" in line}
    assert wrong == expected, checked.stdout
    where = [str(python), "-c", "import sandbur; print(sandbur.__file__)"]
    ran = subprocess.run(where, cwd=place, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(tmp_path / "sources" / "sandbur.py")
