"""`execute_python` in sessions: its calls are judged, approved, recorded and masked as any others."""

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.tools.sandboxes import require_code_sandbox

from sandbur import (
    Agent,
    Middleware,
    TaskComplete,
    ToolCallRequest,
    events,
    python_tool,
    tool,
)
from sandbur.actions.tools.python.tool import PythonTool
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, ToolCall

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]


@pytest.fixture(autouse=True)
def _needs_sandbox() -> None:
    require_code_sandbox()


class Shop:
    """Tools that write down what they do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.stock = 3

    @tool(effect="read")
    def look(self, item: str, depth: int = 1) -> dict[str, int]:
        """Look an item up."""
        self.done.append(f"look {item}")
        return {item: self.stock}

    @tool
    def buy(self, item: str, count: int = 1) -> str:
        """Buy an item."""
        self.done.append(f"buy {item} {count}")
        return f"bought {count} {item}"

    @property
    def tools(self) -> list[Any]:
        return [self.look, self.buy]


def agent_of(
    shop: Shop, folder: Path, *turns: Any, tools: Sequence[Any] | None = None, **options: Any
) -> Agent:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    model = ScriptedModel(list(turns))
    given = [python_tool(tools=shop.tools)] if tools is None else tools
    store = f"sqlite:///{folder}/runs.db"
    return Agent(model, tools=given, store=store, cwd=folder, env=env, **options)


def code(text: str) -> ToolCall:
    return ToolCall("execute_python", code=text)


async def result_of(shop: Shop, folder: Path, text: str, **options: Any) -> tuple[str, str]:
    """Return the outcome and the text of one run of code, in yolo mode."""
    agent = agent_of(shop, folder, code(text), "fine", mode="yolo", **options)
    async with agent.session("s1") as session:
        await session.run("go")
        (found,) = [one for message in session.history for one in message.tool_results]
    return found.outcome, found.content


async def test_code_gets_printed_text_and_the_value_of_its_last_expression(tmp_path: Path) -> None:
    text = "import json\nprint('looked')\n{'stock': json.loads(look('nails'))['nails'], 'ok': True}"
    assert await result_of(Shop(), tmp_path, text) == ("ok", 'looked\nvalue: {"stock": 3, "ok": true}')


async def test_an_error_of_the_code_names_its_line(tmp_path: Path) -> None:
    outcome, content = await result_of(Shop(), tmp_path, "print('first')\nx = 1 / 0")
    assert outcome == "error"
    assert content.startswith("first\nTraceback")
    assert 'File "<code>", line 2' in content
    assert "x = 1 / 0\n" in content
    assert "program.py" not in content


async def test_code_that_is_no_python_is_an_error_that_says_where(tmp_path: Path) -> None:
    outcome, content = await result_of(Shop(), tmp_path, "x = (")
    assert outcome == "error"
    assert "SyntaxError" in content


async def test_arguments_that_do_not_fit_raise_in_the_code_and_run_nothing(tmp_path: Path) -> None:
    shop = Shop()
    text = "try:\n    buy('nails', count='many')\nexcept ToolFailed as failed:\n    why = str(failed)\nwhy"
    outcome, content = await result_of(shop, tmp_path, text)
    assert outcome == "ok"
    assert "count must be" in content
    assert shop.done == []


async def test_a_call_of_the_code_asks_and_the_code_goes_on_after_the_approval(tmp_path: Path) -> None:
    shop = Shop()
    agent = agent_of(shop, tmp_path, code("look('nails')\n[buy('nails'), buy('screws', 2)]"), "fine")
    async with agent.session("s1") as session:
        first = await session.run("go")
        assert first.status == "needs_approval"
        (asked,) = session.pending
        assert (asked.call_id, asked.tool) == ("call_1_0/2", "buy")
        assert asked.arguments == {"item": "nails"}
        second = await session.approve()
        assert second.status == "needs_approval"
        assert session.pending[0].call_id == "call_1_0/3"
        assert (await session.approve()).status == "done"
        (found,) = [one for message in session.history for one in message.tool_results]
    assert found.content == 'value: ["bought 1 nails", "bought 2 screws"]'
    assert shop.done == ["look nails", "buy nails 1", "buy screws 2"]


async def test_another_process_decides_and_the_calls_before_are_not_made_again(tmp_path: Path) -> None:
    shop, later = Shop(), Shop()
    text = "stock = look('nails')\nbought = buy('nails')\n[stock, bought, look('screws')]"
    async with agent_of(shop, tmp_path, code(text), "fine").session("s1") as session:
        assert (await session.run("go")).status == "needs_approval"
    later.stock = 99
    async with agent_of(later, tmp_path, "fine").session("s1") as session:
        assert (await session.approve()).status == "done"
        (found,) = [one for message in session.history for one in message.tool_results]
    assert shop.done == ["look nails"]
    assert later.done == ["buy nails 1", "look screws"]
    assert found.content.startswith('value: ["{\\"nails\\":3}", "bought 1 nails"')


async def test_a_denied_call_raises_in_the_code(tmp_path: Path) -> None:
    shop = Shop()
    text = "try:\n    buy('nails')\nexcept ToolFailed as e:\n    why = [e.outcome, str(e)]\nwhy"
    async with agent_of(shop, tmp_path, code(text), "fine").session("s1") as session:
        await session.run("go")
        await session.deny(reason="too dear")
        (found,) = [one for message in session.history for one in message.tool_results]
    assert found.content == 'value: ["denied", "Denied by the user: too dear. It did not run."]'
    assert shop.done == []


async def test_a_call_that_was_edited_is_recognized_when_the_code_runs_again(tmp_path: Path) -> None:
    shop = Shop()
    async with agent_of(shop, tmp_path, code("buy('nails', 7)"), "fine").session("s1") as session:
        await session.run("go")
        done = await session.approve(arguments='{"item": "nails", "count": 2}')
        assert done.status == "done"
        (found,) = [one for message in session.history for one in message.tool_results]
    assert "bought 2 nails" in found.content
    assert shop.done == ["buy nails 2"]


async def test_a_rule_denies_a_call_of_the_code(tmp_path: Path) -> None:
    shop = Shop()
    text = "try:\n    buy('nails')\nexcept ToolFailed as failed:\n    why = failed.outcome\nwhy"
    assert await result_of(shop, tmp_path, text, deny=["buy"]) == ("ok", "value: denied")
    assert shop.done == []


async def test_code_that_takes_another_path_ends_with_what_it_had_done(tmp_path: Path) -> None:
    shop = Shop()
    text = "import time\nlook('nails')\nbuy('nails')\nbuy(f'screws {time.time_ns()}')"
    async with agent_of(shop, tmp_path, code(text), "fine").session("s1") as session:
        await session.run("go")
        await session.approve()
        done = await session.approve()
        (found,) = [one for message in session.history for one in message.tool_results]
    assert done.status == "done"
    assert found.outcome == "error"
    assert "now call 3 is another one than before: buy" in found.content
    assert (
        '1. look {"item": "nails"}: ok\n2. buy {"item": "nails"}: ok\n3. buy {"item": "screws'
        in found.content
    )
    assert [each.split()[0] for each in shop.done] == ["look", "buy", "buy"]


async def test_the_model_gets_signatures_and_not_the_tools_themselves(tmp_path: Path) -> None:
    shop = Shop()
    tools = [shop.look, python_tool(tools=shop.tools)]
    agent = agent_of(shop, tmp_path, "fine", tools=tools, planning="off")
    model = agent.definition.model
    assert isinstance(model, ScriptedModel)
    await agent.run("go")
    offered = {spec.name: spec for spec in model.requests[0].tools}
    assert "look" in offered
    assert "buy" not in offered
    about = offered["execute_python"].description
    assert "def look(item: str, depth: int = 1) -> str:" in about
    assert "def buy(item: str, count: int = 1) -> str:" in about


async def test_without_a_choice_code_calls_all_other_tools(tmp_path: Path) -> None:
    shop = Shop()
    found = await result_of(shop, tmp_path, "look('nails')", tools=[python_tool(), shop.look])
    assert found == ("ok", 'value: {"nails":3}')


async def test_events_name_the_call_that_a_nested_call_belongs_to(tmp_path: Path) -> None:
    shop = Shop()
    agent = agent_of(shop, tmp_path, code("look('nails')"), "fine", mode="yolo")
    kinds = (events.ToolRequested, events.ToolStarted, events.ToolFinished)
    async with agent.session("s1") as session, session.stream("go") as stream:
        seen = [event async for event in stream if isinstance(event, kinds)]
    assert [(type(event).__name__, event.tool, event.parent_call_id) for event in seen] == [
        ("ToolRequested", "execute_python", ""),
        ("ToolStarted", "execute_python", ""),
        ("ToolRequested", "look", "call_1_0"),
        ("ToolStarted", "look", "call_1_0"),
        ("ToolFinished", "look", "call_1_0"),
        ("ToolFinished", "execute_python", ""),
    ]


class Counting(Middleware):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def before_acting(self, call: ToolCallRequest) -> None:
        self.seen.append((call.name, call.parent_call_id))


async def test_middleware_goes_around_nested_calls(tmp_path: Path) -> None:
    counting = Counting()
    await result_of(Shop(), tmp_path, "look('a')\nlook('b')", middleware=[counting])
    assert counting.seen == [("execute_python", ""), ("look", "call_1_0"), ("look", "call_1_0")]


async def test_a_secret_in_a_result_reaches_the_code_masked_and_the_store_never(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 3

    @tool(effect="read")
    def show_key() -> str:
        return f"key {secret}"

    tools = [python_tool(tools=[show_key])]
    outcome, content = await result_of(Shop(), tmp_path, "print(show_key())\nlen(show_key())", tools=tools)
    assert outcome == "ok"
    assert secret not in content
    with sqlite3.connect(tmp_path / "runs.db") as store:
        assert secret not in "\n".join(store.iterdump())


async def test_a_tool_that_ends_runs_does_not_end_the_code(tmp_path: Path) -> None:
    @tool(effect="read")
    def stop() -> TaskComplete:
        return TaskComplete("the end")

    tools = [python_tool(tools=[stop])]
    assert await result_of(Shop(), tmp_path, "[stop(), 2]", tools=tools) == ("ok", 'value: ["the end", 2]')


async def test_so_many_calls_and_no_more(tmp_path: Path) -> None:
    shop = Shop()
    loop = "    while True:\n        look('a')\n        count += 1\n"
    text = f"count = 0\ntry:\n{loop}except ToolFailed as failed:\n    why = str(failed)\n[count, why]"
    _, content = await result_of(shop, tmp_path, text)
    assert content.startswith("value: [200, ")
    assert len(shop.done) == 200


async def test_without_a_sandbox_no_code_runs(tmp_path: Path) -> None:
    shop = Shop()
    outcome, content = await result_of(
        shop, tmp_path, "look('a')", tools=[PythonTool(shop.tools, sandbox=None)]
    )
    assert outcome == "error"
    assert content.startswith("The code was not run: no sandbox works on this machine")
    assert shop.done == []


async def test_a_session_continues_after_the_user_interrupts_waiting_code(tmp_path: Path) -> None:
    shop = Shop()
    agent = agent_of(shop, tmp_path, code("look('nails')\nbuy('nails')"), "fine")
    async with agent.session("s1") as session:
        await session.run("go")
        done = await session.run("leave it")
        (found,) = [one for message in session.history for one in message.tool_results]
    assert done.status == "done"
    assert found.outcome == "interrupted"
    assert '1. look {"item": "nails"}: ok' in found.content
    assert shop.done == ["look nails"]


def test_a_tool_that_ends_every_run_is_no_function_of_code() -> None:
    @tool(done=True)
    def finish(answer: str) -> str:
        return answer

    with pytest.raises(UsageError, match="Code cannot call the tool finish"):
        python_tool(tools=[finish])


def test_a_limit_that_is_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="timeout_s=0 is not a time limit"):
        python_tool(timeout_s=0)
