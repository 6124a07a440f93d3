"""Reads calls and results from a history."""

from sandbur.state.conversation.messages import ToolResult
from sandbur.state.conversation.transcript import Transcript


def results(history: Transcript) -> list[tuple[str, str]]:
    return [
        (block.outcome, block.content)
        for message in history
        for block in message.blocks
        if isinstance(block, ToolResult)
    ]


def assert_every_call_is_answered(history: Transcript) -> None:
    waiting: list[str] = []
    for message in history:
        if message.role == "tool":
            block = message.blocks[0]
            assert isinstance(block, ToolResult)
            assert block.call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [use.call_id for use in message.tool_uses]
    assert not waiting
