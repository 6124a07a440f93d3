"""An agent uses the scopes of memory that its program named, and a fact of a user is the user's alone."""

import os
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.network.sandbur_server import serve

from sandbur import Agent, Memory, ModelRequest
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, ToolCall

SCOPES = ("user", "project", "agent")
TEXTS = {
    "user": "The kettle in the kitchen is blue",
    "project": "The lamp in the cellar is red",
    "agent": "The door of the garage is green",
}
SUBSETS = [chosen for size in (1, 2, 3) for chosen in combinations(SCOPES, size)]
SERVED = """
from sandbur import Agent, ModelRequest
from sandbur.testing import ScriptedModel, ToolCall

def reply(request: ModelRequest):
    newest = list(request.messages)[-1]
    results = list(newest.tool_results)
    if results:
        return results[0].content
    return ToolCall("memory", command="create", path=newest.text, file_text="The port is 8080")

agent = Agent(ScriptedModel(reply), name="helper", memory="agent"{more})
"""


def make_agent(folder: Path, replies: Any, **more: Any) -> Agent[Any]:
    store, environment = f"sqlite:///{folder}/s.db", {**os.environ, "SANDBUR_HOME": str(folder)}
    return Agent(ScriptedModel(replies), name="helper", store=store, cwd=folder, env=environment, **more)


def read_tool(request: ModelRequest) -> str:
    return next(tool.description for tool in request.tools if tool.name == "memory")


@pytest.mark.parametrize("scopes", SUBSETS, ids="+".join)
async def test_an_agent_uses_only_its_scopes(tmp_path: Path, scopes: tuple[Any, ...]) -> None:
    store, environment = f"sqlite:///{tmp_path}/s.db", {**os.environ, "SANDBUR_HOME": str(tmp_path)}
    every = Memory(store, cwd=tmp_path, user="ann", agent="helper", env=environment)
    for scope in SCOPES:
        await every.add(TEXTS[scope], scope=scope, path="kettle.md")
    asked = [
        *(ToolCall("memory", command="view", path=f"/memories/{scope}/kettle.md") for scope in SCOPES),
        *(ToolCall("memory", command="create", path=f"/memories/{scope}/new.md", file_text=f"a {scope}")
          for scope in SCOPES),
        *(ToolCall("memory", command="recall", query=TEXTS[scope].split()[1]) for scope in SCOPES),
    ]  # fmt: skip
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        seen.append(request)
        return asked if len(seen) == 1 else "done"

    agent = make_agent(tmp_path, reply, memory="both", memory_scopes=scopes)
    async with agent.session(user="ann") as session:
        await session.run("kettle kitchen lamp cellar door garage")
    first, last = seen[0], seen[-1]
    results = [one.content for message in last.messages for one in message.tool_results]
    background = "\n".join(message.text for message in first.messages)
    for at, scope in enumerate(SCOPES):
        is_used = scope in scopes
        assert (TEXTS[scope] in results[at]) is is_used
        assert (f"The scope {scope} of memory is not used here." in results[at]) is not is_used
        assert ("not used here" in results[at + 3]) is not is_used
        assert (TEXTS[scope] in results[at + 6]) is is_used
        assert (TEXTS[scope] in background) is is_used
        assert (f"/memories/{scope} (" in read_tool(first)) is is_used
    own = Memory.of_agent(agent, "ann")
    assert {fact.scope.kind for fact in await own.list()} == {*scopes}
    usual = "user" if "user" in scopes else "project" if "project" in scopes else "agent"
    assert (await own.add("no scope named")).scope.kind == usual


async def test_a_fact_without_a_scope_is_that_of_the_user_if_there_is_one(tmp_path: Path) -> None:
    place: Any = {"cwd": tmp_path, "env": {**os.environ, "SANDBUR_HOME": str(tmp_path)}}
    ann, bob, nobody = (
        Memory("sqlite:///" + str(tmp_path / "s.db"), user=one, **place) for one in ("ann", "bob", "")
    )
    assert (await ann.add("I like tea")).scope.kind == "user"
    assert (await nobody.add("Tests run with make")).scope.kind == "project"
    assert [fact.text for fact in await bob.list()] == ["Tests run with make"]


async def test_the_model_of_a_session_with_a_user_reads_what_the_usual_place_is(
    tmp_path: Path,
) -> None:
    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        seen.append(request)
        return "done"

    agent = make_agent(tmp_path, reply, memory="agent")
    for user in ("ann", ""):
        async with agent.session(user=user) as session:
            await session.run("hello")
    of_user, of_nobody = map(read_tool, seen)
    assert "/memories/user (this user, the usual place) and /memories/project (everybody)" in of_user
    assert "/memories/project (this project) and /memories/user (all projects)" in of_nobody


@pytest.mark.parametrize(("more", "is_used"), [("", False), (', memory_scopes=["user", "project"]', True)])
def test_a_server_has_no_project_unless_the_agent_names_it(tmp_path: Path, more: str, is_used: bool) -> None:
    (tmp_path / "served.py").write_text(SERVED.replace("{more}", more))
    with serve(tmp_path, "--agent", "served:agent", env={"PYTHONPATH": str(tmp_path)}) as running:
        for kind in ("project", "user"):
            running.begin(kind, f"/memories/{kind}/port.md", user="ann")
            running.wait_for(kind, "done")
        answers = {
            kind: running.ask("GET", f"/v1/sessions/{kind}/messages").json["messages"][-1]["text"]
            for kind in ("project", "user")
        }
        assert ("not used here" in answers["project"]) is not is_used
        assert "not used here" not in answers["user"]
        facts = running.ask("GET", "/v1/facts?scope=project").json["facts"]
        assert [fact["text"] for fact in facts] == ["The port is 8080"] * is_used


@pytest.mark.parametrize("scopes", [["team"], ["user", "User"], "project"])
def test_a_wrong_scope_is_refused_when_the_agent_is_made(scopes: Any) -> None:
    with pytest.raises((UsageError, TypeError), match="memory_scopes"):
        Agent("demo", memory="agent", memory_scopes=scopes)
