"""The model searches knowledge bases by a tool that only sessions with a base have."""

import json
from collections.abc import Sequence
from pathlib import Path

from support.commands.command import Command
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.models.server import ModelServer, call, say

from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.knowledge.retrieval.retrieve_tool import Retrieve
from sandbur.agent.knowledge.retrieval.session_bases import SessionBases
from sandbur.agent.session.secrets import masker_for
from sandbur.state.store.store import Store


def fill(folder: Path) -> Path:
    (folder / "docs").mkdir()
    (folder / "docs/install.md").write_text("# Install\nUse the zebra package.\n")
    (folder / "docs/private.md").write_text("# Private\nThe zebra code is 4711.\n")
    return folder / "docs"


async def ask(
    store: Store, folder: Path, *calls: dict[str, object], deny: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return the outcome and the content of each call of the tool in a session of a folder."""
    library = Library(store.database, "", masker_for({}, folder))
    base = await library.open_base("project", str(folder.resolve()))
    await library.add(base, folder / "docs")
    tool = Retrieve([SessionBases(library, ["project"], folder.resolve())])
    model = ScriptedModel([("retrieve", arguments) for arguments in calls], "done")
    session = await open_real(
        store, model, folder.resolve(), mode="interactive", toolbox={"retrieve": tool}, deny=deny
    )
    await collect(session.send("go"))
    results = [block for message in session.state.active_history for block in message.tool_results]
    return [(block.outcome, block.content) for block in results]


async def test_passages_come_with_places_to_cite_and_digests(store: Store, tmp_path: Path) -> None:
    fill(tmp_path)
    ((outcome, text),) = await ask(store, tmp_path, {"query": "zebra package", "limit": 1})
    assert outcome == "ok"
    assert text.startswith("[docs/install.md:1-2] Install (sha256 ")
    assert text.endswith("Use the zebra package.")
    assert "private" not in text


async def test_rules_that_deny_reading_a_file_hide_its_passages(store: Store, tmp_path: Path) -> None:
    fill(tmp_path)
    ((outcome, text),) = await ask(store, tmp_path, {"query": "zebra"}, deny=["read_file(docs/private.md)"])
    assert outcome == "ok"
    assert "install.md" in text
    assert "4711" not in text


async def test_wrong_arguments_get_a_sentence(store: Store, tmp_path: Path) -> None:
    fill(tmp_path)
    found = await ask(store, tmp_path, {"query": "zebra", "base": "other"}, {"query": "okapi"}, {"query": ""})
    assert found[0] == ("error", "There is no knowledge base 'other'. There are: project.")
    assert found[1] == ("ok", "Nothing matches. Try other words.")
    assert found[2][0] == "error"


async def test_only_sessions_with_a_base_pay_for_it(command: Command) -> None:
    docs = fill(command.folder)
    turns = [say("one"), call("retrieve", query="zebra"), say("It is zebra [docs/install.md:1-2].")]
    async with ModelServer(turns) as server:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
        assert command.run("-p", "hello", "-m", "openai/x", **env).code == 0
        assert command.run("index", "add", str(docs)).code == 0
        ended = command.run("-p", "which package?", "-m", "openai/x", "--output-format", "json", **env)
        assert ended.result["result"] == "It is zebra [docs/install.md:1-2]."
    first, second, third = (json.dumps(request.body) for request in server.requests)
    assert "retrieve" not in first
    assert "square brackets" in second
    assert '"retrieve"' in second
    assert "[docs/install.md:1-2] Install (sha256 " in third


async def test_a_session_that_may_not_have_the_tool_is_not_asked_for_citations(command: Command) -> None:
    command.run("index", "add", str(fill(command.folder)))
    async with ModelServer([say("one"), say("two")]) as server:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
        for flags in (("--disallowed-tools", "retrieve"), ("--tools", "read_file")):
            assert command.run("-p", "hello", "-m", "openai/x", *flags, **env).code == 0
    assert not [request for request in server.requests if "retrieve" in json.dumps(request.body)]


async def test_the_setting_names_further_bases_and_missing_ones_are_reported(command: Command) -> None:
    docs = fill(command.folder)
    command.run("index", "add", str(docs), "--base", "notes", "--user")
    async with ModelServer([say("one")]) as server:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url, "SANDBUR_KNOWLEDGE": "notes,gone"}
        ended = command.run("-p", "hello", "-m", "openai/x", **env)
    assert "There is no knowledge base gone: add files with `sandbur index add`." in ended.err
    (request,) = server.requests
    assert "Search the knowledge bases (notes)" in json.dumps(request.body)
