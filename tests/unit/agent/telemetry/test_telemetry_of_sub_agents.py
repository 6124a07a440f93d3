"""The spans of a sub-agent are below the call that started it, in one trace."""

from pathlib import Path

from support.commands.command import Command
from support.network.otlp_receiver import OtlpReceiver

PROGRAM = """
from sandbur import Agent
from sandbur.testing import ScriptedModel, ToolCall

def parent(request):
    found = [result.content for message in request.messages for result in message.tool_results]
    named = {"description": "count", "agent": "counter"}
    if not found:
        return [ToolCall("task", prompt="a", **named), ToolCall("task", prompt="b", **named)]
    if len(found) == 2:
        child = found[0].partition('resume="')[2].partition('"')[0]
        return ToolCall("task", prompt="again", resume=child, **named)
    return "done"

counter = Agent(ScriptedModel(lambda request: "3"), name="counter", description="Counts.")
shop = Agent(ScriptedModel(parent), agents=[counter])
"""


def test_a_sub_agent_is_below_the_call_that_started_it_or_asked_it_again(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    command = Command(tmp_path)
    with OtlpReceiver() as receiver:
        ended = command.run(
            "-p", "go", "--agent", "shop:shop", SANDBUR_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url
        )
        assert ended.out.strip() == "done"
        spans = list(receiver.spans)
    by_id = {span.span_id: span for span in spans}
    (root,) = [span for span in spans if span.name == "invoke_agent sandbur"]
    children = [span for span in spans if span.name == "invoke_agent counter"]
    assert len({span.trace_id for span in spans}) == 1
    assert [by_id[span.parent_id].name for span in children] == ["execute_tool task"] * 3
    assert len({span.parent_id for span in children}) == 3
    assert {by_id[by_id[span.parent_id].parent_id] is root for span in children} == {True}
    chats = [span for span in spans if span.name.startswith("chat")]
    assert sorted(by_id[span.parent_id].name for span in chats) == [
        *["invoke_agent counter"] * 3,
        *["invoke_agent sandbur"] * 3,
    ]
