"""`--agent MODULE:NAME` names an agent of a program, or says in one sentence why it cannot."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command

SESSION = "11111111-2222-4333-8444-555555555555"
AGENT = """\
import asyncio

from sandbur import Agent
from sandbur.testing import ScriptedModel

agent = Agent(ScriptedModel(["Hello from the shop."]), store="sqlite:///shop.db")
"""
RUNS = {
    "run_sync": 'agent.run_sync("hi")  # here',
    "asyncio.run": 'asyncio.run(agent.run("hi"))  # here',
    "a runner": 'with asyncio.Runner() as runner:  # here\n    runner.run(agent.run("hi"))',
    "a loop": "loop = asyncio.new_event_loop()\n"
    'try:\n    loop.run_until_complete(agent.run("hi"))  # here\nfinally:\n    loop.close()',
    "a function": 'def main():\n    return agent.run_sync("hi")\n\n\nmain()  # here',
}


@pytest.mark.parametrize("way", RUNS)
def test_a_module_that_starts_a_run_when_it_is_imported_is_told_the_guard(tmp_path: Path, way: str) -> None:
    (tmp_path / "shop.py").write_text(f"{AGENT}{RUNS[way]}\n")
    ended = Command(tmp_path).run("--agent", "shop:agent", "-p", "hi", COLUMNS="300")
    lines = f"{AGENT}{RUNS[way]}".splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith("# here"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"sandbur: shop.py starts a run in line {number} while it is imported. "
        'Put what runs the agent below `if __name__ == "__main__":`.\n'
    )


def test_a_guarded_module_is_a_program_and_an_agent_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f'{AGENT}if __name__ == "__main__":\n    {RUNS["run_sync"]}\n')
    ended = Command(tmp_path).run("--agent", "shop:agent", "-p", "hi")
    assert (ended.code, ended.out) == (0, "Hello from the shop.\n")


def test_any_other_failure_of_a_module_is_told_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text('raise RuntimeError("asyncio.run() is not what failed")')
    ended = Command(tmp_path).run("--agent", "shop:agent", "-p", "hi", COLUMNS="300")
    assert ended.code == 2
    assert "shop cannot be imported: RuntimeError: asyncio.run() is not what failed." in ended.err


TOKEN = "sk-ant-api03-" + "Kq7Zx2Vw9Rt4" * 7 + "AA"
WORD = "pineapple-harbour-77"


@pytest.mark.parametrize("flags", [(), ("-v",), ("--output-format", "json")])
@pytest.mark.parametrize(
    "line",
    [
        f'raise RuntimeError("refused: {TOKEN} {WORD}")',
        f'raise ModuleNotFoundError("no {TOKEN} {WORD}", name="other")',
        f'raise ImportError("no {TOKEN} {WORD}")',
        f'class Odd(Exception):\n    pass\n\n\nraise Odd({{"token": "{TOKEN}", "word": "{WORD}"}})',
    ],
)
def test_a_secret_in_the_error_of_a_module_is_nowhere(
    tmp_path: Path, line: str, flags: tuple[str, ...]
) -> None:
    (tmp_path / "shop.py").write_text(f"{line}\n")
    (tmp_path / ".env").write_text(f"SHOP_TOKEN={WORD}\n")
    command = Command(tmp_path)
    ended = command.run("--agent", "shop:agent", "-p", "hi", *flags, SHOP_PASSWORD=WORD)
    assert ended.code == 2
    assert "shop cannot be imported" in " ".join(f"{ended.out}{ended.err}".split())
    log = tmp_path / "data" / "crash.log"
    texts = ended.out, ended.err, log.read_text() if log.exists() else ""
    assert not any(secret in text for secret in (TOKEN, WORD) for text in texts)


def test_a_module_that_ends_the_process_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import sys\n\nsys.exit(3)\n")
    ended = Command(tmp_path).run("--agent", "shop:agent", "-p", "hi", COLUMNS="300")
    assert ended.code == 2
    assert "shop ends the process while it is imported." in ended.err


PRINTS = """\
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

print("from the module")


@tool(effect="read")
def look() -> str:
    \'\'\'Look.\'\'\'
    print("from the tool")
    return "seen"


agent = Agent(ScriptedModel([ToolCall("look"), "Done."]), tools=[look])
"""


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_what_a_program_prints_is_not_on_stdout(tmp_path: Path, form: str) -> None:
    (tmp_path / "shop.py").write_text(PRINTS)
    ended = Command(tmp_path).run("--agent", "shop:agent", "-p", "hi", "--output-format", form)
    assert (ended.code, "from the" in ended.out) == (0, False)
    assert "from the module\n" in ended.err
    assert "from the tool\n" in ended.err
    assert ended.out.endswith("Done.\n") if form == "text" else ended.result["result"] == "Done."


MODES = """\
from sandbur import Agent, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall

turn = [ToolCall("write_file", path="made", content="x"), "Done."]
agent = Agent(ScriptedModel(turn), mode="yolo", tools=[*workspace_tools()])
other = Agent(ScriptedModel(turn), mode="auto-edit", tools=[*workspace_tools()])
"""


@pytest.mark.parametrize("way", ["flag", "configuration", "none"])
def test_a_session_keeps_its_mode_when_its_agent_resumes_it(tmp_path: Path, way: str) -> None:
    (tmp_path / "shop.py").write_text(MODES)
    command = Command(tmp_path)
    first = command.run("-p", "/mode plan", "--agent", "shop:agent", "--session-id", SESSION)
    assert first.code == 0, first.err
    env = {"SANDBUR_AGENT": "shop:agent"} if way == "configuration" else {}
    words = ("--agent", "shop:agent") if way == "flag" else ()
    again = command.run("-p", "write it", "-r", SESSION, *words, "--output-format", "stream-json", **env)
    begin = json.loads(again.out.splitlines()[0])
    assert (begin["type"], begin["mode"]) == ("init", "plan")
    assert not (tmp_path / "made").exists()


def test_a_flag_changes_the_mode_of_a_resumed_session_and_another_agent_brings_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(MODES)
    command = Command(tmp_path)
    begun = ("-p", "/mode plan", "--agent", "shop:agent", "--session-id", SESSION)
    resumed = ("-p", "write it", "-r", SESSION, "--output-format", "stream-json", "--agent")
    assert command.run(*begun).code == 0
    flag = command.run(*resumed, "shop:agent", "--mode", "interactive")
    assert json.loads(flag.out.splitlines()[0])["mode"] == "interactive"
    other = command.run(*resumed, "shop:other")
    assert json.loads(other.out.splitlines()[0])["mode"] == "auto-edit"
