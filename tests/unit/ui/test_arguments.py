"""What the command line may say."""

from pathlib import Path

import pytest

from sandbur.agent.config.setting import declarations_of
from sandbur.state.errors import UsageError
from sandbur.ui.cli.arguments import parse


def said(line: str) -> dict[str, object]:
    """Return what a line says beside what goes without saying: the fields of the command, and settings."""
    command = parse(line.split())
    own = {
        name: getattr(command, name) for name in declarations_of(command) if name not in ("overrides", "line")
    }
    usual = {name: one.default for name, one in declarations_of(command).items()} | {"name": "chat"}
    settings = {key: value for key, value in command.overrides.items() if value not in (None, ())}
    return {key: value for key, value in own.items() if value != usual[key]} | settings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("hello", {"prompt": "hello"}),
        ("-p hello", {"prompt": "hello", "print": True}),
        ("hello -p --mode yolo", {"prompt": "hello", "print": True, "mode": "yolo"}),
        ("-p -", {"prompt": "-", "print": True}),
        ("-p -r abc", {"print": True, "resume": "abc"}),
        (
            "worker --agent a:b --agent c:d --labels x,y --concurrency 2 --once",
            {
                "name": "worker", "agents": ("a:b", "c:d"), "labels": ("x", "y"), "concurrency": 2,
                "once": True,
            },
        ),
        (
            "fleet up --agent a:b --min 0 --max 9 --labels x,y --address 10.0.0.5:6379 --idle 2.5",
            {
                "name": "fleet", "action": "up", "agents": ("a:b",), "least": 0, "most": 9,
                "labels": ("x", "y"), "address": "10.0.0.5:6379", "idle_s": 2.5,
            },
        ),
        (
            "eval tasks -m A,B --agent x:y --repeats 3 --parallel 4 --budget 1.5 --task a,b --html p.html",
            {
                "name": "eval", "suite": "tasks", "model": "A,B", "agent": "x:y", "repeats": 3,
                "parallel": 4, "budget": 1.5, "tasks": ("a", "b"), "html": Path("p.html"),
            },
        ),
        ("serve --agent a:b --workers 2",
         {"name": "serve", "agents": ("a:b",), "allow_hosts": (), "workers": 2}),
        ("serve --agent a:b --workers none",
         {"name": "serve", "agents": ("a:b",), "allow_hosts": (), "workers": None}),
        ("-r", {"resume": ""}),
        ("-r abc hello", {"resume": "abc", "prompt": "hello"}),
        ("-c hello", {"continue_newest": True, "prompt": "hello"}),
        ("-p doctor", {"prompt": "doctor", "print": True}),
        ("-c sessions", {"continue_newest": True, "prompt": "sessions"}),
        ("-qp graph", {"prompt": "graph", "print": True, "quiet": True}),
        ("-p -- -x", {"prompt": "-x", "print": True}),
        ("-- doctor", {"prompt": "doctor"}),
        ("-m ollama/qwen3:8b", {"model": "ollama/qwen3:8b"}),
        ("--fallback-model a/b,c/d", {"fallback_models": ("a/b", "c/d")}),
        ("--allow x --allow y --deny z", {"allow": ("x", "y"), "deny": ("z",)}),
        ("--add-dir a --add-dir b", {"add_dirs": (Path("a"), Path("b"))}),
        ("--max-turns 3 --timeout 1.5 --max-budget-usd 0.5",
         {"max_turns": 3, "timeout_s": 1.5, "max_budget_usd": 0.5}),
        ("sessions", {"name": "sessions"}),
        ("sessions list --json", {"name": "sessions", "json": True}),
        ("--store sqlite:///x sessions show abc",
         {"name": "sessions", "action": "show", "session": "abc", "store": "sqlite:///x"}),
        ("approve id --all --output-format json",
         {"name": "approve", "session": "id", "all": True, "output_format": "json"}),
        ("approve id c1 --edit f c2",
         {"name": "approve", "session": "id", "calls": ("c1", "c2"), "edit": Path("f")}),
        ("deny id --reason=no --record-only",
         {"name": "deny", "session": "id", "reason": "no", "record_only": True}),
        ("fork id --at 3", {"name": "fork", "session": "id", "at": 3}),
        ("graph --format dot", {"name": "graph", "format": "dot"}),
        ("demo -y", {"name": "demo", "mode": "yolo"}),
        ("--session-id 11111111-2222-4333-8444-555555555555",
         {"session_id": "11111111-2222-4333-8444-555555555555"}),
    ],
)  # fmt: skip
def test_a_line_means_what_it_says(line: str, expected: dict[str, object]) -> None:
    assert said(line) == expected


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ("--moed yolo", "no flag --moed", "--mode"),
        ("-p x --fallback-modle=y", "no flag --fallback-modle", "--fallback-model"),
        ("--mode yol", "`yol` is not a known value", "did you mean `yolo`"),
        ("--mode fast", "`fast` is not a known value", "interactive, plan, auto-edit, yolo"),
        ("--output-format xml -p x", "`xml` is not a known value", "stream-json"),
        ("-m", "-m/--model", "sandbur --help"),
        ("sesions", "no command `sesions`", "sessions"),
        ("replay", "needs ID", "sandbur replay --help"),
        ("replay abc --from x", "`x` is not a whole number", "sandbur replay --help"),
        ("settle abc call", "needs --as", "--as done"),
        ("settle abc call --as don", "`don` is not a known value", "did you mean `done`"),
        ("settle abc call --as rerun --result x", "--result needs --as done, failed or check", "its own"),
        ("resume", "needs --due", "sandbur -r ID"),
        ("worker", "needs --agent", "support.bot:agent"),
        ("worker --agent a:b --budget openai", "is not MODEL=REQUESTS[/TOKENS]", "openai=500/200000"),
        ("worker --agent a:b --quota acme", "is not TENANT=N", "acme=10"),
        ("resume --due --limit 0", "`0` is not a whole number above 0", "sandbur resume --help"),
        ("fork id --set x", "`x` is not PATH=VALUE", "sandbur fork --help"),
        ("fork id --set =x", "is not PATH=VALUE", "sandbur fork --help"),
        ("ui --port 65536", "`65536` is not a port", "sandbur ui --help"),
        ("diff abc", "needs ID2", "sandbur diff --help"),
        ("bisect abc", "needs --test", "sandbur bisect --help"),
        ("test remove abc", "`remove` is not a known value", "add"),
        ("stats --days 0", "`0` is not a whole number above 0", "sandbur stats --help"),
        ("sessions list --keep 3", "belong to `sandbur sessions prune`", "--keep"),
        ("sessions list --steps", "belongs to `sandbur sessions show ID`", "--steps"),
        ("sessions import", "needs a FILE", "-"),
        ("sessions prune abc", "one word too many", "--help"),
        ("sessions show abc file", "one word too many", "--help"),
        ("sessions --json verify", "needs the ID", "sandbur sessions"),
        (
            "sessions purge",
            "`purge` is not a known value",
            "list, show, rename, verify, delete, prune, export, import",
        ),
        ("sessions show", "needs the ID", "sandbur sessions"),
        ("sessions list abc", "one word too many", "show"),
        ("approve", "needs ID", "sandbur approve --help"),
        ("approve id c1 --all", "contradict", "Keep one"),
        ("approve id --reason x", "no flag --reason", "sandbur approve --help"),
        ("fork id --at x", "`x` is not a whole number", "sandbur fork --help"),
        ("--max-turns 0", "`0` is not a whole number above 0", "--help"),
        ("--max-turns 1e9", "is not a whole number", "--help"),
        ("--timeout inf", "`inf` is not a number above 0", "--help"),
        ("--timeout -1", "`-1` is not a number above 0", "--help"),
        ("--max-budget-usd nan", "`nan` is not a number above 0", "--help"),
        ("--session-id 12", "`12` is not a UUID", "--help"),
        ("--session-id 11111111-2222-4333-8444-555555555555 -c", "names a new session", "Leave it out"),
        ("--fork-session", "needs a session", "-c or -r"),
        ("-y --mode plan", "contradict", "Keep one"),
        ("-c -r x", "contradict", "Keep one"),
        ("-p=hello", "-p takes no value", "Write `-p` and `hello` as two words"),
        ("sessions list --json=yes", "--json takes no value", "as two words"),
        ("-p sessions list", "`list` is one word too many", "a command has no -p"),
        ("-q -v", "contradict", "Keep one"),
    ],
)
def test_a_line_that_does_not_fit_gets_a_sentence_and_a_way_out(line: str, problem: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    assert problem in caught.value.message
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        parse(["-p", prompt])


@pytest.mark.parametrize("name", ["replay", "ui", "diff", "bisect", "stats", "test"])
def test_the_name_of_a_command_is_a_fine_message(name: str) -> None:
    for words in (["-p", name], ["-c", name], ["--", name]):
        assert parse(words).prompt == name
    assert parse([f"{name} what we did yesterday"]).prompt == f"{name} what we did yesterday"


def test_a_prompt_may_begin_with_a_dash() -> None:
    assert parse(["-p", "- tidy up this folder"]).prompt == "- tidy up this folder"
