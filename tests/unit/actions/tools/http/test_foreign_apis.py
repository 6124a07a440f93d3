"""APIs that nobody here wrote: what FastAPI describes, and reads again, is what a model gives."""

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Body, Cookie, FastAPI, Header, Query
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from support.samples.texts import any_text

from sandbur import openapi_tools
from sandbur.actions.ports import Tool, ToolContext


class Size(Enum):
    small = "s"
    large = "l"


class Node(BaseModel):
    name: str
    size: Size = Size.small
    weight: float | None = None
    children: "list[Node]" = []


def api() -> FastAPI:
    app = FastAPI()

    @app.get("/items/{item}/of/{owner:str}")
    def find(
        item: int,
        owner: str,
        tags: Annotated[list[str], Query()] = [],  # noqa: B006
        size: Size | None = None,
        x_trace: Annotated[str | None, Header()] = None,
        mood: Annotated[str | None, Cookie()] = None,
    ) -> list[Any]:
        return [item, owner, tags, size, x_trace, mood]

    @app.post("/nodes", operation_id="createNode")
    def create(node: Node) -> Node:
        return node

    @app.put("/texts/{name}", operation_id="putText")
    def put(name: str, text: Annotated[str, Body()]) -> list[str]:
        return [name, text]

    return app


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server._serve([listening]))  # pyright: ignore[reportPrivateUsage]
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


async def answer(tools: tuple[Tool, ...], name: str, /, **arguments: Any) -> Any:
    one = next(one for one in tools if one.spec.name == name)
    ended = await one.run(one.parse(json.dumps(arguments)), ToolContext("call", Path("/"), lambda text: None))
    assert ended.outcome == "ok", ended.content
    return json.loads(ended.content.partition("\n")[2])


def described(app: FastAPI, folder: Path) -> Path:
    file = folder / "api.json"
    file.write_text(json.dumps(app.openapi()))
    return file


async def test_what_a_model_gives_is_what_the_api_reads(tmp_path: Path) -> None:
    app = api()
    async with served(app) as url:
        tools = openapi_tools(described(app, tmp_path), ["*"], base_url=url)
        find = next(one.spec.name for one in tools if one.effect == "read")
        more = {"x-trace": "t 1", "mood": "good"}
        found = await answer(tools, find, item=7, owner="a&b?c#d é", tags=["x", "y&z", ""], size="l", **more)
        assert found == [7, "a&b?c#d é", ["x", "y&z", ""], "l", "t 1", "good"]
        assert await answer(tools, find, item=7, owner="me") == [7, "me", [], None, None, None]
        tree = {"name": "a", "size": "l", "weight": None, "children": [{"name": "b", "weight": 1.5}]}
        made = await answer(tools, "createNode", body=tree)
        assert made["children"][0] == {"name": "b", "size": "s", "weight": 1.5, "children": []}
        assert await answer(tools, "putText", name="n", body='"}, {') == ["n", '"}, {']


@settings(deadline=None, max_examples=5)
@given(st.lists(any_text(max_size=20), min_size=30, max_size=30))
def test_texts_of_any_kind_arrive(texts: list[str]) -> None:
    async def all_of_them(folder: Path) -> None:
        app = api()
        async with served(app) as url:
            tools = openapi_tools(described(app, folder), ["*"], base_url=url)
            find = next(one.spec.name for one in tools if one.effect == "read")
            assert (await answer(tools, find, item=1, owner="me", tags=texts))[2] == texts
            assert await answer(tools, "putText", name="n", body="".join(texts)) == ["n", "".join(texts)]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(all_of_them(Path(folder)))
