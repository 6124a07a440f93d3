"""In the chat a person decides about a call of a sub-agent while the sub-agents beside it run."""

import time

import pytest
from support.screens.tmux_window import ASKS, DEAF_S, Terminal
from support.waiting import wait_for

PROGRAM = '''
import asyncio
from pathlib import Path
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

@tool
def buy(item: str) -> str:
    """Buy an item."""
    Path("bought").write_text(item)
    return f"bought {item}"

@tool(effect="read")
def weigh(item: str) -> str:
    """Weigh an item."""
    return "heavy"

def results(request):
    return [result.content for message in request.messages for result in message.tool_results]

async def child(request):
    asked = next(iter(request.messages)).text
    if results(request):
        return f"{asked}: {results(request)[0]}"
    if asked == "rope":
        return ToolCall("buy", item="rope")
    Path("waits").touch()
    while not Path(WAITS_FOR).exists():
        await asyncio.sleep(0.02)
    return ToolCall("weigh", item="anvils")

def parent(request):
    named = {"agent": "buyer"}
    calls = [ToolCall("task", description=f"see to {one}", prompt=one, **named) for one in ("rope", "anvils")]
    return " | ".join(sorted(one.splitlines()[0] for one in results(request))) or calls

buyer = Agent(ScriptedModel(child), name="buyer", description="Buys.", tools=[buy, weigh])
shop = Agent(ScriptedModel(parent), agents=[buyer])
'''
WHY = "sub-agent buyer: may change something"
ANSWER = "anvils: heavy | rope: bought rope"


def go_shopping(terminal: Terminal, waits_for: str) -> None:
    """Start two sub-agents: the call of one asks, and the other works until a file is there."""
    (terminal.folder / "shop.py").write_text(PROGRAM.replace("WAITS_FOR", repr(waits_for)))
    terminal.start("--agent shop:shop")
    terminal.see("interactive")
    terminal.type("go shopping")
    terminal.see(WHY)
    terminal.see(ASKS, after=WHY)
    wait_for((terminal.folder / "waits").exists)
    time.sleep(DEAF_S)


def test_the_sub_agent_goes_on_while_the_other_one_runs(terminal: Terminal) -> None:
    go_shopping(terminal, waits_for="bought")
    terminal.keys("y")
    screen = terminal.see(ANSWER)
    assert screen.count(WHY) == 1


@pytest.mark.parametrize("key", ["Escape", "C-c"])
def test_a_question_that_is_left_open_comes_again_at_the_end(terminal: Terminal, key: str) -> None:
    go_shopping(terminal, waits_for="may_end")
    terminal.keys(key)
    terminal.see("left open")
    assert not (terminal.folder / "bought").exists()
    (terminal.folder / "may_end").touch()
    terminal.see(ASKS, after="left open")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see(ANSWER)


def test_a_question_that_is_open_when_the_others_end_comes_again(terminal: Terminal) -> None:
    go_shopping(terminal, waits_for="may_end")
    (terminal.folder / "may_end").touch()
    terminal.see(ASKS, after="The run ends here; the question comes again.")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see(ANSWER)


def test_a_denied_call_is_denied_with_its_reason_and_a_command_waits(terminal: Terminal) -> None:
    go_shopping(terminal, waits_for="may_end")
    terminal.type("/usage")
    terminal.see("Commands wait until the run has ended")
    terminal.see(ASKS, after="Commands wait until the run has ended")
    time.sleep(DEAF_S)
    terminal.type("too dear")
    (terminal.folder / "may_end").touch()
    terminal.see("rope: Denied by the user: too dear")
