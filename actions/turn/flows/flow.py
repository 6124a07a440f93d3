"""A flow: the messages that start it, and what it does without a question to the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, field
from types import MappingProxyType
from typing import Any, Literal

from ....state.application import FlowKind
from ....state.calls import Effect
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...ports.sub_agents import TASK_TOOL
from ...workspace.paths import format_count
from ..plan.decision_tools import MAX_STEPS
from .flow_templates import find_names
from .triggers import MatchFunction, Triggers, make_triggers

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TARGETS = ("reply", "tool", "agent", "http", "run", "graph", "command", "instructions", "plan")
_COMMANDS = ("/compact", "/help", "/exit", "/quit", "/mode plan")
"""What a flow may run: nothing that lets more calls pass."""
WHOLE_MESSAGE = "{message}"
_MOST_TEXT = 100_000
_CALLS = ("tool", "agent")
_OWNERS = {"arguments": "tool", "prompt": "agent", "goal": "plan"}
"""Fields that need another one."""
OnFailure = Literal["reply", "model"]


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages of a registered form, and what they start without a model call.

    It has at least one trigger (`exact`, `prefix`, `phrase`, `regex`, `match`) and exactly one target
    (`reply`, `tool`, `agent`, `http`, `run`, `graph`, `command`, `instructions`, `plan`). Raises `UsageError`
    for what does not fit.
    """

    name: str
    _: KW_ONLY
    exact: str | Sequence[str] = ()
    """Whole messages. Case and blanks are ignored."""
    prefix: str | Sequence[str] = ()
    """Beginnings of messages; the rest is `{rest}`."""
    phrase: str | Sequence[str] = ()
    """Words with gaps: `*` matches anything, `{name}` anything that templates may use."""
    regex: str | Sequence[str] = ()
    """Regular expressions that are searched for in linear time; groups are `{1}` or `{name}`."""
    match: MatchFunction | None = field(default=None, repr=False)
    """A function of the message, sync or async: True, or the parts of the message by name."""
    priority: int = 0
    """The flow with the highest number is tried first; of equal ones, the first in order."""
    description: str = ""
    """A description for lists of the flows."""
    reply: str = ""
    """The template of an answer."""
    tool: str = ""
    """The name of a tool of the session, called with `arguments`."""
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """JSON values; texts are templates."""
    agent: str = ""
    """The name of an agent that the session may start: its answer is the result."""
    prompt: str = ""
    """The template of the task of `agent`; empty: the message."""
    http: Mapping[str, Any] | None = None
    """One request, with the keys of an HTTP tool: `url`, `method`, `headers`, `query`, `body`, ..."""
    run: Callable[..., Any] | None = field(default=None, repr=False)
    """A function, sync or async, that takes parts of the message by their names."""
    graph: Callable[..., Any] | None = field(default=None, repr=False)
    """A function that takes parts of the message and returns a Burr application, which is run to its end."""
    command: str = ""
    """A slash command: `/compact`, `/help`, `/exit`, `/mode plan`."""
    instructions: str = ""
    """A template that the model reads with the message."""
    plan: Sequence[str] = ()
    """Templates of the steps of a plan."""
    goal: str = ""
    """The template of the plan's goal; empty: the message."""
    answer: str = ""
    """The template of the answer after a call: `{result}`, `{result.path.to.value}`, parts of the message."""
    on_failure: OnFailure = "reply"
    """The action after a failed call: an answer about the failure, or a request to the model."""
    failure: str = ""
    """The template of the answer after a failure; `{error}` is why."""
    effect: Effect = "effect"
    """What a second run of `run` or `graph` would mean after a crash."""
    triggers: Triggers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"{self.name[:80]!r} cannot name a flow.", "Use letters, digits, _ and -.")
        object.__setattr__(self, "triggers", self._read_triggers())
        if problem := next(self._find_problems(), ""):
            raise UsageError(f"The flow {self.name}: {problem}")

    def _read_triggers(self) -> Triggers:
        try:
            return make_triggers(
                _as_tuple(self.exact),
                _as_tuple(self.prefix),
                _as_tuple(self.phrase),
                _as_tuple(self.regex),
                self.match,
            )
        except ValueError as problem:
            raise UsageError(f"The flow {self.name}: {problem}.") from None

    def _find_problems(self) -> Iterator[str]:
        targets = [name for name in _TARGETS if getattr(self, name)]
        if len(targets) != 1:
            has = ", ".join(targets) or "nothing to do"
            yield f"it needs exactly one of {', '.join(_TARGETS)}; it has {has}."
        if not self.triggers:
            yield "it needs a trigger: exact, prefix, phrase, regex, or a function `match`."
        if self.command and self.command not in _COMMANDS:
            yield f"it cannot run {self.command[:40]}. A flow runs one of {', '.join(_COMMANDS)}."
        if (self.answer or self.failure or self.on_failure != "reply") and self.kind not in _CALLS:
            yield "answer, failure and on_failure belong to tool, agent, http, run and graph."
        for name, owner in _OWNERS.items():
            if getattr(self, name) and not getattr(self, owner):
                yield f"`{name}` needs `{owner}`."
        if len(self.plan) > MAX_STEPS:
            yield f"its plan has more than {MAX_STEPS} steps."
        if any(len(text) > _MOST_TEXT for text in self._templates):
            yield f"one of its texts has more than {_MOST_TEXT:,} characters."
        if missing := self.triggers.find_missing(self.needed_names):
            yield f"it uses {{{missing}}}, which not every trigger of it gives."

    @property
    def kind(self) -> FlowKind:
        if self.tool or self.http or self.run or self.graph:
            return "tool"
        if self.agent:
            return "agent"
        if self.command:
            return "command"
        if self.instructions:
            return "instructions"
        return "plan" if self.plan else "reply"

    @property
    def target(self) -> str:
        """The tool that it calls, or its slash command; empty for other kinds."""
        if self.kind == "agent":
            return TASK_TOOL
        return (self.tool or f"flow_{self.name.replace('-', '_')}") if self.kind == "tool" else self.command

    @property
    def _templates(self) -> tuple[str, ...]:
        return (
            self.reply, self.instructions, self.goal, *self.plan, self.prompt, self.answer, self.failure,
        )  # fmt: skip

    @property
    def answer_names(self) -> set[str]:
        """The parts of the message that the answers use."""
        return select_parts((self.reply, self.answer, self.failure))

    @property
    def needed_names(self) -> set[str]:
        """The parts of the message that its templates use."""
        return select_parts((*self._templates, *self.arguments.values())) - {"message"}

    def describe(self) -> str:
        """Describe the action of the flow in one clause."""
        match self.kind:
            case "reply":
                return f"answers {_shorten(self.reply)}"
            case "command":
                return f"runs {self.command}"
            case "instructions":
                return f"gives the model instructions: {_shorten(self.instructions)}"
            case "plan":
                steps = format_count(len(self.plan), "step")
                return f"begins a plan of {steps}: {_shorten('; '.join(self.plan))}"
            case _:
                return self._describe_call()

    def _describe_call(self) -> str:
        after = " (the model goes on if that fails)" if self.on_failure == "model" else ""
        if self.agent:
            return f"starts the agent {self.agent} with {_shorten(self.prompt or WHOLE_MESSAGE)}{after}"
        if self.http is not None:
            method = str(self.http.get("method", "GET")).upper()
            return f"sends {method} {self.http.get('url', '')}{after}"
        if self.tool:
            return f"calls {self.tool} with {dict(self.arguments)}{after}"
        function = self.run or self.graph
        what = "a Burr graph" if self.graph else "the function"
        return f"runs {what} {getattr(function, '__qualname__', '')}{after}"


def _as_tuple(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def select_parts(value: Sequence[Any]) -> set[str]:
    """Return the names of parts of a message among the placeholders of templates."""
    names = find_names(list(value)) - {"error", "name"}
    return {name for name in names if name.partition(".")[0] != "result"}


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= 100 else f'"{line[:100]}..."'


def flow(name: str = "", **options: Any) -> Callable[[Callable[..., Any]], Flow]:
    """Make a flow of the decorated function, which takes parts of the message by name and returns the result.

    The options are those of `Flow`, except the targets; without a name, the flow has the name of the
    function. Raises `UsageError`.
    """
    if callable(name):
        raise UsageError("@flow takes options.", 'Write @flow(prefix="order") above the function.')

    def decorate(function: Callable[..., Any]) -> Flow:
        own = (function.__doc__ or "").strip().partition("\n")[0]
        described: dict[str, Any] = {**options, "description": options.get("description") or own}
        return Flow(name or function.__name__, run=function, **described)

    return decorate
