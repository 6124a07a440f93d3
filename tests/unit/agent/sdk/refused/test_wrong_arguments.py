"""What an agent is made with and does not fit is one sentence, where it stands; what it may be is listed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sandbur
from sandbur import Agent, SandburError, SessionHeld, tool, web_tools
from sandbur.testing import ScriptedModel


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]} | {
        name: value for name, value in os.environ.items() if name == "SANDBUR_LEASE_S"
    }


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


OF_A_TYPE: list[dict[str, Any]] = [
    {"model": 5}, {"model": ScriptedModel}, {"tools": double}, {"tools": "double"}, {"tools": 5},
    {"limits": {}}, {"limits": 5}, {"allow": "f"}, {"deny": "f"}, {"ask": 5}, {"allow": [5]},
    {"fallback_models": "a/b"}, {"middleware": object()}, {"middleware": [object()]}, {"instructions": 5},
    {"mcp_servers": 5}, {"cwd": 5}, {"store": 5}, {"env": 5}, {"add_dirs": "x"}, {"groups": "x"},
]  # fmt: skip
OF_A_VALUE: list[dict[str, Any]] = [
    {"mode": "fast"}, {"effort": "much"}, {"sandbox": "maybe"}, {"compress_at": "x"}, {"planning": "on"},
    {"max_listed_tools": "many"}, {"max_result_tokens": -5}, {"mcp_servers": {"x": {"comand": "y"}}},
    {"limits": sandbur.Limits(max_turns="5")}, {"output": 5},  # type: ignore[arg-type]
]  # fmt: skip


def require_one_sentence(error: SandburError) -> None:
    text = str(error)
    assert text.endswith((".", "?", "`", "]"))
    assert "command line" not in text.lower()
    assert "--" not in text
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize("wrong", OF_A_TYPE, ids=lambda wrong: next(iter(wrong)))
def test_an_argument_of_a_wrong_type_is_a_type_error_of_one_sentence(
    wrong: dict[str, Any], env: dict[str, str]
) -> None:
    given = {"model": "demo", "env": env, **wrong}
    with pytest.raises(SandburError) as caught:
        Agent(**given)
    assert isinstance(caught.value, TypeError)
    assert next(iter(wrong)) in str(caught.value)
    require_one_sentence(caught.value)


@pytest.mark.parametrize("wrong", OF_A_VALUE, ids=lambda wrong: next(iter(wrong)))
def test_a_value_that_is_not_possible_is_said_when_the_agent_is_made(
    wrong: dict[str, Any], env: dict[str, str]
) -> None:
    given = {"model": "demo", "env": env, **wrong}
    with pytest.raises(SandburError) as caught:
        Agent(**given)
    require_one_sentence(caught.value)


@pytest.mark.parametrize("wrong", [5, ["text"]])
def test_a_decorator_that_is_given_no_function_says_so(wrong: Any) -> None:
    with pytest.raises(TypeError, match="@tool takes a function") as caught:
        tool(wrong)
    assert isinstance(caught.value, SandburError)


async def test_run_sync_in_a_running_loop_says_what_to_write(env: dict[str, str]) -> None:
    with pytest.raises(SandburError, match=r"await agent\.run"):
        Agent(ScriptedModel([]), env=env).run_sync("Hi")


@pytest.mark.parametrize("output", [None, str])
async def test_an_output_of_none_is_a_text(env: dict[str, str], output: Any) -> None:
    result = await Agent(ScriptedModel(["Hello."]), output=output, env=env).run("Hi")
    assert (result.output, result.raise_for_status().output) == ("Hello.", "Hello.")


async def test_a_result_of_another_form_than_the_agent_wants_is_not_passed_on_as_done(
    env: dict[str, str],
) -> None:
    await Agent(ScriptedModel(["Hello."]), env=env).run("Hi", session_id="s")
    result = await Agent(ScriptedModel(["Again."]), output=int, env=env).run("Hi", session_id="s")
    assert (result.status, result.output, result.text) == ("done", None, "Again.")
    with pytest.raises(sandbur.RunFailed, match="not of the type"):
        result.raise_for_status()


def test_the_tools_of_the_web_are_there_for_programs() -> None:
    assert [one.spec.name for one in web_tools()] == ["http_request", "web_fetch"]
    found = web_tools(search="searxng", search_url="http://127.0.0.1:9")
    assert [one.spec.name for one in found] == ["http_request", "web_fetch", "web_search"]
    listed: list[Any] = [
        {"search": "altavista"}, {"search_url": "http://x"}, {"search": "brave", "search_url": "x"}
    ]  # fmt: skip
    for wrong in listed:
        with pytest.raises(SandburError) as caught:
            web_tools(**wrong)
        require_one_sentence(caught.value)


HOLDER = """
import asyncio, sys
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

@tool(effect="read")
async def wait() -> str:
    "Wait."
    print("running", flush=True)
    await asyncio.sleep(3600)
    return ""

asyncio.run(Agent(ScriptedModel([ToolCall("wait")]), tools=[wait]).run("wait", session_id="s"))
"""


async def test_a_session_that_another_process_runs_is_refused_when_it_is_entered(env: dict[str, str]) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"running\n"
    agent = Agent(ScriptedModel(["Hi."]), env=env)
    with pytest.raises(SessionHeld, match="is running in process"):
        await agent.session("s").__aenter__()
    holder.kill()
    await holder.communicate()
    async with agent.session("s") as session:
        assert (await session.run("Hi")).output == "Hi."
