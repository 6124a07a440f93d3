"""Sessions whose model reaches out: who is offered what, what is journaled, and what a replay needs."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

from support.commands.command import Command
from support.models.server import ModelServer, call, say
from support.network.web_site import WebSite, page, silence

from sandbur.actions.tools.registry import NETWORK_TOOLS
from sandbur.state.session import SessionSettings


def offered(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[0].body["tools"]]


async def run(command: Command, server: ModelServer, *words: str, **env: str) -> Any:
    asked = ("-m", "openai-chat/scripted", "--output-format", "json", *words)
    key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"} | env
    return await asyncio.to_thread(lambda: command.run(*asked, **key))


def shown(server: ModelServer) -> str:
    """Return the last tool result that the model was sent."""
    return [message for message in server.requests[-1].body["messages"] if message["role"] == "tool"][-1][
        "content"
    ]


async def test_a_page_that_a_rule_names_is_fetched_unasked_and_journaled(command: Command) -> None:
    async with WebSite({"/x": page("hello from the page")}) as site:
        turns = [call("web_fetch", url=f"{site.url}/x"), say("done")]
        async with ModelServer(turns) as server:
            ended = await run(command, server, "-p", "go", "--allow", f"web_fetch({site.url}/*)")
            assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
            assert "hello from the page" in shown(server)
    session = ended.result["session_id"]
    exported = command.run("sessions", "export", session)
    moves = [json.loads(line) for line in exported.out.splitlines() if '"move"' in line]
    assert [record["move"] for record in moves] == ["proposed", "started", "finished"]
    assert moves[0]["body"]["effect"] == "idempotent"
    replayed = command.run("replay", session)
    assert replayed.code == 0, replayed.out + replayed.err


async def test_without_a_rule_a_page_waits_for_a_decision(command: Command) -> None:
    async with ModelServer([call("web_fetch", url="https://docs.python.org/3/")]) as server:
        ended = await run(command, server, "-p", "go")
    assert (ended.code, ended.result["status"]) == (3, "needs_approval")
    (pending,) = ended.result["pending"]
    assert pending["reason"] == "web_fetch sends a GET request over the network to docs.python.org"


async def test_yolo_does_not_reach_this_machine(command: Command) -> None:
    async with WebSite({"/": page("secret")}) as site:
        turns = [call("http_request", url=site.url), say("done")]
        async with ModelServer(turns) as server:
            await run(command, server, "-p", "go", "-y")
            assert "an address for this machine" in shown(server)
        assert site.connections == 0


async def test_a_secret_in_a_page_is_masked(command: Command) -> None:
    key = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT" * 2
    site = WebSite({"/": page(f"OPENAI_API_KEY={key}\n")})
    async with site, ModelServer([call("web_fetch", url=site.url), say("done")]) as server:
        await run(command, server, "-p", "go", "--allow", f"web_fetch({site.url}/*)")
        assert key not in json.dumps(server.requests[-1].body)
        assert "[masked" in shown(server)


async def test_a_search_is_offered_where_a_service_is_set_up(command: Command) -> None:
    found = {"results": [{"title": "Sandbur", "url": "https://sandbur.example/", "content": "a burr"}]}
    async with WebSite({"/search": page(json.dumps(found))}) as site:
        settings = {"SANDBUR_SEARCH_PROVIDER": "searxng", "SANDBUR_SEARCH_URL": site.url}
        async with ModelServer([call("web_search", query="burr"), say("done")]) as server:
            await run(command, server, "-p", "go", "-y", **settings)
            assert offered(server)[7:10] == list(NETWORK_TOOLS)
            assert "https://sandbur.example/" in shown(server)


async def test_a_session_without_them_offers_what_it_always_did(command: Command) -> None:
    async with ModelServer([say("hello"), say("again")]) as server:
        first = await run(command, server, "-p", "go", SANDBUR_WEB_TOOLS="0")
        assert not set(offered(server)) & set(NETWORK_TOOLS)
        await run(command, server, "-p", "more", "-r", first.result["session_id"])
        assert server.requests[0].body["tools"] == server.requests[1].body["tools"]


async def test_a_session_keeps_its_tools_when_the_settings_change(command: Command) -> None:
    async with ModelServer([say("hello"), say("again")]) as server:
        first = await run(command, server, "-p", "go")
        assert offered(server)[7:9] == ["http_request", "web_fetch"]
        later = {"SANDBUR_WEB_TOOLS": "0", "SANDBUR_SEARCH_PROVIDER": "brave"}
        await run(command, server, "-p", "more", "-r", first.result["session_id"], **later)
        assert server.requests[0].body["tools"] == server.requests[1].body["tools"]


def test_a_session_without_them_is_stored_as_it_always_was(tmp_path: Path) -> None:
    stored = SessionSettings(model="demo", cwd=str(tmp_path)).model_dump(mode="json")
    assert "network_tools" not in stored
    named = SessionSettings(model="demo", cwd=str(tmp_path), network_tools=("web_fetch",))
    assert SessionSettings.model_validate_json(named.model_dump_json()) == named


async def killed_while_it_asks(
    command: Command, server: ModelServer, site: WebSite, session: str, *words: str
) -> None:
    """Start a run, and kill it when the site has its request and says nothing."""
    key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
    line = command.line("-m", "openai-chat/scripted", "--session-id", session, *words)
    process = await asyncio.create_subprocess_exec(
        *line, cwd=command.folder, env=command.env | key, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    async with asyncio.timeout(100):
        await site.was_asked.wait()
    process.kill()
    await process.wait()


SESSION = "6f1c8f0e-5a3b-4a55-9a51-0d6f6f3a7a10"


async def test_a_page_that_was_being_fetched_when_the_process_died_is_fetched_again(command: Command) -> None:
    async with WebSite({"/": silence}) as site:
        turns = [call("web_fetch", url=site.url), say("done")]
        async with ModelServer(turns) as server:
            rule = f"web_fetch({site.url}/*)"
            await killed_while_it_asks(command, server, site, SESSION, "-p", "go", "--allow", rule)
            site.pages["/"] = page("hello again")
            ended = await run(command, server, "-p", "-r", SESSION)
            assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
            assert "hello again" in shown(server)


async def test_what_was_being_sent_when_the_process_died_waits_for_a_person(command: Command) -> None:
    async with WebSite({"/": silence}) as site:
        turns = [call("http_request", url=site.url, method="POST", body="pay"), say("done")]
        async with ModelServer(turns) as server:
            rule = f"http_request(POST {site.url}/)"
            rules = ("--allow", rule, "--allow", f"http_request({site.url}/*)")
            await killed_while_it_asks(command, server, site, SESSION, "-p", "go", *rules)
            ended = await run(command, server, "-p", "-r", SESSION)
    assert (ended.code, ended.result["status"]) == (3, "needs_decision")
    assert [call["kind"] for call in ended.result["pending"]] == ["outcome_unknown"]
    assert len(site.seen) == 1
