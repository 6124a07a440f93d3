"""A task of a suite, and what a run left that tried to solve it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from .....actions.ports import Tool
from .....actions.tools.functions.decorator import index_tools
from .....state.conversation.messages import Message
from .....state.errors import UsageError, WrongType
from .....state.lazy_dataclass import dataclass
from ..digests import describe_function

RUN_S = 900.0
CHECK_S = 600.0


@dataclass(frozen=True, slots=True)
class Solution:
    """What a run left: its workspace, its answer, and what it used."""

    task: str
    """The name of the task."""
    contender: str
    """The name of the agent or model that ran."""
    repeat: int
    """Which run of the contender at this task it was, from 1."""
    workspace: Path
    """The folder in which it worked."""
    session_id: str
    status: str
    """How the run ended, as in `RunResult.status`."""
    result: str
    """The text of the last answer; empty if there is none."""
    cost_usd: float | None
    """The cost in US dollars; None if no price is known."""
    input_tokens: int
    output_tokens: int
    turns: int
    """The number of model calls."""
    seconds: float
    """The time of all steps, without the time between a kill and the resume."""
    questions: int
    """The number of calls that needed a decision of a person. Each was denied."""
    reward: float = 0.0
    """The reward of the check; 0 until the check has ended."""
    history: tuple[Message, ...] = field(default=(), repr=False)
    """The messages of the session in order, also those that a compression replaced."""
    earlier: tuple[tuple[Message, ...], ...] = field(default=(), repr=False)
    """The messages of each earlier session of the run."""

    @property
    def is_passed(self) -> bool:
        return self.reward >= 1.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


CheckResult = bool | float | int | None | Mapping[str, float]
"""A number is the reward, True is 1, False is 0. None means that the check raised no `AssertionError`: 1. A
mapping has `reward`; its other numbers are metrics of the run."""
CheckFunction = Callable[[Solution], CheckResult | Awaitable[CheckResult]]

Script = Sequence[Any] | Callable[[], Sequence[Any]]
"""The replies that the model `scripted` plays, in the form of `solution/script.json`, or a function that
returns them."""


@dataclass(frozen=True, slots=True)
class EarlierSession:
    """A session in the workspace of a run, before the one that is checked."""

    turns: tuple[str, ...]
    """The messages of the person, in order. Each is sent when the one before has its answer."""
    script: Script = ()


@dataclass(frozen=True, slots=True)
class Task:
    """An instruction, the files of the workspace at the beginning, and a check of what a run left."""

    instruction: str
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, "str | bytes"])
    """Path in the workspace -> content."""
    check: CheckFunction | str = ""
    """A function of the `Solution`, or a shell script that runs in the workspace. Exit code 0 is a success; a
    script can also write a reward to `/logs/verifier/reward.txt`."""
    name: str = ""
    """Unique in the suite; empty: the suite numbers the task."""
    timeout_s: float = RUN_S
    """The time limit of a run."""
    check_timeout_s: float = CHECK_S
    interrupt_at_call: int = 0
    """The tool call, from 1, in which the evaluation interrupts a run once before it goes on; 0: none."""
    turns: tuple[str, ...] = ()
    """Messages and commands such as `/compact`, which are sent in the same session before the instruction."""
    earlier: tuple[EarlierSession, ...] = ()
    """Sessions that run in the same workspace before."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """Tools of the task. They replace the tools of the agent, apart from the one that reads on in a
    long result; its model and instructions stay. A tool gets the workspace of its run from a `RunContext`."""
    script: Script = ()
    """What the model `scripted` plays; empty: `solution/script.json` of the folder."""
    folder: Path | None = None
    """The folder of the task, for a task from a folder; None for others."""
    notices: tuple[str, ...] = ()
    """Sentences about what of the folder is not used."""

    def __post_init__(self) -> None:
        if not isinstance(self.instruction, str) or not self.instruction.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType("Task: `instruction` takes a text that is not empty.", 'Write Task("...").')
        if not callable(self.check) and not isinstance(self.check, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType("Task: `check` takes a function of a Solution, or a shell script.")
        if self.folder is None and not self.check:
            raise UsageError(
                f"The task {self.instruction[:40]!r} has no check.", "Write check=... in Task(...)."
            )
        for message in (*self.turns, *(turn for one in self.earlier for turn in one.turns)):
            if not isinstance(message, str) or not message.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
                raise WrongType("Task: `turns` takes texts that are not empty.", 'Write turns=("...",).')
        for path in self.files:
            if Path(path).is_absolute() or ".." in Path(path).parts or not path:
                raise UsageError(f"The file {path!r} of a task is outside of its workspace.")

    def rename(self, name: str) -> Task:
        return replace(self, name=name)

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that a run depends on. A changed task is run again."""
        made = hashlib.sha256()
        for part in self._parts():
            made.update(b"%d " % len(part))
            made.update(part)
        return made.hexdigest()

    def _parts(self) -> list[bytes]:
        check = self.check if isinstance(self.check, str) else describe_function(self.check)
        limits = f"{self.timeout_s} {self.check_timeout_s} {self.interrupt_at_call}"
        parts = [self.name.encode(), self.instruction.encode(), check.encode(), limits.encode()]
        talk = [self.turns, *(one.turns for one in self.earlier)]
        if any(talk):
            parts.append(json.dumps(talk).encode())
        for name, tool in index_tools(self.tools).items():
            spec = tool.spec
            parts.append(json.dumps([name, spec.description, spec.parameters], default=str).encode())
        for path, content in sorted(self.files.items()):
            parts += [path.encode(), content.encode() if isinstance(content, str) else content]
        if self.folder is not None:
            for file in sorted(one for one in self.folder.rglob("*") if one.is_file()):
                parts += [os.fsencode(file.relative_to(self.folder)), _read_file(file)]
        return parts


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
