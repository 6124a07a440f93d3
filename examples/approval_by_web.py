"""A call waits for a person, who decides about it on a web page: even days later, in another process.

Needs `pip install fastapi uvicorn python-multipart`. The model is scripted, so no key is needed;
SANDBUR_MODEL=PROVIDER/MODEL uses a real model. Open http://127.0.0.1:8000/refunds/17; stop and start the
server before you decide, if you like. A page for others belongs behind a login.
"""

import os
from html import escape
from typing import Annotated, Literal

import uvicorn
from fastapi import FastAPI, Form
from fastapi.responses import HTMLResponse

from sandbur import Agent, AgentSession, ModelRequest, tool
from sandbur.testing import ScriptedModel, ToolCall


@tool(ask="always")
def refund(order: str, cents: int) -> str:
    """Give a customer the money back."""
    return f"{cents / 100:.2f} refunded for order {order}"


def next_words(request: ModelRequest) -> ToolCall | str:
    results = [given for message in request.messages for given in message.tool_results]
    return f"Result: {results[0].content}." if results else ToolCall("refund", order="17", cents=500)


agent = Agent(os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words), tools=[refund])
app = FastAPI()


@app.get("/refunds/{order}", response_class=HTMLResponse)
async def ask(order: int) -> str:
    async with agent, agent.session(f"refund-{order}") as session:
        if not session.history:
            # The run ends while the call waits; the session is on disk.
            await session.run(f"The customer of order {order} wants 5.00 back.")
        return page(session)


@app.post("/refunds/{order}", response_class=HTMLResponse)
async def decide(
    order: int,
    call: Annotated[str, Form()],
    verdict: Annotated[Literal["approve", "deny"], Form()],
    reason: Annotated[str, Form()] = "",
) -> str:
    async with agent, agent.session(f"refund-{order}") as session:
        # A second decision, or one that is too late, changes nothing.
        if call in [waiting.call_id for waiting in session.pending]:
            await (session.approve(call) if verdict == "approve" else session.deny(call, reason=reason))
        return page(session)


def page(session: AgentSession) -> str:
    """Return a page with the messages and the waiting calls; text from the model is untrusted and escaped."""
    said = "".join(f"<p>{escape(one.role)}: {escape(one.text)}" for one in session.history if one.text)
    waiting = "".join(
        f"<form method=post><p>{escape(one.tool)} {escape(one.arguments_json)} <i>{escape(one.reason)}</i>"
        f"<input type=hidden name=call value='{escape(one.call_id)}'><input name=reason>"
        "<button name=verdict value=approve>Approve</button>"
        "<button name=verdict value=deny>Deny</button></form>"
        for one in session.pending
    )
    return f"<!doctype html><title>Refund</title>{said}{waiting or '<p>Nothing waits.'}"


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
