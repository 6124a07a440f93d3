"""Flows and skills that start sub-agents: the sub-agent answers, and the model of the parent is not asked."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command

from sandbur import Agent, Flow, ModelRequest, tool
from sandbur.actions.ports.events import FlowMatched, SubAgentEvent
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store

ASK = Flow("ask", prefix="ask", agent="expert", prompt="Look at {rest}.", answer="The expert: {result}")


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


def make_desk(store: TemporaryStore, child: Any, parent: Any = (), **options: Any) -> Agent[str]:
    """Return an agent whose flow starts an expert; without `parent` a question to its model is a failure."""
    own = options.pop("own", {})
    place = {"store": store.url, "env": store.env}
    expert = Agent(ScriptedModel(child), name="expert", description="Knows it.", **place, **own)
    flows = options.pop("flows", [ASK])
    return Agent(ScriptedModel(parent), agents=[expert], flows=flows, **place, **options)


def test_the_answer_of_the_sub_agent_is_the_answer_of_the_flow(store: TemporaryStore) -> None:
    seen: list[str] = []

    def child(request: ModelRequest) -> str:
        seen.extend(message.text for message in request.messages)
        return "It is sound."

    async def run() -> tuple[Any, list[Any]]:
        async with make_desk(store, child).session("s") as session:
            stream = session.stream("ask the roof")
            events = [event async for event in stream]
            return session.result, events

    result, events = asyncio.run(run())
    assert result.output == "The expert: It is sound."
    assert seen == ["Look at the roof."]
    assert result.usage.llm_calls == 1
    (match,) = [one for one in events if isinstance(one, FlowMatched)]
    assert (match.flow, match.does, match.why) == ("ask", "agent", 'the beginning "ask"')
    assert any(isinstance(one, SubAgentEvent) for one in events)


def test_the_model_reads_later_which_agent_a_flow_started(store: TemporaryStore) -> None:
    def parent(request: ModelRequest) -> str:
        return " | ".join(message.text for message in request.messages)

    async def run() -> str:
        async with make_desk(store, lambda _: "Sound.", parent).session("s") as session:
            await session.run("ask the roof")
            return (await session.run("What was that?")).text

    text = asyncio.run(run())
    assert text.startswith("ask the roof | [A flow ran task for the message above")
    assert "The expert: Sound." in text


@pytest.mark.parametrize(("way", "expected"), [("approve", "The expert: bought"), ("deny", "Denied")])
def test_a_flow_answers_after_a_call_of_its_sub_agent_was_decided(
    store: TemporaryStore, way: str, expected: str
) -> None:
    @tool
    def buy() -> str:
        """Buy it."""
        return "bought"

    def child(request: ModelRequest) -> Any:
        return results_of(request)[-1] if results_of(request) else ToolCall("buy")

    async def run() -> tuple[Any, Any]:
        async with make_desk(store, child, own={"tools": [buy]}).session("s") as session:
            first = await session.run("ask for it")
            return first, await (session.approve() if way == "approve" else session.deny())

    first, decided = asyncio.run(run())
    assert [call.reason for call in first.pending] == ["sub-agent expert: may change something: buy"]
    assert expected in decided.text
    assert decided.usage.llm_calls == 2


def test_rules_judge_the_call_of_a_flow_that_starts_an_agent(store: TemporaryStore) -> None:
    result = make_desk(store, lambda _: "never", deny=["task(expert)"]).run_sync("ask it")
    assert result.text.startswith("The flow ask did not work: Denied by policy")


def test_a_failed_sub_agent_is_told_by_the_failure_of_the_flow_or_left_to_the_model(
    store: TemporaryStore,
) -> None:
    told = Flow("told", exact="told", agent="expert", failure="Sorry: {error}")
    left = Flow("left", exact="left", agent="expert", on_failure="model")
    desk = make_desk(store, lambda _: "", lambda _: "I take over.", flows=[told, left])
    assert desk.run_sync("told").text.startswith("Sorry: The sub-agent did not finish")
    assert desk.run_sync("left").text == "I take over."


def test_an_answer_of_megabytes_is_cut_and_kept(store: TemporaryStore) -> None:
    flow = Flow("ask", prefix="ask", agent="expert")
    result = make_desk(store, lambda _: "x" * 5_000_000, flows=[flow]).run_sync("ask it")
    assert len(result.text) <= 20_000
    assert "all is kept" in result.text


def test_a_flow_of_a_program_starts_only_the_agents_of_the_program(store: TemporaryStore) -> None:
    flow = Flow("ask", prefix="ask", agent="nobody")
    with pytest.raises(UsageError, match="The flow ask starts the agent 'nobody', which is not one of its"):
        make_desk(store, lambda _: "never", flows=[flow]).run_sync("ask it")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agent": "x", "reply": "y"}, "exactly one of"),
        ({"reply": "x", "prompt": "y"}, "`prompt` needs `agent`"),
        ({"agent": "x", "prompt": "{number}"}, "not every trigger"),
    ],
)
def test_a_flow_with_an_agent_that_does_not_fit_is_refused(options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Flow("f", exact="a", **options)


def test_an_agent_file_starts_the_agents_of_its_program_by_flows(
    store: TemporaryStore, tmp_path: Path
) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text("flows:\n- {name: ask, prefix: ask, agent: expert, prompt: 'Look at {rest}.'}\n")
    place = {"store": store.url, "env": store.env}
    expert = Agent(
        ScriptedModel(lambda request: f"I {list(request.messages)[-1].text}"), name="expert",
        description="Knows it.", **place,
    )  # fmt: skip
    desk = Agent.from_file(path, model=ScriptedModel([]), agents=[expert], **place)
    assert desk.run_sync("ask the roof").output == "I Look at the roof."


AGENT = "---\nname: expert\ndescription: Knows it.\ntools: Read, Bash\n---\nYou know it.\n"
CONFIG = '[flows.ask]\nprefix = "ask"\nagent = "expert"\nprompt = "run {rest}"\nanswer = "Expert: {result}"\n'


def write(folder: Path, **texts: str) -> None:
    place = folder / ".config" / "sandbur"
    (place / "agents").mkdir(parents=True, exist_ok=True)
    (place / "agents" / "expert.md").write_text(texts.get("agent", AGENT))
    (place / "config.toml").write_text(texts.get("config", CONFIG))


def test_a_configured_flow_starts_an_agent_of_a_file_that_is_asked_about_at_its_parent(
    command: Command,
) -> None:
    write(command.folder)
    ended = command.run("-p", "ask touch made", "-m", "demo", "--output-format", "json")
    assert ended.result["status"] == "needs_approval"
    (call,) = ended.result["pending"]
    assert call["reason"].startswith("sub-agent expert: ")
    decided = command.run("approve", ended.result["session_id"], call["call_id"])
    assert decided.code == 0, decided.err
    assert decided.out.startswith("Expert: ")
    assert (command.folder / "made").exists()


def test_an_agent_that_is_not_here_is_named_when_a_flow_is_tested_and_when_it_runs(command: Command) -> None:
    write(command.folder, config=CONFIG.replace('"expert"', '"exprt"'))
    found = json.loads(command.run("flows", "test", "ask it", "--json").out)
    assert (found["does"], found["agent"], found["prompt"]) == ("agent", "exprt", "run it")
    assert found["problem"] == "There is no agent 'exprt' here. There are: expert, general."
    ended = command.run("-p", "ask it", "-m", "demo")
    assert ended.out.strip() == (
        "The flow ask did not work: There is no agent 'exprt'. There are: general, expert."
    )


def test_an_agent_file_of_the_command_starts_only_the_agents_that_its_flows_name(command: Command) -> None:
    write(command.folder)
    other = command.folder / ".config" / "sandbur" / "agents" / "other.md"
    other.write_text(AGENT.replace("name: expert", "name: other"))
    path = command.folder / "desk.yaml"
    path.write_text("flows:\n- {name: ask, prefix: ask, agent: expert, prompt: 'hello {rest}'}\n")
    words = ("--agent", str(path), "-m", "demo", "--output-format", "stream-json")
    lines = [json.loads(line) for line in command.run("-p", "ask it", *words).out.splitlines()]
    assert [line["agent"] for line in lines if line["type"] == "agent_started"] == ["expert"]
    assert lines[-1]["status"] == "done"


SKILL = """---
name: notes
description: How notes are written.
{keys}
triggers:
  - prefix: notes
---
Write them short.
"""


def write_skill(folder: Path, keys: str) -> Path:
    place = folder / ".agents" / "skills" / "notes"
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(SKILL.format(keys=keys))
    return place


def run_lines(command: Command, message: str, *words: str) -> list[dict[str, Any]]:
    ended = command.run("-p", message, "-m", "demo", "--output-format", "stream-json", *words)
    assert "Traceback" not in ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


@pytest.mark.parametrize(
    ("keys", "does"),
    [
        ("context: fork", "skill_agent"),
        ("tools: Read, Grep", "skill_agent"),
        ("allowed-tools: Read Grep\nmodel: demo", "skill_agent"),
        ("context: fork\nagent: Explore", "skill_agent"),
        ("context: fork\nagent: expert", "skill_agent"),
        ("allowed-tools: Read Grep", "skill"),
        ("model: inherit", "skill"),
        ("context: inherit\nmodel: demo", "skill"),
        ("context: fork\nagent: nobody", "skill"),
    ],
)
def test_a_skill_that_asks_for_it_is_done_by_a_sub_agent(command: Command, keys: str, does: str) -> None:
    write(command.folder, config="")
    write_skill(command.folder, keys)
    lines = run_lines(command, "notes for 2.0")
    assert next(line for line in lines if line["type"] == "flow")["does"] == does
    started = [line for line in lines if line["type"] == "agent_started"]
    assert [line["agent"] for line in started] == (["skill:notes"] if does == "skill_agent" else [])
    assert (lines[-1]["status"], lines[-1]["usage"]["llm_calls"]) == ("done", 1)


def test_a_skill_whose_agent_is_not_here_is_named_and_stays_a_text(command: Command) -> None:
    write_skill(command.folder, "context: fork\nagent: nobody")
    ended = command.run("-p", "hello", "-m", "demo")
    assert "SKILL.md, line 5: `agent` is 'nobody', which is no agent here." in ended.err
    assert ended.code == 0


def test_a_skill_is_a_text_where_no_agents_may_start(command: Command) -> None:
    write_skill(command.folder, "context: fork")
    command.env["SANDBUR_AGENT_DEPTH"] = "0"
    assert json.loads(command.run("flows", "test", "notes x", "--json").out)["does"] == "skill"
    lines = run_lines(command, "notes for 2.0")
    assert next(line for line in lines if line["type"] == "flow")["does"] == "skill"


def test_the_tools_of_a_skill_are_all_that_its_sub_agent_has(store: TemporaryStore, tmp_path: Path) -> None:
    offered: dict[str, set[str]] = {}

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    @tool
    def buy() -> str:
        """Buy."""
        return "bought"

    def reply(request: ModelRequest) -> Any:
        of_child = next(iter(request.messages)).text == "write them"
        offered["child" if of_child else "parent"] = {spec.name for spec in request.tools}
        if of_child:
            return "written"
        if not results_of(request):
            return ToolCall("read_skill", name="notes")
        if len(results_of(request)) == 1:
            return ToolCall("task", description="notes", prompt="write them", agent="skill:notes")
        return " | ".join(result.splitlines()[0] for result in results_of(request))

    write_skill(tmp_path, "tools: look")
    path = tmp_path / "desk.yaml"
    path.write_text("skills: [notes]\n")
    env = {**store.env, "HOME": str(tmp_path)}
    model = ScriptedModel(reply)
    desk = Agent.from_file(path, model=model, tools=[look, buy], store=store.url, env=env, cwd=tmp_path)
    text = desk.run_sync("go").text
    assert text == (
        'A sub-agent does this work. Start it: task(agent="skill:notes", prompt="..."). | written'
    )
    assert {"look", "buy", "read_skill", "task"} <= offered["parent"]
    assert offered["child"] == {"look", "read_skill", "read_result"}


def test_the_prompt_says_which_skills_a_sub_agent_does(store: TemporaryStore, tmp_path: Path) -> None:
    seen: list[str] = []

    def reply(request: ModelRequest) -> str:
        seen.append(request.system)
        return "ok"

    write_skill(tmp_path, "context: fork")
    path = tmp_path / "desk.yaml"
    path.write_text("skills: [notes]\n")
    env = {**store.env, "HOME": str(tmp_path)}
    Agent.from_file(path, model=ScriptedModel(reply), store=store.url, env=env, cwd=tmp_path).run_sync("go")
    assert '- notes: How notes are written. (task with agent="skill:notes" does it)' in seen[0]
