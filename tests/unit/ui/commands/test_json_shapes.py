"""With `--json`, every command prints a list as one object a line, and a single thing as one such line."""

import json

import pytest
from support.commands.command import Command

from sandbur.ui.cli.grammar import COMMANDS, command_class

LISTS = {
    "sessions list": ("sessions", "list"),
    "sessions show --steps": ("sessions", "show", "{id}", "--steps"),
    "memory list": ("memory", "list"),
    "memory search": ("memory", "search", "tea"),
    "memory review": ("memory", "review"),
    "memory trace": ("memory", "trace", "{id}"),
    "index list": ("index", "list"),
    "index search": ("index", "search", "ropes"),
    "flows list": ("flows", "list"),
    "agents list": ("agents", "list"),
    "plan list": ("plan", "list"),
    "try list": ("try", "list"),
    "try diff": ("try", "diff"),
    "config list": ("config", "list"),
    "mcp list": ("mcp", "list"),
    "mcp test": ("mcp", "test"),
    "policy check": ("policy", "check", "-"),
}
SINGLE = {
    "sessions show": ("sessions", "show", "{id}"),
    "sessions verify": ("sessions", "verify", "{id}"),
    "sessions prune": ("sessions", "prune", "--dry-run"),
    "memory show": ("memory", "show", "{fact}"),
    "flows test": ("flows", "test", "hello"),
    "agents show": ("agents", "show", "reader"),
    "plan show": ("plan", "show", "look"),
    "config get": ("config", "get", "memory"),
    "policy test": ("policy", "test", "rules.toml"),
    "policy suggest": ("policy", "suggest"),
    "steer": ("steer", "{id}", "go on"),
    "doctor": ("doctor",),
    "update": ("update",),
    "diff": ("diff", "{id}", "{fork}"),
    "bisect": ("bisect", "{id}", "--test", "true"),
    "replay": ("replay", "{id}"),
    "stats": ("stats",),
    "fleet status": ("fleet", "status"),
    "eval": ("eval", "nowhere"),
}
NOT_HERE = {"mcp test", "eval", "bisect", "plan show", "try diff", "fleet status"}
"""What there is nothing of in this home: a sentence on stderr."""
EMPTY_HERE = {"memory review", "memory trace", "flows list", "plan list", "try list", "mcp list"}


def find_all() -> set[str]:
    """Return every command, with its action, that takes `--json`."""
    found: set[str] = set()
    for name in COMMANDS:
        kind = command_class(name)
        if not hasattr(kind, "json"):
            continue
        actions = [action for action, one in kind.ACTIONS.items() if "--json" in one.flags]
        found |= {f"{name} {action}" for action in actions} if kind.ACTIONS else {name}
    return found


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, dict[str, str]]:
    """A home with a session and its fork, a fact, a base, an agent and rules; and the ids of them."""
    folder = tmp_path_factory.mktemp("stocked")
    command = Command(folder)
    first = command.run("-p", "!echo hello", "-m", "demo", "-y", "--output-format", "json")
    ids = {"id": first.result["session_id"]}
    ids["fork"] = command.run("fork", ids["id"]).out.split()[-1]
    assert command.run("memory", "add", "the user likes tea", "--scope", "user").code == 0
    ids["fact"] = command.run("memory", "list", "--json").result["id"]
    (folder / "notes.md").write_text("Ropes are blue.\n")
    assert command.run("index", "add", "notes.md").code == 0
    assert command.run("agents", "new", "reader").code == 0
    (folder / "rules.toml").write_text('deny = ["run_shell_command(sudo *)"]\n')
    return command, ids


def test_every_command_with_json_is_in_a_table() -> None:
    named = {name for name in LISTS.keys() | SINGLE.keys() if name != "sessions show --steps"}
    assert {"try" if name.startswith("try ") else name for name in named} == find_all()


@pytest.mark.parametrize("name", [*LISTS, *SINGLE])
def test_json_is_one_object_a_line(stocked: tuple[Command, dict[str, str]], name: str) -> None:
    command, ids = stocked
    words = [word.format(**ids) for word in {**LISTS, **SINGLE}[name]]
    stdin = '{"tool": "read_file", "arguments": {"path": "a"}}\n' * 2 if words[-1] == "-" else None
    ended = command.run(*words, "--json", stdin=stdin)
    assert "internal error" not in ended.err
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert all(isinstance(one, dict) for one in found), ended.out
    if name in NOT_HERE:
        assert found == [], ended.out
    elif name in SINGLE:
        assert len(found) == 1, ended.err
    else:
        assert found or name in EMPTY_HERE, ended.err
