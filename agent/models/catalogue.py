"""Which model a run uses when none is named: by the keys that are set, then a local Ollama, then the demo."""

import http.client
import json
from collections.abc import Mapping
from threading import Thread
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

DEMO = "demo"

DEFAULTS: tuple[tuple[str, str], ...] = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"),
    ("OPENAI_API_KEY", "openai/gpt-6.1-sol"),
    ("GEMINI_API_KEY", "gemini/gemini-4-argon"),
    ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-5.5"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro"),
    ("DASHSCOPE_API_KEY", "dashscope/qwen3.8-max"),
)
"""Key variable -> the model it stands for, first match wins."""

DEMO_NOTICE = (
    "No model is set up, so this is the demo: a fixed program, no language model. For a real one run "
    "`export ANTHROPIC_API_KEY=...` or `export OPENAI_API_KEY=...`, or start Ollama; "
    "then `sandbur -m PROVIDER/MODEL`."
)

_OLLAMA_PORT = 11434
_CONNECT_TIMEOUT_S = 0.15
_PROBE_TIMEOUT_S = 0.4
_MAX_ANSWER_BYTES = 1 << 20


class Address(NamedTuple):
    host: str
    port: int
    encrypted: bool


def choose_model(requested: str | None, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the model to use and what to tell the person about the choice."""
    if requested:
        return requested, []
    for variable, model in DEFAULTS:
        if env.get(variable, "").strip():
            return model, []
    local = ollama_model(env)
    if local:
        return local, [
            f"No key is set; using {local} of the Ollama on this machine (-m names another model)."
        ]
    return DEMO, [DEMO_NOTICE]


def ollama_model(env: Mapping[str, str]) -> str | None:
    """Return the first chat model of an Ollama that answers at once, if there is one."""
    address = ollama_address(env.get("OLLAMA_HOST", ""))
    if address is None:
        return None
    found: list[str] = []
    # A thread bounds the whole probe: name look-up and a dripping server know no socket timeout.
    probe = Thread(target=lambda: found.extend(_chat_models(_tags(address))), daemon=True)
    probe.start()
    probe.join(_PROBE_TIMEOUT_S)
    return f"ollama/{found[0]}" if found else None


def ollama_address(value: str) -> Address | None:
    """Read `OLLAMA_HOST` as Ollama does: host, host:port, :port or URL; None if it is none of these."""
    text = value.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host.isprintable() or " " in host:
        return None
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    default = _OLLAMA_PORT if "://" not in text else (443 if parts.scheme == "https" else 80)
    return Address(host, port or default, parts.scheme == "https")


def _tags(address: Address) -> Any:
    """Ask for the list of models; None if there is no proper answer."""
    kind = http.client.HTTPSConnection if address.encrypted else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=_CONNECT_TIMEOUT_S)
    try:
        connection.request("GET", "/api/tags")
        answer = connection.getresponse()
        return json.loads(answer.read(_MAX_ANSWER_BYTES)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def _chat_models(tags: Any) -> list[str]:
    listed = cast(dict[str, Any], tags).get("models") if isinstance(tags, dict) else None
    entries = cast(list[Any], listed) if isinstance(listed, list) else []
    names = [cast(dict[str, Any], entry).get("name") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and _is_chat_model(name)]


def _is_chat_model(name: str) -> bool:
    return bool(name) and name.isprintable() and " " not in name and "embed" not in name
