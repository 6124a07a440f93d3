"""In the chat a person steps into a sub-agent, decides and speaks there, and goes back to its parent."""

import time

import pytest
from support.screens.tmux_window import ASKS, DEAF_S, Terminal

PROGRAM = '''
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

@tool
def buy(item: str) -> str:
    """Buy an item."""
    return f"bought {item}"

def results(request):
    return [result.content for message in request.messages for result in message.tool_results]

def child(request):
    asked = [message.text for message in request.messages if message.role == "user"]
    if asked[-1] == "rope" and not results(request):
        return ToolCall("buy", item="rope")
    return f"answer to {asked[-1]}"

def parent(request):
    named = {"agent": "buyer"}
    calls = [ToolCall("task", description=f"see to {one}", prompt=one, **named) for one in ("rope", "anvils")]
    return " | ".join(sorted(one.splitlines()[0] for one in results(request))) or calls

buyer = Agent(ScriptedModel(child), name="buyer", description="Buys.", tools=[buy])
shop = Agent(ScriptedModel(parent), agents=[buyer])
'''


@pytest.fixture
def shop(terminal: Terminal) -> Terminal:
    (terminal.folder / "shop.py").write_text(PROGRAM)
    terminal.start("--agent shop:shop")
    terminal.see("interactive")
    terminal.type("go shopping")
    terminal.see("sub-agent buyer: may change something")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    return terminal


def test_a_person_decides_and_speaks_in_a_sub_agent_and_its_parent_goes_on(shop: Terminal) -> None:
    shop.type("/agents")
    listed = shop.see("Step into which sub-agent?")
    assert "> waits for you  buyer" in listed
    assert "see to rope" in listed
    shop.keys("Enter")
    shop.see("This is the sub-agent buyer of session")
    shop.see(ASKS, after="This is the sub-agent buyer")
    time.sleep(DEAF_S)
    shop.keys("y")
    shop.see("answer to rope")
    shop.see("sub-agent buyer ·")
    shop.type("is it long?")
    shop.see("answer to is it long?")
    shop.type("/back")
    shop.see("answer to anvils | answer to is it long?")
    shop.see("scripted/model · ", after="answer to anvils | answer to is it long?")
    assert "sub-agent buyer ·" not in shop.screen().splitlines()[-1]
