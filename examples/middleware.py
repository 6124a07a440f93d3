"""What goes around every model call and every tool call: own middleware, beside those that ship.

The model's words are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL asks a real one.
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
    """Changes what the model is asked."""

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        return await next(replace(request, system=f"{request.system}\nAnswer in one sentence."))


class Stopwatch(Middleware):
    """Watches tool calls. One object serves all sessions, so what it remembers it keeps for each."""

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
    """Lets a tool not run; the model reads why."""

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
