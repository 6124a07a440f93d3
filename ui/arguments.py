"""Reads the command line into one typed value; only the standard library is imported for it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from ..state.errors import UsageError
from .grammar import COMMANDS, Parser, nearest, parser_for

INSTEAD = {
    "config": "Settings are flags, SANDBUR_* variables and ~/.config/sandbur/config.toml.",
    "init": "A folder needs no setting up; an AGENTS.md in it is read.",
    "login": "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or the key of another provider, or start Ollama.",
    "logout": "Keys are in the environment: unset ANTHROPIC_API_KEY or whichever is set.",
    "mcp": "Tool servers cannot be added yet.",
    "models": "Name one with -m PROVIDER/MODEL; `sandbur doctor` says which is used.",
    "update": "Install a newer version over this one; `sandbur doctor` says where it is.",
    "upgrade": "Install a newer version over this one; `sandbur doctor` says where it is.",
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the command line says; fields are named after the flags."""

    command: str = "chat"
    """A command, `sessions list` and so on, or `chat` where none is named."""
    version: bool = False
    prompt: str | None = None
    print: bool = False
    output_format: str = "text"
    continue_newest: bool = False
    resume: str | None = None
    """A session, or empty for "let me pick"."""
    fork_session: bool = False
    session_id: str | None = None
    model: str | None = None
    fallback_model: tuple[str, ...] = ()
    mode: str | None = None
    yolo: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    cd: Path | None = None
    add_dir: tuple[Path, ...] = ()
    max_turns: int | None = None
    max_budget_usd: float | None = None
    timeout: float | None = None
    store: str | None = None
    quiet: bool = False
    verbose: bool = False
    session: str = ""
    calls: tuple[str, ...] = ()
    all: bool = False
    edit: Path | None = None
    reason: str = ""
    record_only: bool = False
    settle_as: str | None = None
    result: str = ""
    at: int | None = None
    edits: tuple[str, ...] = ()
    """PATH=VALUE each."""
    files: bool = False
    format: str = "mermaid"
    export_format: str = "jsonl"
    json: bool = False
    steps: bool = False
    file: str = ""
    older_than: timedelta = timedelta(days=30)
    keep: int = 20
    max_size: int | None = None
    """Bytes."""
    dry_run: bool = False
    due: bool = False
    limit: int | None = None
    port: int = 7241
    host: str = "127.0.0.1"
    no_open: bool = False
    from_seq: int | None = None
    live: tuple[str, ...] = ()
    """`model`, `tools` or both."""
    ignore_tools: bool = False
    name: str = ""
    to: str = "tests"
    force: bool = False
    other: str = ""
    """The second session of a comparison."""
    test: str = ""
    """A shell command."""
    days: int | None = None

    @property
    def continues(self) -> bool:
        return self.continue_newest or self.resume is not None


def parse(argv: Sequence[str]) -> Arguments:
    """Return what the command line says; raises `UsageError`, or `SystemExit` after printing help."""
    words = list(argv)
    if len(words) == 2 and words[0] == "help" and words[1] in COMMANDS:
        words = [words[1], "--help"]
    at = _command_position(words)
    command = words.pop(at) if at is not None else "chat"
    parser = parser_for(command)
    words, last = _split_at_dashes(words)
    found, extra = parser.parse_known_intermixed_args(words)
    is_literal = bool(last) and vars(found).get("prompt", "") is None
    if is_literal:
        found.prompt = last.pop(0)
    if extra or last:
        _refuse(parser, [*extra, *last], vars(found).get("prompt"))
    values: dict[str, Any] = vars(found)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}  # pyright: ignore[reportUnknownArgumentType]
    if "action" in values:
        command = f"{command} {values.pop('action')}"
    arguments = Arguments(command=command, **values)
    _check_flags(arguments)
    _check_words(arguments)
    return arguments if is_literal else _lone_word(arguments)


def _command_position(words: list[str]) -> int | None:
    """Return where the command stands: the first word that belongs to no flag, if it is a known name.

    After -p, -c or -r that word is a prompt, whatever it says.
    """
    with_value = parser_for("chat").options_with_value
    position = 0
    while position < len(words):
        word = words[position]
        if re.match(r"-[qvy]*[pcr]|--(print|continue|resume)\b|--$", word):
            return None
        if not word.startswith("-") or word == "-":
            return position if word in COMMANDS else None
        position += 2 if word in with_value else 1
    return None


def _split_at_dashes(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before `--` and those after it, which are never flags."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _refuse(parser: Parser, extra: list[str], prompt: str | None) -> NoReturn:
    word = extra[0]
    manual = f"`{parser.prog} --help` shows what fits."
    if word.startswith("-") and word != "-":
        flag = word.split("=")[0]
        near = nearest(flag, parser.options)
        raise UsageError(f"There is no flag {flag} here.", f"Did you mean {near}?" if near else manual)
    if parser.prog == "sandbur" and prompt:
        near = nearest(prompt, COMMANDS)
        hint = f"Did you mean `{near}`?" if near else f"A prompt of several words needs quotes; {manual}"
        raise UsageError(f"There is no command `{prompt}`.", hint)
    raise UsageError(f"`{word}` is one word too many.", manual)


def _check_flags(arguments: Arguments) -> None:
    contradictions = {
        f"-y and --mode {arguments.mode}": arguments.yolo and arguments.mode not in (None, "yolo"),
        "-c and -r": arguments.continue_newest and arguments.resume is not None,
        "-q and -v": arguments.quiet and arguments.verbose,
        "CALL and --all": bool(arguments.calls) and arguments.all,
    }
    for pair, is_there in contradictions.items():
        if is_there:
            raise UsageError(f"{pair} contradict each other.", "Keep one of them.")
    if arguments.session_id and arguments.continues:
        raise UsageError("--session-id names a new session.", "Leave it out to continue an old one.")
    if arguments.fork_session and not arguments.continues:
        raise UsageError("--fork-session needs a session to copy.", "Add -c or -r ID.")


def _check_words(arguments: Arguments) -> None:
    _check_session_words(arguments)
    _check_command_flags(arguments)
    if arguments.prompt is not None and not arguments.prompt.strip():
        raise UsageError("The prompt is empty.", 'Say what to do: sandbur -p "..."')


def _lone_word(arguments: Arguments) -> Arguments:
    """Take a single word for the command it was probably meant as; a message is rarely one."""
    word = arguments.prompt
    is_message = arguments.print or arguments.continues or arguments.command != "chat"
    if word is None or is_message or len(word.split()) > 1:
        return arguments
    if word == "help":
        parser_for("chat").print_help()
        raise SystemExit(0)
    if word == "version":
        return replace(arguments, version=True, prompt=None)
    as_message = f"As a message: sandbur -- {word}"
    if word in INSTEAD:
        raise UsageError(f"There is no command `{word}`.", f"{INSTEAD[word]} {as_message}")
    if near := nearest(word, COMMANDS):
        raise UsageError(f"There is no command `{word}`; did you mean `{near}`?", as_message)
    return arguments


def _check_session_words(arguments: Arguments) -> None:
    """Check how many words follow `sandbur sessions ACTION`, and that its flags are for this action."""
    command, action = arguments.command, arguments.command.removeprefix("sessions ")
    if command == action:
        return
    if action in ("show", "verify", "delete", "export") and not arguments.session:
        raise UsageError(f"`sandbur {command}` needs the ID of a session.", "`sandbur sessions` lists them.")
    if action == "import" and not arguments.session:
        raise UsageError(f"`sandbur {command}` needs a FILE, or - for stdin.")
    extra = arguments.session if action in ("list", "prune") else arguments.file
    if extra and action != "export":
        hint = (
            "`sandbur sessions show ID` shows one" if action == "list" else "`sandbur sessions --help` helps"
        )
        raise UsageError(f"`{extra}` is one word too many.", f"{hint}.")
    prunes = arguments.dry_run or arguments.max_size is not None
    usual = Arguments()
    prunes = prunes or (arguments.older_than, arguments.keep) != (usual.older_than, usual.keep)
    if action != "prune" and prunes:
        raise UsageError("--older-than, --keep, --max-size and --dry-run belong to `sandbur sessions prune`.")
    if arguments.steps and action != "show":
        raise UsageError("--steps belongs to `sandbur sessions show ID`.")
    if arguments.export_format != usual.export_format and action != "export":
        raise UsageError("--format belongs to `sandbur sessions export ID`.")


def _check_command_flags(arguments: Arguments) -> None:
    if arguments.command == "resume" and not arguments.due:
        raise UsageError("`sandbur resume` needs --due.", "One session goes on with: sandbur -r ID")
    if arguments.command != "settle":
        return
    if arguments.settle_as is None:
        raise UsageError("`sandbur settle` needs --as.", "Say --as done, --as failed or --as rerun.")
    if arguments.result and arguments.settle_as == "rerun":
        raise UsageError(
            "--result goes with --as done or --as failed.", "A call that runs again has its own."
        )
    if len(arguments.calls) > 1:
        raise UsageError("`sandbur settle` takes one call at a time.")
