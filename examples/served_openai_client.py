"""A client of OpenAI's SDK talks with `sandbur serve`: the server keeps both conversations as sessions.

Needs `pip install openai` and the extra `serve`. The server has the demo model, so no key is needed;
SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import os
import re
import subprocess
import sys
import tempfile

from openai import OpenAI

SERVE = [sys.executable, "-m", "sandbur.ui.cli.main", "serve", "--port", "0", "--mode", "yolo"]
MODEL = ["-m", os.environ.get("SANDBUR_MODEL") or "demo"]


def chat(client: OpenAI) -> None:
    """Send a conversation as a whole each time: it is one session of the server."""
    messages: list[dict[str, str]] = []
    sessions: set[str] = set()
    for question in ("run echo one", "run echo two"):
        messages.append({"role": "user", "content": question})
        made = client.chat.completions.create(model="default", messages=messages, user="ada")  # type: ignore[arg-type]
        text = made.choices[0].message.content or ""
        messages.append({"role": "assistant", "content": text})
        sessions.add(made.model_extra["sandbur"]["session_id"] if made.model_extra else "")
        print(text.splitlines()[0])
    print("sessions:", len(sessions))


def respond(client: OpenAI) -> None:
    """Name the previous response: the server has what came before. An older one begins a fork."""
    root = client.responses.create(model="default", input="run echo root")
    for branch in ("left", "right"):
        with client.responses.stream(
            model="default", input=f"run echo {branch}", previous_response_id=root.id
        ) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        print(text.splitlines()[0])
    print("stored:", client.responses.retrieve(root.id).status)


def main() -> None:
    # A store of its own: the address has a token only if the store has none.
    with tempfile.TemporaryDirectory() as folder:
        command = [*SERVE, *MODEL, "--store", f"sqlite:///{folder}/sandbur.db"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            found = re.search(r"(http://\S+)/\?token=(\S+)", server.stdout.readline())
            if found is None:
                sys.exit(server.communicate()[1])
            with OpenAI(base_url=f"{found[1]}/v1", api_key=found[2]) as client:
                chat(client)
                respond(client)
        finally:
            server.terminate()
            server.communicate()


if __name__ == "__main__":
    main()
