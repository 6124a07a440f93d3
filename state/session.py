"""What a session is apart from its state: its settings, and how it is listed."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from .application import ApplicationState, ExecutionMode
from .conversation.messages import Record
from .store.sessions.listing import SessionSummary

SandboxWish = Literal["auto", "required", "off"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers, in the words of the providers; each takes some of them."""


class OutputSchema(Record):
    """What the answers of a session have to look like."""

    name: str
    json_schema: dict[str, Any]
    """As it was given."""
    strict: bool = True
    """Whether a provider is to be held to it to the letter, where it can be."""


class ToolChoice(Record):
    """Which of its tools a session offers to the model."""

    only: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of tools and groups, and globs over names: no others are there. Empty: all are."""
    never: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of tools and groups that are not there."""
    groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Groups that are active from the beginning."""
    available_groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Groups that the model may make active."""
    most_listed: int = Field(default=0, exclude_if=lambda count: not count)
    """With more tools than this beside those that ship, they are found by a search; 0: all are listed."""


EVERY_TOOL = ToolChoice()


class SessionSettings(Record):
    """What a session keeps until flags change it."""

    model: str
    cwd: str
    add_dirs: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=lambda rules: not rules)
    catastrophic: Literal["ask", "run"] = Field(default="ask", exclude=True)
    """As the user's own configuration says at this run: never stored, and never taken from what is stored."""
    network_tools: tuple[str, ...] = Field((), exclude_if=lambda tools: not tools)
    """Names of tools beside those of every session; fixed at its start, as all that a model is told."""
    agent: str = Field(default="", exclude_if=lambda source: not source)
    """`package.module:name` of the agent that it belongs to; empty: nobody's."""
    has_shipped_tools: bool = Field(default=True, exclude_if=lambda has: has)
    """False for an agent of a program that has brought all of its tools."""
    has_planning: bool = Field(default=True, exclude_if=lambda has: has)
    """Whether the model is offered the tools of plans."""
    own_tools: dict[str, str] = Field(default_factory=dict, exclude_if=lambda tools: not tools)
    """Tools that did not ship: name -> digest of what the model was told of them."""
    mode: ExecutionMode = "interactive"
    """Of its beginning; the state tells the present one."""
    sandbox: SandboxWish = Field("off", exclude_if=lambda wish: wish == "off")
    allow_net: tuple[str, ...] = Field((), exclude_if=lambda domains: not domains)
    """Domains that commands in the sandbox may reach; `*`: all there is."""
    system_prompt: str = ""
    """Computed once, so that every request of the session starts with the same bytes."""
    effort: Effort | None = Field(None, exclude_if=lambda effort: effort is None)
    """None: as the provider has it."""
    output_schema: OutputSchema | None = Field(default=None, exclude_if=lambda schema: schema is None)
    """None: answers are text."""
    done_tool: str = Field(default="", exclude_if=lambda tool: not tool)
    """The tool by which a run has to end; empty: by an answer."""
    max_result_tokens: int = Field(default=0, exclude_if=lambda tokens: not tokens)
    """A result beyond this is kept in the store and shown in part, and can be read there; 0: neither."""
    variables: dict[str, str] = Field(default_factory=dict, exclude_if=lambda variables: not variables)
    """What the person says of it, for tools that are configured."""
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    skills: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of the skills that its system prompt tells of."""
    max_budget_usd: float | None = Field(default=None, exclude_if=lambda budget: budget is None)
    """What one run may cost, as the person said in it; None: as it is configured."""
    imported_seq: int | None = Field(default=None, exclude_if=lambda seq: seq is None)
    """The last step that ran elsewhere, in a session that was imported."""

    @property
    def digest(self) -> str:
        """Return what the hash chain records of them: a field that comes to be later does not change it."""
        said = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


InboxKind = Literal["steer", "queue"]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """What a person said while a run went on, and no history holds yet."""

    number: int
    """Rising within a session."""
    kind: InboxKind
    """`steer`: the model reads it before its next call; `queue`: it is sent when the run is over."""
    text: str
    context: str = ""
    """What a hook adds for the model."""
    is_from_outside: bool = False
    """No process that runs the session took it in: its hooks have had no say yet."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as it is read beside its writer."""

    summary: SessionSummary
    settings: SessionSettings
    state: ApplicationState
    position: str | None
    """The action that ran last."""


MOST_TITLE_CHARS = 60
MOST_GIVEN_CHARS = 120
"""Of a title that a person gives."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])[\"')\]]*\s|(?<=[\u3002\uff01\uff1f])")
_MARKS = re.compile(r"^(?:[#>*+-]+\s+|\d+[.)]\s+)+")


def short_title(message: str) -> str:
    """Return what a session is called by its first message: the first sentence, without marks of markdown."""
    lines = [line.strip() for line in message.replace("\0", "").splitlines()]
    spoken = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith("```")]
    whole = " ".join((spoken[0] if spoken else " ".join(lines)).split())
    plain = _MARKS.sub("", whole).replace("`", "").replace("**", "") or whole
    sentence = _SENTENCE.split(plain, maxsplit=1)[0].rstrip(" ,;:")
    sentence = sentence if sentence.endswith("..") else sentence.removesuffix(".")
    return cut_at_word(sentence or plain, MOST_TITLE_CHARS)


def given_title(text: str) -> str:
    """Return a title that a person gives, on one line; empty if there is nothing in it."""
    return cut_at_word(" ".join(text.replace("\0", "").split()), MOST_GIVEN_CHARS)


def cut_at_word(text: str, most: int) -> str:
    """Return a text that is not longer, cut between words where that leaves enough of it."""
    if len(text) <= most:
        return text
    room = most - len(" ...")
    head, blank, _ = text[: room + 1].rpartition(" ")
    return f"{head if blank and len(head) > room // 2 else text[:room]} ..."
