"""Kill a terminal agent in the middle of a shell command, resume it, and count effects.

Usage, by `peer_kills.py`: terminal_kills.py AGENT PROGRAM, in a network namespace whose only interface is
loopback and in a PID namespace of its own. The model is a server on loopback that asks for one command; the
command adds a line to a file, the "payment", and hangs. Prints one line: how often the payment happened, what
the model read about the call after the resume, and whether the command outlived the agent.
"""

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.models.server import Answer, ModelServer, Request, call, say
from support.waiting import wait_for

GOAL = "Pay the invoice."
GO_ON = "Go on."
PAYS = "echo paid >> payments; [ $(wc -l < payments) -gt 1 ] || sleep 613"
"""Hangs the first time only, so that a repeated command ends."""
SLEEPER = b"sleep\x00613"
SHELLS: dict[str, dict[str, Any]] = {
    "Bash": {"command": PAYS, "description": "Pay"},
    "bash": {"command": PAYS, "description": "Pay"},
    "exec_command": {"cmd": PAYS},
    "run_shell_command": {"command": PAYS, "description": "Pay", "is_background": False},
    "shell": {"command": ["bash", "-c", PAYS]},
    "shell_command": {"command": PAYS},
}
"""The tools for shell commands of all agents, and the arguments that each takes."""
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
PATIENCE_S = 300


@dataclass(frozen=True)
class TerminalAgent:
    """How a terminal agent is started with a local model, and resumed; `{url}` is the model server."""

    start: tuple[str, ...]
    resume: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Path below the home folder -> content."""


CODEX = """
model = "m"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
OPENCODE = {
    "model": "local/m",
    "small_model": "local/m",
    "autoupdate": False,
    "share": "disabled",
    "permission": {"bash": "allow"},
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{url}/v1", "apiKey": "dummy"},
            "models": {"m": {"name": "m"}},
        }
    },
}
_CODEX = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_QWEN = ("--auth-type", "openai", "-m", "m", "-y")
_CLAUDE = ("--model", "claude-sonnet-4-5", "--allowedTools", "Bash")
AGENTS = {
    "sandbur": TerminalAgent(
        ("-p", GOAL, "-y", "-m", "openai-chat/m"), ("-p", "-c"), {"OPENAI_BASE_URL": "{url}/v1"}
    ),
    "codex": TerminalAgent(
        ("exec", *_CODEX, GOAL),
        ("exec", "resume", "--last", *_CODEX, GO_ON),
        files={".codex/config.toml": CODEX},
    ),
    "claude": TerminalAgent(
        ("-p", GOAL, *_CLAUDE),
        ("-p", GO_ON, "-c", *_CLAUDE),
        {
            "ANTHROPIC_BASE_URL": "{url}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    ),
    "opencode": TerminalAgent(
        ("run", GOAL),
        ("run", "-c", GO_ON),
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {".config/opencode/opencode.json": json.dumps(OPENCODE)},
    ),
    "qwen": TerminalAgent(
        ("-p", GOAL, *_QWEN),
        ("-p", GO_ON, "-c", *_QWEN),
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "m"},
        {
            ".qwen/settings.json": json.dumps(
                {
                    "telemetry": {"enabled": False},
                    "privacy": {"usageStatisticsEnabled": False},
                    "general": {"disableAutoUpdate": True},
                }
            )
        },
    ),
}
"""Name of the program -> how it is used. Sandbur is the module of this Python."""


class PayingModel:
    """Asks for the payment until a request has a result of it."""

    def __init__(self) -> None:
        self.results: list[list[str]] = []
        """The results of tools in each request that offered a shell."""

    def answer(self, request: Request) -> Answer:
        body = json.loads(request.raw)
        tools = {
            one["name"]: one
            for one in (each.get("function", each) for each in body.get("tools") or ())
            if "name" in one
        }
        shell = next((name for name in SHELLS if name in tools), None)
        if shell is None:
            return say("A payment.")  # a title, or a check of the connection
        self.results.append(list(find_results(body)))
        if self.results[-1]:
            return say("It is paid.")
        schema = tools[shell].get("parameters") or tools[shell].get("input_schema") or {}
        known = schema.get("properties", {})
        return call(shell, **{name: value for name, value in SHELLS[shell].items() if name in known})


def find_results(body: dict[str, Any]) -> Iterator[str]:
    """Yield the results of tools in a request of any wire format."""
    for item in body.get("messages") or body.get("input") or ():
        if item.get("role") == "tool":
            yield flatten(item["content"])
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield flatten(item["output"])
        elif isinstance(item.get("content"), list):
            yield from (
                flatten(one["content"]) for one in item["content"] if one.get("type") == "tool_result"
            )


def flatten(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(one.get("text", "")) for one in content)


def raise_loopback() -> None:
    """Switch on the only interface of the namespace; raises `OSError` outside of one."""
    with socket.socket() as one:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(one, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | 1))


def find_sleepers() -> list[int]:
    """Return the processes of the command. The namespace has no processes of others."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if SLEEPER in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def kill_in_command(words: list[str], env: dict[str, str], work: Path) -> bool:
    """Start an agent, kill its process group during the command; return whether the command outlives it."""
    log = (work.parent / "first.log").open("wb")
    agent = subprocess.Popen(
        words, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    payments = work / "payments"

    def has_paid() -> bool:
        assert agent.poll() is None, (work.parent / "first.log").read_text(errors="replace")[-3000:]
        return payments.exists() and bool(find_sleepers())

    wait_for(has_paid, limit_s=PATIENCE_S)
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    give_up = time.monotonic() + 3
    while find_sleepers() and time.monotonic() < give_up:
        time.sleep(0.1)
    left = find_sleepers()
    for process in left:
        os.kill(process, signal.SIGKILL)
    return bool(left)


def measure(name: str, program: list[str]) -> str:
    """Return the line about one agent."""
    agent, model = AGENTS[name], PayingModel()
    raise_loopback()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ModelServer(model.answer, check=False, record=False) as server,
    ):
        home, work = Path(folder, "home"), Path(folder, "work")
        work.mkdir()

        def fill(text: str) -> str:
            return text.replace("{url}", server.url)

        for path, text in agent.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(fill(text))
        home.mkdir(exist_ok=True)
        keys = {"OPENAI_API_KEY": "dummy", "ANTHROPIC_API_KEY": "dummy", "HOME": str(home), "TERM": "dumb"}
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **keys}
        env |= {key: fill(value) for key, value in agent.env.items()}
        outlives = kill_in_command([*program, *agent.start], env, work)
        model.results.clear()
        resumed = subprocess.run(
            [*program, *agent.resume], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        paid = len((work / "payments").read_text().splitlines())
        if resumed.returncode and not model.results:
            raise SystemExit(f"the resume failed: {resumed.stderr.strip()[-500:]}")
        return f"{find_version(program, env, work)}: {describe(paid, model, outlives)}"


def find_version(program: list[str], env: dict[str, str], work: Path) -> str:
    words = subprocess.run(
        [*program, "--version"], cwd=work, env=env, capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"\d+\.\d+\.\d+", words)
    return found[0] if found else "of unknown version"


def describe(paid: int, model: PayingModel, outlives: bool) -> str:
    if not model.results:
        read = "no request to the model"
    elif not model.results[0]:
        read = "the first request after the resume has no result of the call"
    else:
        read = f"the model read: {' '.join(model.results[0][0].split())[:160]!r}"
    calls = "the command outlived the agent" if outlives else "the command ended with the agent"
    return f"the effect happened {paid} times; {calls}; {read}"


if __name__ == "__main__":
    print(measure(sys.argv[1], sys.argv[2:]))
