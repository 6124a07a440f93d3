"""Runs arrive at a collector as spans and measurements, once each, and without what was said."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.models.server import ModelServer, call, calls, cut, fail, say
from support.models.turns import ToolCall
from support.network.otlp_receiver import OtlpReceiver, Span

from sandbur.agent.history.telemetry import names
from sandbur.agent.history.telemetry.telemetry import Telemetry
from sandbur.state.calls import CallDecision
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import RunBegan

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
KEY = "sk-live-R4nd0mKeyTh4tN0b0dyShouldSee99"
JSON = ("--output-format", "json")


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


@pytest.fixture
def command(tmp_path: Path, receiver: OtlpReceiver) -> Command:
    command = Command(tmp_path)
    command.env |= {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    return command


@pytest.fixture
def telemetry(receiver: OtlpReceiver) -> Iterator[Telemetry]:
    started = Telemetry.start({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
    assert started is not None
    yield started
    started.close()


def with_model(command: Command, server: ModelServer) -> tuple[str, ...]:
    command.env |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
    return "-m", "openai-chat/gpt-test"


def the_run(receiver: OtlpReceiver) -> Span:
    (span,) = receiver.find_spans("invoke_agent")
    return span


def began(store_folder: Path, session_id: str) -> list[RunBegan]:
    store = Store.open(f"sqlite:///{store_folder}/sandbur.db")
    found = [one.record for one in list_traces(store.database, session_id)]
    store.close()
    return [record for record in found if isinstance(record, RunBegan)]


def test_a_run_is_a_tree_of_spans(command: Command, receiver: OtlpReceiver) -> None:
    ended = command.run("-p", "write two into a.txt", "--yolo", "-m", "demo", *JSON)
    assert ended.code == 0
    root, *below = sorted(receiver.spans, key=lambda span: (span.parent_id != "", span.start_ns))
    assert [span.name for span in (root, *below)] == [
        "invoke_agent sandbur", "chat demo", "execute_tool write_file", "chat demo",
    ]  # fmt: skip
    assert {span.parent_id for span in below} == {root.span_id}
    assert {span.trace_id for span in below} == {root.trace_id}
    assert [span.kind for span in (root, *below)] == ["internal", "client", "internal", "client"]
    assert {span.status for span in receiver.spans} == {"unset"}
    session_id = ended.result["session_id"]
    assert {span.attributes["gen_ai.conversation.id"] for span in receiver.spans} == {session_id}
    assert root.resource["service.name"] == "sandbur"
    assert [record.trace_id for record in began(command.folder / "data", session_id)] == [root.trace_id]


def test_spans_lie_within_their_run_one_after_the_other(command: Command, receiver: OtlpReceiver) -> None:
    shell = "sleep 0.2; echo slept"
    with ModelServer([call("run_shell_command", command=shell), say("ok", delay_s=0.05)]) as server:
        assert command.run("-p", "go", "--yolo", *with_model(command, server)).code == 0
    root = the_run(receiver)
    first, tool, second = sorted(
        (span for span in receiver.spans if span is not root), key=lambda span: span.start_ns
    )
    assert root.start_ns <= first.start_ns <= first.end_ns <= tool.start_ns
    # A model call's times are stored in milliseconds.
    assert tool.end_ns - 2_000_000 <= second.start_ns <= second.end_ns <= root.end_ns + 2_000_000
    assert tool.end_ns - tool.start_ns >= 200_000_000
    assert second.end_ns - second.start_ns >= 50_000_000
    assert 0 < second.attributes["gen_ai.response.time_to_first_chunk"] <= 30


def test_a_model_call_tells_its_model_its_tokens_and_its_end(
    command: Command, receiver: OtlpReceiver
) -> None:
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    with ModelServer([say("hi", usage=usage)]) as server:
        command.run("-p", "hello", *with_model(command, server))
    (chat,) = receiver.find_spans("chat")
    assert chat.name == "chat gpt-test"
    told = {name: value for name, value in chat.attributes.items() if name.startswith("gen_ai")}
    for name in ("gen_ai.conversation.id", "gen_ai.response.time_to_first_chunk"):
        del told[name]
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-test",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 100,
    }
    whole = the_run(receiver).attributes
    assert (whole["gen_ai.usage.input_tokens"], whole["gen_ai.usage.output_tokens"]) == (120, 7)


def test_the_table_holds_the_names_of_the_conventions() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    ours = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert len(ours) > 20
    assert ours <= known


def test_no_name_is_written_beside_the_table() -> None:
    folder = Path(names.__file__).parent
    for path in folder.glob("*.py"):
        if path.name != "names.py":
            assert not any(f'"{start}.' in path.read_text() for start in ("gen_ai", "sandbur")), path


def test_what_was_said_stays_here(command: Command, receiver: OtlpReceiver) -> None:
    turns = [
        call("write_file", path="pear.txt", content="quince"),
        call("run_shell_command", command="echo walnut"),
        say("a fig"),
    ]
    with ModelServer(turns) as server:
        ended = command.run("-p", "take an apple", "--yolo", *with_model(command, server))
    assert "a fig" in ended.out
    assert len(receiver.spans) == 6
    words = (b"apple", b"pear", b"quince", b"walnut", b"a fig", b"You are")
    assert [word for word in words if word in receiver.raw] == []


def test_what_was_said_is_exported_on_wish_and_without_secrets(
    command: Command, receiver: OtlpReceiver
) -> None:
    command.env |= CONTENT
    turns = [call("run_shell_command", command=f"echo walnut {KEY}"), say(f"a fig, {KEY}")]
    with ModelServer(turns) as server:
        command.run("-p", f"take an apple and {KEY}", "--yolo", *with_model(command, server))
    assert KEY.encode() not in receiver.raw
    (tool,) = receiver.find_spans("execute_tool")
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"])["command"].startswith("echo walnut ")
    assert tool.attributes["gen_ai.tool.call.result"].startswith("walnut ")
    first, second = receiver.find_spans("chat")
    assert "You are" in json.loads(first.attributes["gen_ai.system_instructions"])[0]["content"]
    (asked,) = json.loads(first.attributes["gen_ai.input.messages"])
    assert asked["role"] == "user"
    assert asked["parts"][0]["content"].startswith("take an apple and ")
    (wish,) = json.loads(first.attributes["gen_ai.output.messages"])
    assert (wish["finish_reason"], wish["parts"][0]["type"]) == ("tool_calls", "tool_call")
    assert wish["parts"][0]["arguments"]["command"].startswith("echo walnut ")
    said = json.loads(second.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[2]["parts"][0]["response"].startswith("walnut ")
    root = the_run(receiver)
    assert "take an apple" in root.attributes["gen_ai.input.messages"]
    assert "a fig" in root.attributes["gen_ai.output.messages"]


async def test_a_long_history_is_exported_from_its_newest_end(store: Store, receiver: OtlpReceiver) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **CONTENT}
    telemetry = Telemetry.start(env)
    assert telemetry is not None
    session = await open_session(store, ScriptedModel(*"abcdefgh", "x" * 99_999, "end"), telemetry=telemetry)
    for number in range(10):
        await collect(session.send(f"message {number} " + "y" * 15_000))
    telemetry.close()
    *_, last = receiver.find_spans("chat")
    sent = last.attributes["gen_ai.input.messages"]
    assert len(sent) < 100_000
    assert "message 9" in sent
    assert "message 8" in sent
    assert "message 0" not in sent
    assert "[... 83615 characters left out]" in sent


def test_a_run_belongs_to_the_trace_of_the_environment(command: Command, receiver: OtlpReceiver) -> None:
    command.env["TRACEPARENT"] = f"00-{TRACE}-{PARENT}-01"
    ended = command.run("-p", "hello", "-m", "demo", *JSON)
    root = the_run(receiver)
    assert (root.trace_id, root.parent_id) == (TRACE, PARENT)
    (record,) = began(command.folder / "data", ended.result["session_id"])
    assert record.trace_id == TRACE


def test_a_trace_that_is_not_sampled_is_not_exported(command: Command, receiver: OtlpReceiver) -> None:
    command.env["TRACEPARENT"] = f"00-{TRACE}-{PARENT}-00"
    ended = command.run("-p", "hello", "-m", "demo", *JSON)
    assert receiver.spans == []
    assert receiver.metric("gen_ai.invoke_agent.duration")
    (record,) = began(command.folder / "data", ended.result["session_id"])
    assert record.trace_id == ""


def test_a_run_whose_spans_nobody_exports_names_no_trace(command: Command, receiver: OtlpReceiver) -> None:
    command.env["OTEL_TRACES_EXPORTER"] = "none"
    ended = command.run("-p", "hello", "-m", "demo", *JSON)
    assert [path for path, _ in receiver.requests] == ["/v1/metrics"]
    (record,) = began(command.folder / "data", ended.result["session_id"])
    assert record.trace_id == ""


def test_a_replay_exports_nothing(command: Command, receiver: OtlpReceiver) -> None:
    ended = command.run("-p", "write two into a.txt", "--yolo", "-m", "demo", *JSON)
    sent = len(receiver.requests)
    assert command.run("replay", ended.result["session_id"]).code == 0
    assert len(receiver.requests) == sent


@pytest.mark.parametrize("handed", ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
def test_a_broken_parent_is_none(command: Command, receiver: OtlpReceiver, handed: str) -> None:
    command.env["TRACEPARENT"] = handed
    assert command.run("-p", "hello", "-m", "demo").code == 0
    assert the_run(receiver).parent_id == ""


def test_retries_are_events_of_the_call_that_was_tried_again(
    command: Command, receiver: OtlpReceiver
) -> None:
    with ModelServer([fail(503), cut(say("a long answer that is cut")), say("done")]) as server:
        assert command.run("-p", "go", *with_model(command, server)).code == 0
    (chat,) = receiver.find_spans("chat")
    assert [name for name, _, _ in chat.events] == ["sandbur.retry"] * 2
    assert all("trying again in" in event["sandbur.message"] for _, _, event in chat.events)
    (_, first_ns, _), (_, second_ns, _) = chat.events
    assert chat.start_ns < first_ns < second_ns < chat.end_ns
    (retries,) = receiver.metric("sandbur.model.retries")
    assert (retries.total, retries.attributes["gen_ai.request.model"]) == (2, "gpt-test")


def test_a_stand_in_is_an_event_too(command: Command, receiver: OtlpReceiver) -> None:
    answers = [fail(429, "slow down", retry_after=4000), say("done")]
    with ModelServer(answers) as server:
        words = with_model(command, server)
        ended = command.run("-p", "go", *words, "--fallback-model", "openai-chat/other")
    assert ended.code == 0
    (chat,) = receiver.find_spans("chat")
    assert ["openai-chat/other" in event["sandbur.message"] for _, _, event in chat.events] == [True]


def test_a_model_that_fails_is_an_error_with_its_kind(command: Command, receiver: OtlpReceiver) -> None:
    with ModelServer([fail(401, f"the key {KEY} is wrong")]) as server:
        assert command.run("-p", "go", *with_model(command, server)).code == 41
    root, (chat,) = the_run(receiver), receiver.find_spans("chat")
    for span in (root, chat):
        assert (span.status, span.attributes["error.type"]) == ("error", "credentials")
        assert span.message
        assert KEY not in span.message
    assert root.attributes["sandbur.run.status"] == "error"
    assert "gen_ai.usage.input_tokens" not in chat.attributes
    (took,) = receiver.metric("gen_ai.client.operation.duration")
    assert took.attributes["error.type"] == "credentials"
    (took,) = receiver.metric("gen_ai.invoke_agent.duration")
    assert took.attributes["error.type"] == "credentials"
    assert receiver.metric("gen_ai.client.token.usage") == []


def test_an_error_is_told_without_secrets(command: Command, receiver: OtlpReceiver) -> None:
    with ModelServer([fail(503), fail(400, f"no such thing as {KEY}")]) as server:
        assert command.run("-p", "go", *with_model(command, server)).code == 1
    assert "no such thing as" in the_run(receiver).message
    assert KEY.encode() not in receiver.raw


def test_a_limit_is_an_error_of_the_run(command: Command, receiver: OtlpReceiver) -> None:
    command.run("-p", "write two into a.txt", "--yolo", "-m", "demo", "--max-turns", "1")
    root = the_run(receiver)
    assert (root.status, root.attributes["error.type"]) == ("error", "turn_limit")
    assert root.attributes["sandbur.run.next_action"] == "router"


async def test_a_tool_that_fails_is_an_error_of_its_span_alone(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    async def fails(text: str) -> None:
        raise OSError("the disk is full")

    model = ScriptedModel([("act", {"text": "a"})], "sorry")
    session = await open_session(store, model, Recorder(work=fails), telemetry=telemetry)
    await collect(session.send("go"))
    telemetry.close()
    (tool,) = receiver.find_spans("execute_tool")
    assert (tool.status, tool.attributes["error.type"]) == ("error", "error")
    assert the_run(receiver).status == "unset"
    (took,) = receiver.metric("gen_ai.execute_tool.duration")
    assert (took.attributes["gen_ai.tool.name"], took.attributes["error.type"]) == ("act", "error")


async def test_an_interrupted_run_ends_its_spans(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    runs = asyncio.Event()

    async def waits(text: str) -> None:
        runs.set()
        await asyncio.sleep(60)

    model = ScriptedModel([("act", {"text": "a"})], "never said")
    session = await open_session(store, model, Recorder(work=waits), telemetry=telemetry)
    running = asyncio.ensure_future(collect(session.send("go")))
    await runs.wait()
    await session.interrupt()
    _, end = await running
    assert end.status == "interrupted"
    telemetry.close()
    (tool,) = receiver.find_spans("execute_tool")
    assert (tool.status, tool.attributes["error.type"]) == ("error", "interrupted")
    root = the_run(receiver)
    assert (root.status, root.attributes["sandbur.run.status"]) == ("unset", "interrupted")
    assert root.attributes["sandbur.run.next_action"] == "execute_tools"


async def test_a_run_that_nobody_follows_to_its_end_is_exported(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    session = await open_session(store, ScriptedModel([("act", {"text": "a"})], "x"), Recorder(),
                                 telemetry=telemetry)  # fmt: skip
    events: Any = session.send("go")
    async for _ in events:
        break
    await events.aclose()
    telemetry.close()
    assert the_run(receiver).attributes["sandbur.run.status"] == "interrupted"


async def test_calls_that_run_together_overlap(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    both = asyncio.Barrier(2)

    async def meets(text: str) -> None:
        await both.wait()

    model = ScriptedModel([("look", {"text": "a"}), ("look", {"text": "b"})], "done")
    session = await open_session(store, model, Recorder("look", "read", meets), telemetry=telemetry)
    await collect(session.send("go"))
    telemetry.close()
    first, second = receiver.find_spans("execute_tool")
    assert second.start_ns < first.end_ns
    assert first.attributes["gen_ai.tool.call.id"] != second.attributes["gen_ai.tool.call.id"]


async def test_calls_of_a_plan_name_their_step(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    act = [("act", {"text": "a"})]
    model = ScriptedModel(START, plan("first", "second"), act, finish("one"), act, finish("two"), "all done")
    session = await open_session(store, model, Recorder(), telemetry=telemetry)
    await collect(session.send("go"))
    telemetry.close()
    assert [span.attributes["sandbur.step.id"] for span in receiver.find_spans("execute_tool")] == ["1", "2"]
    assert len(receiver.find_spans("chat")) == 7
    root = the_run(receiver)
    assert (root.attributes["sandbur.run.llm_calls"], root.attributes["sandbur.run.tool_calls"]) == (7, 2)


def test_approvals_are_counted_once_whoever_decides_and_where(
    command: Command, receiver: OtlpReceiver
) -> None:
    wish = call("run_shell_command", command="touch made")
    with ModelServer([wish, say("made"), wish, say("not made")]) as server:
        model = with_model(command, server)
        session_id = command.run("-p", "go", *model, *JSON).result["session_id"]
        # Asking what waits is not asking again.
        assert command.run("-p", "-r", session_id).code == 3
        assert command.run("approve", session_id, "--all", "--record-only").code == 0
        assert command.run("-p", "-r", session_id).code == 0
        assert command.run("-p", "again", "-r", session_id).code == 3
        assert command.run("deny", session_id, "--all").code == 3

    def counted(**attributes: str) -> float:
        return sum(point.total for point in receiver.metric("sandbur.approvals", **attributes))

    assert counted(decision="asked") == 2
    assert counted(decision="allowed", decided_by="person") == 1
    assert counted(decision="denied", decided_by="person") == 1
    assert counted() == 4
    (tool,) = receiver.find_spans("execute_tool")
    assert tool.attributes["sandbur.approval.decided_by"] == "person"
    events = [(name, told) for span in receiver.find_spans("invoke_agent") for name, _, told in span.events]
    (denied,) = [told for name, told in events if name == "sandbur.tool.not_run"]
    assert denied["sandbur.tool.outcome"] == "denied"


def test_a_rule_decides_by_itself(command: Command, receiver: OtlpReceiver) -> None:
    shell = [ToolCall("run_shell_command", json.dumps({"command": text})) for text in ("true", "touch no")]
    with ModelServer([calls(*shell), say("done")]) as server:
        rules = ("--yolo", "--deny", "run_shell_command(touch *)")
        command.run("-p", "go", *rules, *with_model(command, server))
    decided = {
        (point.attributes["sandbur.approval.decision"], point.attributes["sandbur.approval.decided_by"])
        for point in receiver.metric("sandbur.approvals")
    }
    assert decided == {("allowed", "policy"), ("denied", "rule")}


def test_a_resumed_run_exports_what_it_does_and_nothing_of_before(
    command: Command, receiver: OtlpReceiver
) -> None:
    session_id = kill_in_command(command)
    assert receiver.spans == []
    stopped = command.run("-p", "-r", session_id, *JSON)
    (waiting,) = stopped.result["pending"]
    settled = command.run("settle", session_id, waiting["call_id"], "--as", "done", *JSON)
    assert settled.result["status"] == "done"
    assert receiver.find_spans("execute_tool") == []
    assert len(receiver.find_spans("chat")) == 1
    told = [one for span in receiver.find_spans("invoke_agent") for one in span.events]
    assert [event["sandbur.tool.outcome"] for name, _, event in told if name.endswith("not_run")] == ["ok"]


async def test_an_approval_from_another_process_runs_under_the_run_that_executes_it(
    store: Store, receiver: OtlpReceiver, telemetry: Telemetry
) -> None:
    model = ScriptedModel([("act", {"text": "a"})], "done")
    asking = await open_session(store, model, Recorder(), mode="interactive", telemetry=telemetry)
    _, end = await collect(asking.send("go"))
    decision = CallDecision(call_id=end.pending[0].call_id, approved=True, arguments='{"text": "b"}')
    deciding = await open_session(store, model, Recorder(), mode="interactive", telemetry=telemetry)
    await collect(deciding.decide([decision]))
    telemetry.close()
    first, second = receiver.find_spans("invoke_agent")
    (tool,) = receiver.find_spans("execute_tool")
    assert first.trace_id != second.trace_id
    assert tool.parent_id == second.span_id
    assert tool.attributes["sandbur.tool.edited"] is True


def test_text_that_is_no_unicode_loses_nothing(command: Command, receiver: OtlpReceiver) -> None:
    command.env |= CONTENT
    odd = "\ud800"
    turns = [
        calls(ToolCall(f"a{odd}b", "{}")),
        calls(ToolCall("run_shell_command", json.dumps({"command": f"echo {odd}"}))),
        say(f"an {odd} answer"),
    ]
    with ModelServer(turns) as server:
        command.run("-p", "go", "--yolo", *with_model(command, server))
    assert len(receiver.find_spans("chat")) == 3
    assert the_run(receiver).attributes["sandbur.run.status"] == "done"


def test_measurements_have_the_units_of_the_conventions(command: Command, receiver: OtlpReceiver) -> None:
    assert command.run("-p", "write two into a.txt", "--yolo", "-m", "demo").code == 0
    units = {point.name: point.unit for point in receiver.points}
    assert units == {
        "gen_ai.client.operation.duration": "s",
        "gen_ai.client.operation.time_to_first_chunk": "s",
        "gen_ai.client.token.usage": "{token}",
        "gen_ai.execute_tool.duration": "s",
        "gen_ai.invoke_agent.duration": "s",
        "sandbur.approvals": "{approval}",
        "sandbur.cost.usage": "USD",
    }
    assert all(point.is_delta for point in receiver.points)
    used = sum(span.attributes["gen_ai.usage.input_tokens"] for span in receiver.find_spans("chat"))
    (tokens,) = receiver.metric("gen_ai.client.token.usage", type="input")
    assert (tokens.total, tokens.count) == (used, 2)
    (tool,) = receiver.find_spans("execute_tool")
    (took,) = receiver.metric("gen_ai.execute_tool.duration")
    assert took.total == pytest.approx((tool.end_ns - tool.start_ns) / 1e9)
