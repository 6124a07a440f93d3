"""Installs other frameworks and terminal agents outside of the checkout, where workloads find them.

Usage: peers.py install [frameworks|agents], or peers.py show. They go into `sandbur-bench` of the cache
folder (XDG_CACHE_HOME), from the registries that pip and npm use. `SANDBUR_BENCH_PEERS` names another Python
that has the frameworks, `SANDBUR_BENCH_TOOLS` another folder that has the agents. Nothing starts them but the
workloads of `all.py --peers` and `peer_kills.py`.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

FRAMEWORKS = (
    "openai",
    "pydantic-ai-slim[openai,dbos]",
    "dbos",
    "psycopg[binary]",
    "openai-agents",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langchain-openai",
    "deepagents",
    "google-adk",
    "litellm",
    "apache-burr",
    "fastapi",
    "uvicorn",
)
AGENTS = {
    "codex": "@openai/codex",
    "claude": "@anthropic-ai/claude-code",
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
}
"""Program -> its package."""


def find_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandbur-bench"


def find_python() -> str:
    """Return the Python that has the frameworks, or an empty text."""
    return os.environ.get("SANDBUR_BENCH_PEERS", "")


def find_agent(name: str) -> str | None:
    """Return the program of a terminal agent; one that happens to be on PATH does not count."""
    tools = os.environ.get("SANDBUR_BENCH_TOOLS", "")
    return shutil.which(name, path=tools) if tools else None


def use() -> None:
    """Let the workloads of this process and its children find what is installed in the cache folder."""
    python, tools = find_folder() / "python/bin/python", find_folder() / "npm/node_modules/.bin"
    for variable, place in (("SANDBUR_BENCH_PEERS", python), ("SANDBUR_BENCH_TOOLS", tools)):
        if place.exists():
            os.environ.setdefault(variable, str(place))


def install_frameworks() -> None:
    python = find_folder() / "python"
    venv.create(python, with_pip=True)
    subprocess.run([python / "bin/python", "-m", "pip", "install", "-q", *FRAMEWORKS], check=True)


def install_agents() -> None:
    if shutil.which("npm") is None:
        sys.exit("There is no npm, which installs the terminal agents.")
    folder = find_folder() / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--prefix", folder, *AGENTS.values()], check=True)


def show() -> None:
    use()
    print(f"frameworks: {find_python() or 'not installed'}")
    for name in AGENTS:
        print(f"{name}: {find_agent(name) or 'not installed'}")


def main(words: list[str]) -> None:
    if words == ["show"]:
        show()
        return
    if words[:1] != ["install"] or set(words[1:]) - {"frameworks", "agents"}:
        sys.exit(__doc__)
    if words[1:] in ([], ["frameworks"]):
        install_frameworks()
    if words[1:] in ([], ["agents"]):
        install_agents()
    show()


if __name__ == "__main__":
    main(sys.argv[1:])
