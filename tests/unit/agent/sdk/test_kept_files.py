"""Files of back ends are judged by their paths, masked, forked, exported, and shared by sessions."""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, Composite, SessionMemory, StoreFiles, file_tools
from sandbur.actions.ports import Verdict
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.application import ExecutionMode
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import, write_import
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store

FILES = Composite({"/memories/": StoreFiles(), "/notes/": SessionMemory()})


@pytest.fixture
def place() -> Iterator[TemporaryStore]:
    with temporary_store() as place:
        yield place


def agent(place: TemporaryStore, replies: Sequence[Any], mode: ExecutionMode = "yolo", **more: Any) -> Agent:
    model = ScriptedModel(replies)
    tools = file_tools(FILES)
    return Agent(model, tools=tools, mode=mode, store=place.url, env=place.env, cwd=place.folder, **more)


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", path=path, content=content)


def judged(name: str, mode: ExecutionMode, folder: Path, /, **arguments: str) -> Verdict:
    return with_rules((), (), name, mode, folder, **arguments)


def with_rules(
    allow: Sequence[str],
    deny: Sequence[str],
    name: str,
    mode: ExecutionMode,
    folder: Path,
    /,
    **arguments: str,
) -> Verdict:
    tool = {tool.spec.name: tool for tool in file_tools(FILES)}[name]
    policy = Policy(parse_rules(allow), parse_rules(deny), folder)
    return policy.judge(tool, tool.parse(json.dumps(arguments)), mode)


def test_reading_runs_unasked_and_writing_asks(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    for name in ("read_file", "list_directory"):
        assert judged(name, "interactive", tmp_path, path="/memories/a").decision == "allow"
    assert judged("grep", "interactive", tmp_path, pattern="x", path="/memories").decision == "allow"
    assert judged("glob", "interactive", tmp_path, pattern="/memories/*").decision == "allow"
    written = {"path": "/memories/a", "content": "x"}
    assert judged("write_file", "interactive", tmp_path, **written).decision == "ask"
    assert judged("write_file", "plan", tmp_path, **written).decision == "deny"
    assert judged("write_file", "auto-edit", tmp_path, **written).decision == "allow"


def test_other_paths_are_judged_as_paths_of_the_disk(tmp_path: Path) -> None:
    for path in ("/etc/passwd", "/memories2/a", "/x/../memories/a", "//memories/a", "~/.ssh/id"):
        assert judged("read_file", "interactive", tmp_path, path=path).decision == "ask", path
    assert judged("glob", "interactive", tmp_path, pattern="/etc/*").decision == "ask"


@pytest.mark.parametrize("path", ["/memories/private/a", "/memories//private/./a", "/memories/private"])
def test_rules_are_matched_against_the_path_however_it_is_written(tmp_path: Path, path: str) -> None:
    deny = ["read_file(/memories/private*)"]
    for name in ("read_file", "list_directory"):
        assert with_rules([], deny, name, "yolo", tmp_path, path=path).decision == "deny"
    edit = {"path": path, "old": "a", "new": "b"}
    assert with_rules([], deny, "edit_file", "yolo", tmp_path, **edit).decision == "deny"
    assert with_rules([], deny, "read_file", "yolo", tmp_path, path="/memories/b").decision == "allow"
    found = with_rules([], deny, "grep", "yolo", tmp_path, pattern="x", path="/memories")
    assert found.decision == "ask"
    assert with_rules([], deny, "grep", "yolo", tmp_path, pattern="x", path="/notes").decision == "allow"
    allow = ["write_file(/memories/*)"]
    written = {"path": path, "content": "x"}
    assert with_rules(allow, [], "write_file", "interactive", tmp_path, **written).decision == "allow"


async def test_what_was_approved_runs_once(place: TemporaryStore) -> None:
    asked = agent(place, [write("/memories/a", "1"), "done"], "interactive")
    async with asked.session("s1") as session:
        await session.run("go")
        (call,) = session.pending
        result = await session.approve(call.call_id)
    assert result.output == "done"
    assert [one.content for message in await asked.history("s1") for one in message.tool_results] == [
        "Created /memories/a: 1 line, 1 byte."
    ]


async def test_sessions_share_the_store_and_not_their_memory(place: TemporaryStore) -> None:
    await agent(place, [[write("/memories/a", "1"), write("/notes/a", "2")], "done"]).run("go")
    reads = [ToolCall("read_file", path="/memories/a"), ToolCall("read_file", path="/notes/a"), "done"]
    other = agent(place, reads)
    await other.run("go", session_id="other")
    told = [one.content for message in await other.history("other") for one in message.tool_results]
    assert told == ["     1\t1", "/notes/a does not exist."]


async def test_a_session_that_missed_a_change_is_told_and_reads_again(place: TemporaryStore) -> None:
    await agent(place, [write("/memories/a", "1"), "done"]).run("go")
    one = agent(
        place,
        [ToolCall("read_file", path="/memories/a"), "read", write("/memories/a", "mine"), "done"],
    )
    await one.run("read", session_id="one")
    await agent(place, [write("/memories/a", "theirs"), "done"]).run("go")
    await one.run("write", session_id="one")
    last = [one.content for message in await one.history("one") for one in message.tool_results][-1]
    assert last == "/memories/a has changed since you read it: nothing was written. Read it again."


async def test_a_fork_has_the_memory_of_its_step(place: TemporaryStore) -> None:
    first = agent(place, [write("/notes/a", "1"), "one", write("/notes/a", "2"), "two"])
    await first.run("go", session_id="s1")
    store = Store.open(place.url)
    at = store.index.summary("s1").steps - 1
    store.close()
    await first.run("go on", session_id="s1")
    store = Store.open(place.url)
    store.fork("s1", "f1", at)
    store.fork("s1", "f2")
    old, new = store.open_session_files("f1"), store.open_session_files("f2")
    assert (await old.read("/a"), await new.read("/a")) == (b"1", b"2")
    store.close()
    went_on = agent(place, [write("/notes/b", "3"), ToolCall("read_file", path="/notes/a"), "done"])
    await went_on.run("go", session_id="f1")
    told = [one.content for message in await went_on.history("f1") for one in message.tool_results]
    assert told[-1] == "     1\t1"


async def test_session_memory_goes_with_an_export(place: TemporaryStore) -> None:
    await agent(place, [write("/notes/é", "1\n\0"), "done"]).run("go", session_id="s1")
    store = Store.open(place.url)
    lines = [json.dumps(record) for record in export_session(store.database, "s1")]
    assert store.verify("s1") == []
    store.close()
    other = Store.open(f"sqlite:///{place.folder}/other.db")
    exported = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    write_import(other.database, "", check_import(other.database, exported))
    assert await other.open_session_files("s1").read("/é") == b"1\n\0"
    other.close()


async def test_no_secret_gets_into_a_back_end(place: TemporaryStore) -> None:
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    for path in ("/memories/a", "/notes/a"):
        await agent(place, [write(path, f"key = {secret}\n"), "done"]).run("go")
    for file in place.folder.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
