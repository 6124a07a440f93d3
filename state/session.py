"""The settings of a session, and the view of a session for other processes."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Literal

from pydantic import Field

from .application import ApplicationState, ExecutionMode
from .application import OutputSchema as OutputSchema
from .conversation.content import Attachment
from .conversation.messages import Message, Record, UserContent
from .errors import UsageError
from .lazy_dataclass import dataclass
from .store.sessions.listing import SessionSummary

SandboxWish = Literal["auto", "required", "off"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers, in the words of the providers. Each provider accepts some of
them.
"""


class AgentFileText(Record):
    """The file that describes the agent of a session, with its content at the beginning of the session."""

    path: str
    digest: str
    """The SHA-256 of the file's bytes."""
    text: str
    """The text of the file without secrets. If the file contains secrets, this text has another digest."""
    is_project: bool = Field(default=False, exclude_if=lambda is_project: not is_project)
    """Whether the configuration of a project named the file, and not a person."""

    @property
    def is_whole(self) -> bool:
        """Return whether the text is that of the file, with no secret removed."""
        return hashlib.sha256(self.text.encode()).hexdigest() == self.digest


class SpawnedBy(Record):
    """The call of another session that started this session as a sub-agent."""

    session_id: str
    sequence: int
    """The newest step of that session when the call started."""
    call_id: str
    agents: tuple[str, ...]
    """The names of the agents from the first sub-agent below a person's session down to this one."""
    description: str = ""
    """The purpose of the sub-agent, in a few words."""
    max_turns: int | None = Field(default=None, exclude_if=lambda count: count is None)
    """How many replies of the model one run may take; None: no limit of its own."""
    may_start: tuple[str, ...] | None = Field(default=None, exclude_if=lambda names: names is None)
    """The agents that it may start; None: all."""
    depth: int | None = Field(default=None, exclude_if=lambda depth: depth is None)
    """How many sessions above it have a model, so without workflows; None: as many as `agents`."""
    has_conversation: bool = Field(default=False, exclude_if=lambda has: not has)
    """Whether the conversation of that session was handed to it, so that its answers are answers there."""

    @property
    def levels(self) -> int:
        """Return its depth below the session that a person began, without workflows."""
        return len(self.agents) if self.depth is None else self.depth


class CompactionRules(Record):
    """The rules for older messages if a request does not fit into the model's window."""

    kind: Literal["summary", "truncate", "off"] = "summary"
    """`summary`: a model summarizes the messages. `truncate`: they are left out. `off`: the run ends with an
    error.
    """
    prompt: str = ""
    """The request for a summary, in which `{messages}` is replaced by the older messages; empty for the
    standard request.
    """
    keep_messages: int = 0
    """How many of the newest messages stay unchanged. 0 means as many as fill a quarter of the window."""


USUAL_COMPACTION = CompactionRules()


class ToolChoice(Record):
    """The tools that a session offers to the model."""

    only: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of tools and groups, and globs over names. Only these tools are offered; empty for
    all tools.
    """
    never: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of tools and groups that are not offered."""
    groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The groups that are active from the start."""
    available_groups: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The groups that the model may activate."""
    group_descriptions: dict[str, str] = Field(
        default_factory=dict[str, str], exclude_if=lambda groups: not groups
    )
    """The purpose of each group, as the model reads it."""
    can_reset: bool = Field(default=False, exclude_if=lambda can: not can)
    """Whether the model may deactivate groups. Sessions of older versions do not offer this."""
    most_listed: int = Field(default=0, exclude_if=lambda count: not count)
    """If there are more additional tools than this, the model finds tools by a search. 0 means that all are
    listed.
    """


EVERY_TOOL = ToolChoice()


WORKFLOW_MODELS = "workflow/"
_REPETITION = f"{WORKFLOW_MODELS}retry"
"""The names of models that are the code of a workflow begin so."""


class SessionSettings(Record):
    """The settings that a session keeps until flags change them."""

    model: str
    agents_model: str = Field(default="", exclude_if=lambda name: not name)
    """In a workflow: the model of those of its agents that name none; empty: the default of the process."""
    cwd: str
    add_dirs: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=lambda rules: not rules)
    catastrophic: Literal["ask", "run"] = Field(default="ask", exclude=True)
    """The value in the user's own configuration at this run. It is never stored, and never read from a stored
    session.
    """
    network_tools: tuple[str, ...] = Field((), exclude_if=lambda tools: not tools)
    """The names of additional tools. They are fixed at the start of the session, like all fixed parts of
    requests.
    """
    agent: str = Field(default="", exclude_if=lambda source: not source)
    """The agent of the session as `package.module:name`, or the path of its file; empty if there is none."""
    agent_file: AgentFileText | None = Field(default=None, exclude_if=lambda file: file is None)
    """The file that describes the agent; None if the agent comes from a program, or if there is none."""
    has_shipped_tools: bool = Field(default=True, exclude_if=lambda has: has)
    """Whether the session has the tools of Sandbur. It is False for an agent of a program with only its own
    tools.
    """
    has_planning: bool = Field(default=True, exclude_if=lambda has: has)
    """Whether the model is offered the planning tools."""
    orders_steps: bool = Field(default=False, exclude_if=lambda orders: not orders)
    """Whether the model may say which steps of a plan come after which. Sessions of older versions do not
    offer this.
    """
    plan_tools: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of the tools for plans that the session was given when it began. Sessions of older versions
    have none.
    """
    memory: str = Field(default="", exclude_if=lambda mode: not mode)
    """How the session uses memory, as it was set when it began; empty: as the setting says that somebody
    made.
    """
    own_tools: dict[str, str] = Field(default_factory=dict, exclude_if=lambda tools: not tools)
    """Maps each tool that is not built in to the digest of its description for the model."""
    mode: ExecutionMode = "interactive"
    """The mode at the start. The state contains the current mode."""
    sandbox: SandboxWish = Field("off", exclude_if=lambda wish: wish == "off")
    allow_net: tuple[str, ...] = Field((), exclude_if=lambda domains: not domains)
    """The domains that commands in the sandbox may reach; `*` means all."""
    system_prompt: str = ""
    """The system prompt. It is computed once, so that every request of the session begins with the same
    bytes.
    """
    effort: Effort | None = Field(None, exclude_if=lambda effort: effort is None)
    """How much the model thinks; None for the default of the provider."""
    output_schema: OutputSchema | None = Field(default=None, exclude_if=lambda schema: schema is None)
    """The format of answers; None if answers are plain text."""
    done_tool: str = Field(default="", exclude_if=lambda tool: not tool)
    """The tool that must end a run; empty if a run ends with an answer."""
    max_result_tokens: int = Field(default=0, exclude_if=lambda tokens: not tokens)
    """The most tokens of a result. A longer one is displayed in part, and can be read from the store. 0 means
    no limit.
    """
    strict_tools: bool = Field(default=False, exclude_if=lambda wish: not wish)
    """Whether providers should enforce the schemas of tools, if they can. It is fixed at the start."""
    app: str = Field(default="", exclude_if=lambda name: not name)
    """The name of the program that began the session."""
    user: str = Field(default="", exclude_if=lambda name: not name)
    """The user of that program."""
    tags: tuple[str, ...] = Field(default=(), exclude_if=lambda tags: not tags)
    """The words with which the program finds its sessions."""
    needs: tuple[str, ...] = Field(default=(), exclude_if=lambda labels: not labels)
    """The labels that a worker must have to run the session, such as `host:alpha` for files of that host."""
    priority: int = Field(default=5, ge=0, le=9, exclude_if=lambda priority: priority == 5)
    """Which sessions of a tenant workers run first: those with the higher number."""
    variables: dict[str, str] = Field(default_factory=dict, exclude_if=lambda variables: not variables)
    """The values that the person sets for configured tools."""
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    skills: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of the skills in the system prompt."""
    knowledge: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of the knowledge bases that the model may search."""
    max_budget_usd: float | None = Field(default=None, exclude_if=lambda budget: budget is None)
    """Cost limit of one run, as the person set it in the session; None: as configured."""
    spawned_by: SpawnedBy | None = Field(default=None, exclude_if=lambda by: by is None)
    """Set in the session of a sub-agent."""
    trial: str = Field(default="", exclude_if=lambda trial: not trial)
    """The id of the trial in whose copy of the workspace the session works; empty for the workspace
    itself."""
    keeps_settings: bool = Field(default=False, exclude_if=lambda keeps: not keeps)
    """Whether these settings count in every process, whatever its agent and flags set, as in a run of an
    evaluation that a worker carries out."""
    imported_seq: int | None = Field(default=None, exclude_if=lambda seq: seq is None)
    """The number of the last imported step, in an imported session; None in other sessions."""

    @property
    def is_workflow(self) -> bool:
        """Return whether code of a program replies in the session, and no model."""
        return self.model.startswith(WORKFLOW_MODELS)

    @property
    def is_repetition(self) -> bool:
        """Return whether the session is a workflow that repeats a failing agent, and has the agent's name."""
        return self.model == _REPETITION

    @property
    def has_permissions(self) -> bool:
        """Return whether the settings allow calls that would ask otherwise."""
        return self != self.without_permissions()

    def without_permissions(self) -> SessionSettings:
        """Return the settings without rules that allow, added folders and domains, in interactive mode."""
        return self.model_copy(update={"mode": "interactive", "allow": (), "add_dirs": (), "allow_net": ()})

    @property
    def digest(self) -> str:
        """Return the digest for the hash chain. Fields that later versions add do not change it."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


InboxKind = Literal["steer", "queue", "observe"]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message in the inbox that is in no history yet."""

    number: int
    """The number of the message, which increases within a session."""
    kind: InboxKind
    """`steer`: the model reads the message before its next call. `queue`: the message is sent after the run.
    `observe`: the message is added to the history and needs no reply.
    """
    text: str
    context: str = ""
    """A text that a hook adds for the model."""
    is_from_outside: bool = False
    """Whether another process than the one that runs the session sent the message. Then no hook has checked
    it yet.
    """
    message: Message | None = None
    """The message with its files; None if it is only the text. Then `text` has a line for each file."""

    @property
    def content(self) -> UserContent:
        """Return the text, or the texts and files in order."""
        return self.text if self.message is None else self.message.user_content

    @property
    def files(self) -> tuple[Attachment, ...]:
        """Return the files whose bytes the store has."""
        found = () if self.message is None else self.message.files
        return tuple(file for file in found if file.is_stored)


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as another process reads it."""

    summary: SessionSummary
    settings: SessionSettings
    state: ApplicationState
    position: str | None
    """The name of the action that ran last; None if there is none."""


MOST_ID_CHARS = 64


def check_session_id(session_id: str) -> str:
    """Return the id for a new session; raises `UsageError` for a text that cannot be one.

    A text that begins with a `-` would be a flag in every command that names the session.
    """
    plain = session_id.isascii() and all(each.isalnum() or each in "-_.:@" for each in session_id)
    if not plain or session_id.startswith("-") or not 0 < len(session_id) <= MOST_ID_CHARS:
        raise UsageError(
            f"{session_id[:80]!r} cannot be the id of a session.",
            f"Use up to {MOST_ID_CHARS} letters, digits and any of - _ . : @, and begin with no -",
        )
    return session_id


MOST_TITLE_CHARS = 60
MOST_GIVEN_CHARS = 120
"""The most characters of a title that a person sets."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])[\"')\]]*\s|(?<=[\u3002\uff01\uff1f])")
_MARKS = re.compile(r"^(?:[#>*+-]+\s+|\d+[.)]\s+)+")


def make_title(message: str) -> str:
    """Return the title of a session: the first sentence of its first message, without markdown."""
    lines = [line.strip() for line in message.replace("\0", "").splitlines()]
    sentences = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith("```")]
    whole = " ".join((sentences[0] if sentences else " ".join(lines)).split())
    plain = _MARKS.sub("", whole).replace("`", "").replace("**", "") or whole
    sentence = _SENTENCE.split(plain, maxsplit=1)[0].rstrip(" ,;:")
    sentence = sentence if sentence.endswith("..") else sentence.removesuffix(".")
    return cut_at_word(sentence or plain, MOST_TITLE_CHARS)


def clean_title(text: str) -> str:
    """Return a person's title on one line, shortened; empty if it contains no text."""
    return cut_at_word(" ".join(text.replace("\0", "").split()), MOST_GIVEN_CHARS)


def cut_at_word(text: str, most: int) -> str:
    """Return a text of at most `most` characters. It is cut between words if enough text remains."""
    if len(text) <= most:
        return text
    room = most - len(" ...")
    head, blank, _ = text[: room + 1].rpartition(" ")
    return f"{head if blank and len(head) > room // 2 else text[:room]} ..."
