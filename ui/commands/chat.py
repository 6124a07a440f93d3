"""`sandbur` without a command, and `sandbur demo`: a chat in the terminal, or one message headless."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

from ...agent.config.settings import Overrides
from ...state.errors import UsageError
from ...state.process.garbage import lasting_objects
from ..cli.argument_types import one_of, path, uuid
from ..cli.grammar import RunCommand, flag, switch, word
from ..terminal.standard_output import keep_stdout_for_answers
from ..terminal.terminal import is_interactive, print_version

if TYPE_CHECKING:
    from pathlib import Path

_CONTINUE = "continue the newest session of this folder"
_PRINT = "headless: run to the end, print the answer"


class ChatCommand(RunCommand):
    GROUPS = ("session", "run", "limits", "output", "place")
    EXAMPLES = (
        ("sandbur", "a chat in this folder"),
        ("sandbur -c", "go on with the newest session of this folder"),
        ('sandbur -p "why does the build fail?"', "only the answer, for scripts"),
        ("git diff | sandbur -p 'review this'", "piped text is a part of the message"),
        ("sandbur -m ollama/qwen3:8b --mode plan", "a local model that changes nothing"),
        ('sandbur -y --max-budget-usd 2 -p "..."', "unattended, within a budget"),
        ("sandbur -p -r ID", "carry an interrupted run on from the exact action"),
    )
    prompt: str | None = word("PROMPT", "what to do; `-` reads it from stdin", None, nargs="?")
    version: bool = switch("--version", "print the version", only="chat")
    print: bool = switch("-p --print", _PRINT, "session")
    continue_newest: bool = switch(
        "-c --continue", "continue the newest session of this folder", "session", "chat"
    )
    resume: str | None = flag(
        "-r --resume", "resume a session by id, start of an id, or title; without one: pick it",
        group="session", only="chat", nargs="?", const="", metavar="ID",
    )  # fmt: skip
    """The id of a session; empty if the person picks one, None without the flag."""
    attach: tuple[str, ...] = flag(
        "--attach", "send a picture, audio, video, document or its address; may be repeated", (),
        group="session", only="chat", action="append", metavar="FILE",
    )  # fmt: skip
    fork_session: bool = switch("--fork-session", "with -c or -r: go on in a copy", "session", "chat")
    session_id: str | None = flag(
        "--session-id",
        "the id of the new session",
        group="session",
        only="chat",
        type=uuid,
        metavar="UUID",
    )
    json_schema: Path | None = flag(
        "--json-schema", "every answer is JSON that fits the schema in this file",
        group="run", only="chat", type=path, metavar="FILE",
    )  # fmt: skip

    input_format: str = flag(
        "--input-format", "text | stream-json: a conversation in JSON lines on stdin", "text",
        group="output", only="chat", type=one_of(("text", "stream-json")), metavar="FORMAT",
    )  # fmt: skip

    @property
    def continues(self) -> bool:
        return self.continue_newest or self.resume is not None

    @property
    def opens_stored(self) -> bool:
        return self.continues

    def check(self) -> None:
        if self.continue_newest and self.resume is not None:
            raise UsageError("-c and -r contradict each other.", "Keep one of them.")
        if self.session_id and self.continues:
            raise UsageError("--session-id names a new session.", "Leave it out to continue an old one.")
        if self.fork_session and not self.continues:
            raise UsageError("--fork-session needs a session to copy.", "Add -c or -r ID.")
        if self.input_format == "stream-json":
            self._check_conversation()
        if self.json_schema is not None and self.continues:
            raise UsageError(
                "--json-schema is for a new session: a stored session keeps its own schema.", "Leave it out."
            )
        if self.prompt is not None and not self.prompt.strip():
            raise UsageError("The prompt is empty.", 'Say what to do: sandbur -p "..."')

    def _check_conversation(self) -> None:
        if self.output_format != "stream-json":
            raise UsageError(
                "--input-format stream-json answers in the same format.", "Add --output-format stream-json."
            )
        if self.prompt == "-" or self.attach:
            taken = "`-`" if self.prompt == "-" else "--attach"
            raise UsageError(
                f"{taken} and --input-format stream-json contradict each other.", "Send it as a line."
            )

    def run_at_once(self) -> int | None:
        if not self.version:
            return None
        print_version()
        return 0

    async def run(self) -> int:
        if self.input_format == "stream-json":
            from ..headless.stream_json.dialogue import run_conversation

            with keep_stdout_for_answers():
                return await run_conversation(self)
        is_headless = self.print or self.output_format != "text" or not is_interactive()
        module, function = ("headless.headless", "run_headless") if is_headless else ("chat.opening", "chat")
        with keep_stdout_for_answers() if is_headless else nullcontext():
            with lasting_objects():
                imported = import_module(f"..{module}", __package__)
            return await getattr(imported, function)(self)


class DemoCommand(ChatCommand):
    GROUPS = ("run", "limits", "output", "place")
    EXAMPLES = (("sandbur demo", "a chat that needs nothing"), ("sandbur demo -y -p", "only the answer"))
    prompt: str | None = word("PROMPT", "a goal; without it the demo uses its own", None, nargs="?")
    print: bool = switch("-p --print", _PRINT)

    @property
    def settings(self) -> Overrides:
        return {**self.overrides, "model": "demo"}
