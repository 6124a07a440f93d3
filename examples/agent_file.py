"""An agent that a file describes: JSON, YAML or TOML, here the same one in all three.

The agent has a system prompt from settings and action books, a tool that sends an HTTP request, and two
flows: messages of a known form that get their answer or their plan without a model call. The model is
scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.

The command runs the same file: sandbur --agent examples/agents/support.yaml
"""

import asyncio
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from sandbur import Agent
from sandbur.testing import ScriptedModel, ToolCall

AGENTS = Path(__file__).with_name("agents")
SCRIPT = [
    ToolCall("save_customer", email="ada@example.org"),
    "It is saved. Demos are on Monday.",
    ToolCall("finish_step", status="completed", summary="12 days are left."),
    ToolCall("finish_step", status="completed", summary="The manager agrees."),
    "You have leave for 5 days.",
]


class Shop(BaseHTTPRequestHandler):
    """The customer data of the shop."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"]
        print("the shop got", json.dumps(body), "with the key" if key == "Bearer key-of-the-shop" else "")
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


async def main(address: str) -> None:
    for name in ("support.json", "support.yaml", "support.toml"):
        # The example's server has another port each time; your file names your own host.
        file = Path(name)
        text = (AGENTS / name).read_text("utf-8")
        file.write_text(text.replace("http://127.0.0.1:8642", address), "utf-8")
        agent = Agent.from_file(
            file,
            model=os.environ.get("SANDBUR_MODEL") or ScriptedModel(SCRIPT),
            store="sqlite:///support.db",
            env={**os.environ, "SHOP_KEY": "key-of-the-shop"},
        )
        async with agent, agent.session(variables={"dialogId": f"dialog-{file.suffix[1:]}"}) as session:
            for message in ("I want a demo, ada@example.org", "When do you open?", "I want 5 days of leave."):
                result = await session.run(message)
                steps = ", ".join(step.description for step in result.steps)
                print(result.output, f"[{steps}]" if steps else "", f"{result.usage.llm_calls} model calls")


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(main(f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()
