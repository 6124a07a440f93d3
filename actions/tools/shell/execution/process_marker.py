"""Builds the environment of a command, with a variable that marks the processes of the command."""

import os
import signal
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path

from ..supervisor.order import MARK

_SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "PYTHONUNBUFFERED": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
_PROVIDERS = (
    "OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GOOGLE_GENERATIVE_AI", "DEEPSEEK", "DASHSCOPE", "OPENROUTER",
    "OLLAMA", "MISTRAL", "GROQ", "XAI", "TOGETHER", "FIREWORKS", "COHERE", "CO", "PERPLEXITY", "CEREBRAS",
    "MOONSHOT", "ZHIPUAI", "ZAI", "MINIMAX", "NVIDIA", "AZURE_OPENAI", "SILICONFLOW", "VOYAGE",
)  # fmt: skip
_SECRETS = frozenset(
    {f"{provider}_API_KEY" for provider in _PROVIDERS}
    | {"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_ADMIN_KEY", "AWS_BEARER_TOKEN_BEDROCK"}
)
_COLOURS = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM"})


def shell_environment(
    outer: Mapping[str, str], call: str, withheld: Set[str] = frozenset()
) -> dict[str, str]:
    """Return the command's environment: `outer` without the `withheld` names, and with the mark of `call`."""
    kept = {
        name: value
        for name, value in outer.items()
        if name not in _SECRETS
        and name not in withheld
        and name not in _COLOURS
        and not name.startswith("SANDBUR_")
    }
    return {**kept, **_SETTINGS, MARK: call}


_MOST_ROUNDS = 20


def kill_marked(*markers: str) -> int:
    """Kill all processes with these marks, including processes that start meanwhile. Return their number."""
    wanted = {f"{MARK}={marker}".encode() for marker in markers}
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        marked = [pid for pid in _list_pids() if wanted & _read_environment(pid) and pid != os.getpid()]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            break
        killed.update(marked)
    return len(killed)


def find_marked_processes(marker: str) -> list[str]:
    """Return the running processes of one call, each as `pid name`."""
    wanted = f"{MARK}={marker}".encode()
    return [
        f"{pid} {_read_name(pid)}"
        for pid in _list_pids()
        if wanted in _read_environment(pid) and pid != os.getpid()
    ]


def _read_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"


def _list_pids() -> list[int]:
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _read_environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
