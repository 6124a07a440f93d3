"""An agent behind a web server: many chats at once, each with its id, and events as a stream (SSE).

Needs `pip install fastapi uvicorn`. The model is scripted, so no key is needed;
SANDBUR_MODEL=PROVIDER/MODEL uses a real model. Try it with

    curl -N -d '{"text": "What is twice 21?"}' -H 'Content-Type: application/json' http://127.0.0.1:8000/chats/7
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from sandbur import Agent, ModelRequest, SandburError, SessionNotFound, events, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool(effect="read")
async def double(number: int) -> int:
    """Double a number."""
    await asyncio.sleep(0.1)
    return 2 * number


def next_words(request: ModelRequest) -> ToolCall | str:
    last = list(request.messages)[-1]
    if last.tool_results:
        return f"It is {last.tool_results[0].content}."
    numbers = re.findall(r"\d+", last.text)
    return ToolCall("double", number=int(numbers[0])) if numbers else "Which number?"


agent = Agent(os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words), tools=[double])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    # One agent, one store and one HTTP client for all requests.
    async with agent:
        yield


app = FastAPI(lifespan=lifespan)


class Message(BaseModel):
    text: str


@app.post("/chats/{chat}")
async def send(chat: str, message: Message) -> StreamingResponse:
    return StreamingResponse(answer(chat, message.text), media_type="text/event-stream")


async def answer(chat: str, text: str) -> AsyncGenerator[str]:
    """Yield the events of one run. A closed connection interrupts the run; the next message continues it."""
    try:
        async with agent.session(chat) as session:
            async for event in session.stream(text):
                if isinstance(event, events.TextDelta | events.ToolFinished | events.RunFinished):
                    yield sse(type(event).__name__, asdict(event))
    except SandburError as error:
        # For example `SessionHeld`, if another request runs this chat.
        yield sse("Error", {"code": error.code, "message": error.message})


def sse(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data, default=str)}\n\n"


@app.get("/chats/{chat}")
async def history(chat: str) -> list[dict[str, str]]:
    try:
        return [{"role": one.role, "text": one.text} for one in await agent.history(chat) if one.text]
    except SessionNotFound:
        raise HTTPException(404, "There is no such chat.") from None


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
