"""Tool servers that nobody here wrote work: over every transport, with all that they offer."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.network.web_site import WebSite, page
from support.tool_servers.configured import call_server_tool, configure_server, open_servers
from support.tool_servers.foreign import everything_at, free_port, program
from support.tools.processes import alive

from sandbur.actions.ports import Tool
from sandbur.agent.extensions.mcp.configuration.servers import McpServer
from sandbur.agent.extensions.mcp.source import McpSource
from sandbur.state.conversation.messages import Image

pytestmark = pytest.mark.slow


@asynccontextmanager
async def everything(transport: str, folder: Path) -> AsyncGenerator[tuple[dict[str, Tool], McpSource]]:
    if transport == "stdio":
        server = configure_server(
            "all", folder, command=program("mcp-server-everything"), startup_timeout_s=60.0
        )
        async with open_servers(server, folder=folder) as found:
            yield found
        return
    port = free_port()
    with everything_at(port, transport):
        async with open_servers(address_of(port, transport, folder), folder=folder) as found:
            yield found


def address_of(port: int, transport: str, folder: Path) -> McpServer:
    if transport == "sse":
        return configure_server(
            "all", folder, type="sse", url=f"http://127.0.0.1:{port}/sse", startup_timeout_s=60.0
        )
    return configure_server("all", folder, url=f"http://127.0.0.1:{port}/mcp", startup_timeout_s=60.0)


@pytest.mark.parametrize("transport", ["stdio", "streamableHttp", "sse"])
async def test_everything_works_over_every_transport(transport: str, tmp_path: Path) -> None:
    async with everything(transport, tmp_path) as (tools, source):
        assert source.notices() == ()
        assert len(tools) >= 10
        assert (
            await call_server_tool(tools["mcp__all__echo"], '{"message": "hello"}')
        ).content == "Echo: hello"
        total = await call_server_tool(tools["mcp__all__get-sum"], '{"a": 2, "b": 3}')
        assert (total.outcome, "5" in total.content) == ("ok", True)
        picture = await call_server_tool(tools["mcp__all__get-tiny-image"])
        assert [type(block) for block in picture.blocks] == [Image]
        weather = await call_server_tool(tools["mcp__all__get-structured-content"], '{"location": "Chicago"}')
        assert "temperature" in json.loads(weather.content)
        heard: list[str] = []
        slow = tools["mcp__all__trigger-long-running-operation"]
        await call_server_tool(slow, '{"duration": 1, "steps": 2}', heard)
        assert heard[-1] == "2/2\n"
        listed = await call_server_tool(tools["mcp__all__list_mcp_resources"])
        uri = listed.content.split(": ")[0]
        read = await call_server_tool(tools["mcp__all__read_mcp_resource"], json.dumps({"uri": uri}))
        assert (read.outcome, read.content.startswith(f"[{uri}]\n")) == ("ok", True)
        prompts = {prompt.name: prompt for prompt in await source.prompts.list_prompts()}
        assert "hello" not in await source.prompts.render_prompt(prompts["simple-prompt"], {})
        at_once = await asyncio.gather(
            *(call_server_tool(tools["mcp__all__echo"], '{"message": "x"}') for _ in range(20))
        )
        assert {outcome.content for outcome in at_once} == {"Echo: x"}
    assert not alive(str(tmp_path))


async def test_a_server_that_comes_back_at_its_address_is_used_again(tmp_path: Path) -> None:
    port = free_port()
    server = address_of(port, "streamableHttp", tmp_path)
    with everything_at(port, "streamableHttp") as process:
        async with open_servers(server, folder=tmp_path) as (tools, source):
            echo = tools["mcp__all__echo"]
            assert (await call_server_tool(echo, '{"message": "1"}')).outcome == "ok"
            process.kill()
            process.wait()
            gone = await call_server_tool(echo, '{"message": "2"}')
            assert gone.outcome in ("error", "unknown")
            assert source.health()["all"].state == "down"
            with everything_at(port, "streamableHttp"):
                async with asyncio.timeout(60):
                    while (await call_server_tool(echo, '{"message": "3"}')).outcome != "ok":  # noqa: ASYNC110
                        await asyncio.sleep(0.2)


async def test_files_are_written_and_read_where_the_server_may(tmp_path: Path) -> None:
    server = configure_server(
        "files", tmp_path, command=program("mcp-server-filesystem"), args=[str(tmp_path)]
    )
    async with open_servers(server, folder=tmp_path) as (tools, _):
        inside = {"path": str(tmp_path / "a.txt"), "content": "hello"}
        assert (await call_server_tool(tools["mcp__files__write_file"], json.dumps(inside))).outcome == "ok"
        assert (tmp_path / "a.txt").read_text() == "hello"
        read = await call_server_tool(
            tools["mcp__files__read_text_file"], json.dumps({"path": inside["path"]})
        )
        assert read.content == "hello"
        outside = await call_server_tool(tools["mcp__files__read_text_file"], '{"path": "/etc/hostname"}')
        assert (outside.outcome, "Access denied" in outside.content) == ("error", True)


async def test_the_time_is_told(tmp_path: Path) -> None:
    server = configure_server("time", tmp_path, command=program("mcp-server-time"), startup_timeout_s=60.0)
    async with open_servers(server, folder=tmp_path) as (tools, source):
        assert source.health()["time"].version == "2026-07-28"
        told = await call_server_tool(tools["mcp__time__get_current_time"], '{"timezone": "Asia/Tokyo"}')
        assert json.loads(told.content)["timezone"] == "Asia/Tokyo"
        wrong = await call_server_tool(tools["mcp__time__get_current_time"], '{"timezone": "Mars/Olympus"}')
        assert wrong.outcome == "error"


async def test_a_repository_is_looked_at_and_committed_to(tmp_path: Path) -> None:
    for words in (("init", "-q"), ("config", "user.name", "t"), ("config", "user.email", "t@t.example")):
        await asyncio.to_thread(subprocess.run, ("git", *words), cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("a")
    server = configure_server("git", tmp_path, command=program("mcp-server-git"), startup_timeout_s=60.0)
    repository = {"repo_path": str(tmp_path)}
    async with open_servers(server, folder=tmp_path / "logs") as (tools, _):
        added = await call_server_tool(
            tools["mcp__git__git_add"], json.dumps({**repository, "files": ["a.txt"]})
        )
        assert added.outcome == "ok", added.content
        made = await call_server_tool(
            tools["mcp__git__git_commit"], json.dumps({**repository, "message": "one"})
        )
        assert made.outcome == "ok", made.content
        status = await call_server_tool(tools["mcp__git__git_log"], json.dumps(repository))
        assert "one" in status.content


async def test_a_page_is_fetched(tmp_path: Path) -> None:
    args = ["--ignore-robots-txt", "--allow-private-ips"]
    server = configure_server(
        "fetch", tmp_path, command=program("mcp-server-fetch"), args=args, startup_timeout_s=60.0
    )
    site = WebSite({"/x": page("hello from the page")})
    async with site, open_servers(server, folder=tmp_path) as (tools, _):
        fetched = await call_server_tool(tools["mcp__fetch__fetch"], json.dumps({"url": f"{site.url}/x"}))
    assert (fetched.outcome, "hello from the page" in fetched.content) == ("ok", True), fetched.content
