"""The settings of a session, and a view of it."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from .application import ApplicationState, ExecutionMode
from .application import OutputSchema as OutputSchema
from .conversation.messages import Record
from .store.sessions.listing import SessionSummary, SpawnedBy

SandboxWish = Literal["auto", "required", "off"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers, in the providers' words; each provider accepts some."""


class AgentFileText(Record):
    """The file that describes the agent of a session, as it was when the session began."""

    path: str
    digest: str
    """SHA-256 of the file's bytes."""
    text: str
    """Without secrets; if the file has some, this text has another digest."""
    is_project: bool = Field(default=False, exclude_if=lambda is_project: not is_project)
    """True if the configuration of a project named it, and not a person."""

    @property
    def is_whole(self) -> bool:
        """Return whether the text is the file's, with no secret taken out."""
        return hashlib.sha256(self.text.encode()).hexdigest() == self.digest


class CompactionRules(Record):
    """What becomes of older messages when a request does not fit into the model's window."""

    kind: Literal["summary", "truncate", "off"] = "summary"
    """A model summarizes them; they are left out; the run ends with an error."""
    prompt: str = ""
    """The request for a summary; `{messages}` stands for the older messages. Empty: the usual one."""
    keep_messages: int = 0
    """How many of the newest messages stay unchanged; 0: those that fill a quarter of the window."""


USUAL_COMPACTION = CompactionRules()


class ToolChoice(Record):
    """The tools that a session offers to the model."""

    only: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of tools and groups, and globs over names: only these are offered. Empty: all tools."""
    never: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of tools and groups that are not offered."""
    groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Groups that are active from the start."""
    available_groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Groups that the model may activate."""
    group_descriptions: dict[str, str] = Field(
        default_factory=dict[str, str], exclude_if=lambda groups: not groups
    )
    """What each group is for, as the model reads it."""
    can_reset: bool = Field(default=False, exclude_if=lambda can: not can)
    """True if the model may take groups back, which sessions of older versions do not offer."""
    most_listed: int = Field(default=0, exclude_if=lambda count: not count)
    """With more additional tools than this, the model finds tools by a search; 0: all are listed."""


EVERY_TOOL = ToolChoice()


class SessionSettings(Record):
    """The settings that a session keeps until flags change them."""

    model: str
    cwd: str
    add_dirs: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=lambda rules: not rules)
    catastrophic: Literal["ask", "run"] = Field(default="ask", exclude=True)
    """From the user's own configuration at this run: never stored, and never taken from a stored session."""
    network_tools: tuple[str, ...] = Field((), exclude_if=lambda tools: not tools)
    """Names of additional tools; fixed at the start of the session, like everything the model is sent."""
    agent: str = Field(default="", exclude_if=lambda source: not source)
    """`package.module:name` of the agent of the session, or the path of its file; empty if there is none."""
    agent_file: AgentFileText | None = Field(default=None, exclude_if=lambda file: file is None)
    """The file that describes the agent; None: the agent comes from a program, or there is none."""
    has_shipped_tools: bool = Field(default=True, exclude_if=lambda has: has)
    """False for an agent of a program with only its own tools."""
    has_planning: bool = Field(default=True, exclude_if=lambda has: has)
    """True if the model is offered the planning tools."""
    own_tools: dict[str, str] = Field(default_factory=dict, exclude_if=lambda tools: not tools)
    """Tools that are not built in: name -> digest of the description for the model."""
    mode: ExecutionMode = "interactive"
    """The mode at the start; the state has the present mode."""
    sandbox: SandboxWish = Field("off", exclude_if=lambda wish: wish == "off")
    allow_net: tuple[str, ...] = Field((), exclude_if=lambda domains: not domains)
    """Domains that commands in the sandbox may reach; `*` means all."""
    system_prompt: str = ""
    """Computed once, so that every request of the session begins with the same bytes."""
    effort: Effort | None = Field(None, exclude_if=lambda effort: effort is None)
    """None: the default of the provider."""
    output_schema: OutputSchema | None = Field(default=None, exclude_if=lambda schema: schema is None)
    """None: answers are plain text."""
    done_tool: str = Field(default="", exclude_if=lambda tool: not tool)
    """The tool that must end a run; empty: a run ends with an answer."""
    max_result_tokens: int = Field(default=0, exclude_if=lambda tokens: not tokens)
    """A longer result is stored and displayed in part, and can be read from the store; 0: no limit."""
    strict_tools: bool = Field(default=False, exclude_if=lambda wish: not wish)
    """True if providers should enforce the schemas of tools, where they can; fixed at the start."""
    app: str = Field(default="", exclude_if=lambda name: not name)
    """The application of a program that began the session."""
    user: str = Field(default="", exclude_if=lambda name: not name)
    """The user of that application."""
    tags: tuple[str, ...] = Field(default=(), exclude_if=lambda tags: not tags)
    """Words by which the program finds its sessions."""
    spawned_by: SpawnedBy | None = Field(default=None, exclude_if=lambda parent: parent is None)
    """The call of another session that spawned this one; None: it was begun by itself, or is a fork."""
    variables: dict[str, str] = Field(default_factory=dict, exclude_if=lambda variables: not variables)
    """Values that the person gives for configured tools."""
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    skills: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of the skills in the system prompt."""
    max_budget_usd: float | None = Field(default=None, exclude_if=lambda budget: budget is None)
    """Cost limit of one run, as the person set it in the session; None: as configured."""
    imported_seq: int | None = Field(default=None, exclude_if=lambda seq: seq is None)
    """The last step that ran elsewhere, in an imported session."""

    @property
    def digest(self) -> str:
        """Return the digest for the hash chain; fields that are added later do not change it."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


InboxKind = Literal["steer", "queue", "observe"]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message in the inbox, which is in no history yet."""

    number: int
    """Increases within a session."""
    kind: InboxKind
    """`steer`: the model reads it before its next call; `queue`: it is sent after the run; `observe`: it is
    added to the history, and asks for no reply."""
    text: str
    context: str = ""
    """A text that a hook adds for the model."""
    is_from_outside: bool = False
    """True if a process sent it that does not run the session: no hook has seen it yet."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as another process reads it."""

    summary: SessionSummary
    settings: SessionSettings
    state: ApplicationState
    position: str | None
    """The action that ran last."""


MOST_TITLE_CHARS = 60
MOST_GIVEN_CHARS = 120
"""Limit for a title that a person gives."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])[\"')\]]*\s|(?<=[\u3002\uff01\uff1f])")
_MARKS = re.compile(r"^(?:[#>*+-]+\s+|\d+[.)]\s+)+")


def make_title(message: str) -> str:
    """Return the title of a session from its first message: the first sentence, without markdown."""
    lines = [line.strip() for line in message.replace("\0", "").splitlines()]
    sentences = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith("```")]
    whole = " ".join((sentences[0] if sentences else " ".join(lines)).split())
    plain = _MARKS.sub("", whole).replace("`", "").replace("**", "") or whole
    sentence = _SENTENCE.split(plain, maxsplit=1)[0].rstrip(" ,;:")
    sentence = sentence if sentence.endswith("..") else sentence.removesuffix(".")
    return cut_at_word(sentence or plain, MOST_TITLE_CHARS)


def clean_title(text: str) -> str:
    """Return a person's title on one line, shortened; empty if nothing is in it."""
    return cut_at_word(" ".join(text.replace("\0", "").split()), MOST_GIVEN_CHARS)


def cut_at_word(text: str, most: int) -> str:
    """Return a text of at most `most` characters, cut between words if enough of it remains."""
    if len(text) <= most:
        return text
    room = most - len(" ...")
    head, blank, _ = text[: room + 1].rpartition(" ")
    return f"{head if blank and len(head) > room // 2 else text[:room]} ..."
