"""What cannot work about sub-agents is one clear sentence, and nothing that was done is lost."""

from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, Request, Turn, call, say
from support.models.talk import environment

from sandbur import Agent, Limits, ModelRequest, tool
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall

CYCLE = {
    "itself": {"a": "tools: Read, Agent(a)"},
    "each other": {"a": "tools: Read, Agent(b)", "b": "tools: Read, Agent(a)"},
}


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


def start(prompt: str = "count", agent: str = "worker", **more: str) -> ToolCall:
    return ToolCall("task", description="count", prompt=prompt, agent=agent, **more)


def run_family(store: TemporaryStore, child: Any, **options: Any) -> str:
    """Return the first line of the result that a parent gets from a worker with this model."""
    asks = options.pop("asks", start())
    own = options.pop("own", {})
    place = {"store": store.url, "env": {**store.env, **options.pop("env", {})}}
    model = child if isinstance(child, str | ScriptedModel) else ScriptedModel(child)
    worker = Agent(model, name="worker", description="Counts.", **place, **own)

    def parent(request: ModelRequest) -> Any:
        return results_of(request)[-1] if results_of(request) else asks

    family = Agent(ScriptedModel(parent), agents=[worker], **place, **options)
    return family.run_sync("go", session_id="parent").text


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("openai/gpt-5", "The sub-agent could not start: No key for openai: OPENAI_API_KEY is not set."),
        ("nowhere/gpt-5", "The sub-agent could not start: There is no provider 'nowhere'."),
    ],
)
def test_an_agent_whose_model_cannot_be_used_says_why(
    store: TemporaryStore, model: str, sentence: str
) -> None:
    env = {name: value for name, value in store.env.items() if not name.endswith("_API_KEY")}
    store.env.clear()
    store.env.update(env)
    assert run_family(store, model).startswith(sentence)


@pytest.mark.parametrize(
    ("asks", "sentence"),
    [
        (start(agent="wrker"), "There is no agent 'wrker'. There are: worker."),
        (start(agent=""), "Name an agent. There are: worker."),
        (start(model="openai/gpt-5"), "The sub-agent could not start: The model of the agent worker"),
        (start(resume="nobody"), "The sub-agent could not start: There is no sub-agent 'nobody'."),
    ],
)
def test_a_call_that_names_what_is_not_there_says_what_there_is(
    store: TemporaryStore, asks: ToolCall, sentence: str
) -> None:
    assert run_family(store, lambda _: "never", asks=asks).startswith(sentence)


def test_a_sub_agent_at_its_limit_of_turns_says_so_and_goes_on_when_it_is_asked_again(
    store: TemporaryStore,
) -> None:
    @tool(effect="read")
    def look(part: int) -> str:
        """Look at a part."""
        return f"part {part}"

    def child(request: ModelRequest) -> Any:
        done = len(results_of(request))
        return ToolCall("look", part=done) if done < 3 else " ".join(results_of(request))

    place = {"store": store.url, "env": store.env}
    limits = Limits(max_turns=2)
    worker = Agent(
        ScriptedModel(child), name="worker", description="Looks.", tools=[look], limits=limits, **place
    )

    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        if len(found) == 1:
            return start("go on", resume=found[0].partition('resume="')[2].partition('"')[0])
        return " | ".join(one.splitlines()[0] for one in found) if found else start()

    text = Agent(ScriptedModel(parent), agents=[worker], **place).run_sync("go").text
    assert text == (
        "The sub-agent did not finish: The limit of 2 model calls is reached. | part 0 part 1 part 2"
    )


def test_a_run_starts_no_more_sub_agents_than_its_limit(store: TemporaryStore) -> None:
    env = {"SANDBUR_AGENTS_PER_RUN": "2"}
    asks: Any = [start("a"), start("b"), start("c")]
    assert run_family(store, lambda _: "ok", asks=asks, env=env).startswith(
        "The sub-agent could not start: This run has started 2 sub-agents already"
    )


def test_without_a_depth_there_is_no_tool_that_starts_agents(store: TemporaryStore) -> None:
    text = run_family(store, lambda _: "never", env={"SANDBUR_AGENT_DEPTH": "0"})
    assert text == "There is no tool named 'task'. The tools are: none."


def test_a_task_of_a_megabyte_reaches_the_sub_agent_and_is_kept(store: TemporaryStore) -> None:
    def child(request: ModelRequest) -> str:
        return str(max(len(message.text) for message in request.messages) >= 1_000_000)

    model = ScriptedModel(child, context_window=1_000_000)
    assert run_family(store, model, asks=start("p" * 1_000_000)).startswith("True\n[sub-agent ")


def test_an_answer_of_megabytes_is_shortened_for_the_parent_and_kept_whole(store: TemporaryStore) -> None:
    text = run_family(store, lambda _: "y" * 5_000_000)
    assert len(text) < 30_000
    assert "all is kept" in text
    assert text.splitlines()[-1].startswith("[sub-agent ")
    opened = Store.open(store.url)
    child = text.splitlines()[-1].split()[1].rstrip(";")
    assert len(opened.show(child).state.chat_history.last.text) == 5_000_000
    opened.close()


def test_an_agent_cannot_start_itself_by_a_list_that_grows(store: TemporaryStore) -> None:
    agents: list[Agent[str]] = []
    place = {"store": store.url, "env": store.env}
    lead = Agent(
        ScriptedModel(lambda request: str([spec.name for spec in request.tools])), name="a",
        description="Starts itself.", agents=agents, **place,
    )  # fmt: skip
    agents.append(lead)
    assert lead.run_sync("go").output == "[]"


def write_agents(folder: Path, **agents: str) -> None:
    place = folder / ".config" / "sandbur" / "agents"
    place.mkdir(parents=True, exist_ok=True)
    for name, keys in agents.items():
        about = "" if "description:" in keys else f"description: Does {name}.\n"
        (place / f"{name}.md").write_text(f"---\nname: {name}\n{about}{keys}\n---\nDo it.\n")


def run(command: Command, reply: Any, *words: str) -> Ended:
    with ModelServer(reply) as server:
        line = ("-p", "go", "-m", "openai-chat/gpt-test", "--output-format", "json", *words)
        ended = command.run(*line, **environment(server))
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    return ended


def answer_with_results(agent: str) -> Any:
    """Return a script: the first request of each session starts the agent; the next answers the results."""

    def reply(request: Request) -> Turn:
        found = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
        if found:
            return say("; ".join(found))
        return call("task", description="do", prompt="go", agent=agent)

    return reply


@pytest.mark.parametrize("agents", CYCLE.values(), ids=CYCLE)
def test_agents_that_start_themselves_end_at_the_depth(command: Command, agents: dict[str, str]) -> None:
    write_agents(command.folder, **agents)

    def reply(request: Request) -> Turn:
        found = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
        if found:
            return say(found[0])
        offered = {one["function"]["name"]: one["function"]["description"] for one in request.body["tools"]}
        agent = "b" if "- b: " in offered.get("task", "") and "- a: " not in offered["task"] else "a"
        return call("task", description="do", prompt="go", agent=agent)

    ended = run(command, reply)
    assert ended.result["status"] == "done", ended.result
    assert ended.result["result"].startswith("There is no tool named 'task'.")
    assert ended.result["result"].count("[sub-agent ") == 3


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("model: anthropic/claude-x", "The sub-agent could not start: No key for anthropic"),
        ("model: nowhere/x", "The sub-agent could not start: There is no provider 'nowhere'"),
        ("isolation: copy", "The sub-agent could not start: "),
        ("skills: nobody", "The sub-agent could not start: The agent x needs the skill nobody"),
        ("maxTurns: many", "There is no agent 'x'. There are: general."),
        ("description: ''", "There is no agent 'x'. There are: general."),
    ],
)
def test_an_agent_file_that_cannot_be_used_says_why(command: Command, keys: str, sentence: str) -> None:
    write_agents(command.folder, x=keys)
    with ModelServer(answer_with_results("x")) as server:
        env = {name: value for name, value in environment(server).items() if "ANTHROPIC" not in name}
        line = ("-p", "go", "-m", "openai-chat/gpt-test", "--output-format", "json")
        ended = command.run(*line, **env)
    assert ended.result["status"] == "done"
    assert ended.result["result"].startswith(sentence)
    assert "Traceback" not in ended.err


def test_two_agents_of_one_name_in_one_folder_are_named(command: Command) -> None:
    write_agents(command.folder, x="", y="")
    place = command.folder / ".config" / "sandbur" / "agents"
    (place / "y.md").write_text((place / "x.md").read_text())
    ended = run(command, answer_with_results("x"))
    assert "y.md describes an agent `x`, as" in ended.err
    assert ended.result["status"] == "done"


def test_a_sub_agent_that_outgrows_the_budget_of_the_run_goes_on_later(command: Command) -> None:
    write_agents(command.folder, x="")
    config = command.folder / ".config" / "sandbur" / "config.toml"
    config.write_text('[prices."openai-chat/gpt-test"]\ninput = 1000.0\noutput = 1000.0\n')
    looks = {"count": 0}

    def reply(request: Request) -> Turn:
        found = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
        is_child = "Do it." in str(request.body["messages"][0])
        if is_child and len(found) < 3:
            looks["count"] += 1
            return call("list_directory", path=".")
        if is_child:
            return say("All is seen.")
        return say(found[0]) if found else answer_with_results("x")(request)

    with ModelServer(reply) as server:
        env = environment(server)
        words = ("-m", "openai-chat/gpt-test", "--output-format", "json")
        first = command.run("-p", "go", *words, "--max-budget-usd", "0.2", **env)
        assert first.result["status"] == "budget_limit", first.result
        seen = looks["count"]
        resumed = command.run("-p", "-r", first.result["session_id"], "--output-format", "json", **env)
    assert resumed.result["status"] == "done", (resumed.result, resumed.err)
    assert resumed.result["result"].startswith("All is seen.")
    assert (seen, looks["count"]) == (seen, 3)
