"""Middleware around every model call and every tool call: own classes, and those of Sandbur.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import time
from dataclasses import replace

from sandbur import (
    Agent,
    CallLimit,
    Middleware,
    MiddlewareSession,
    ModelRequest,
    NextModelCall,
    NextToolCall,
    Overloaded,
    Reply,
    Retry,
    ToolCallRequest,
    ToolOutcome,
    tool,
)
from sandbur.testing import ScriptedModel, ToolCall


class HouseStyle(Middleware):
    """A middleware that changes the requests to the model."""

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        return await next(replace(request, system=f"{request.system}\nAnswer in one sentence."))


class Stopwatch(Middleware):
    """A middleware that times tool calls; one object serves all sessions, so it has times for each one."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}

    def on_start(self, session: MiddlewareSession) -> None:
        self.seconds[session.id] = {}

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        begun = time.monotonic()
        outcome = await next(call)
        mine = self.seconds[self.session.id]
        mine[call.name] = mine.get(call.name, 0.0) + time.monotonic() - begun
        return outcome

    def on_stop(self, session: MiddlewareSession) -> None:
        for name, seconds in self.seconds.pop(session.id).items():
            print(f"{name} took {seconds:.1f} s")


class NightRest(Middleware):
    """A middleware that refuses calls of a tool; the model reads the reason."""

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        if call.name == "ring":
            return self.outcome("Nobody is called at night.", "denied")
        return await next(call)


@tool(effect="read")
async def look_up(name: str) -> str:
    """Look a number up."""
    await asyncio.sleep(0.1)
    return "555-0100"


@tool(effect="read")
async def ring(number: str) -> str:
    """Ring somebody up."""
    raise RuntimeError("never reached at night")


async def main() -> None:
    script = [Overloaded("Busy."), ToolCall("look_up", name="Ada"), ToolCall("ring", number="555-0100"),
              "Ada has 555-0100, and can be called tomorrow."]  # fmt: skip
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        tools=[look_up, ring],
        middleware=[
            CallLimit(model_calls=20),
            Retry(first_delay_s=0.1),
            HouseStyle(),
            Stopwatch(),
            NightRest(),
        ],
    )
    result = await agent.run("Call Ada.")
    print(result.raise_for_status().output)


if __name__ == "__main__":
    asyncio.run(main())
