"""The keys of an agent file: the one source of its parser and of the JSON schema for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from ....actions.tools.http.tables import Ask, SafeEffect, Seconds
from ....actions.turn.plan.decision_tools import MAX_STEPS
from ....state.session import Effort

_Line = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Text = Annotated[str, StringConstraints(max_length=100_000)]
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Phrases = Annotated[list[_Line], Field(min_length=1, max_length=50)]
Mode = Literal["interactive", "plan", "auto-edit"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class BasicSettings(_Table):
    """The identity of the agent."""

    name: _Line = ""
    """The name of the agent."""
    description: _Text = ""
    """What the agent is and does."""
    background: _Text = ""
    """What the agent has to know: the company, the product, the customers."""
    language: _Line = ""
    """The language of the agent's answers, such as English."""
    tone: _Line = ""
    """The style of the agent's answers, such as friendly and brief."""
    chatbot_id: _Line = ""
    """The value of the variables `chatbot_id` and `chatbotId`."""


class ActionBook(_Table):
    """A condition, and what the agent does while it holds."""

    condition: Annotated[_Text, Field(min_length=1)]
    """When the agent has to act."""
    action: Annotated[_Text, Field(min_length=1)]
    """What the agent does if the condition holds."""
    tools: list[_Line] = Field(default_factory=list)
    """The names of the tools that the agent uses for the action."""


class EndpointTable(_Table):
    """The HTTP request that a tool sends. Texts may have placeholders, such as {email}."""

    url: _Line
    """The address of the request. Its host must not contain placeholders."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: dict[str, _Line] = Field(default_factory=dict, max_length=50)
    query_params: dict[str, Any] = Field(default_factory=dict, max_length=100)
    """The fields of the query."""
    body: Any = None
    """The body of the request, sent as JSON."""
    form: dict[str, Any] | None = None
    """The fields of a form, sent in place of a body."""
    timeout: Seconds = 30
    """The time limit of one call, in seconds."""


class HttpToolEntry(_Table):
    """A tool that is one HTTP request."""

    name: _Name
    description: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    """The description of the tool that the model reads."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """The JSON schema of the arguments, or name -> schema."""
    endpoint: EndpointTable
    effect: SafeEffect | None = None
    """The effect class: what a second run of a call would mean. Without it, the HTTP method decides."""
    ask: Ask = "by_rule"
    """Whether a person is asked about a call that no rule decides."""
    private: bool = False
    """Whether the host of the tool may be on a private network."""


class FlowEntry(_Table):
    """What a message with the form of a trigger starts without the model."""

    name: _Name
    trigger: _Line | _Phrases | None = None
    """Phrases; `*` matches anything, and {name} anything that the texts of the flow may use."""
    exact: _Line | _Phrases | None = None
    """Whole messages. Case and blanks are ignored."""
    prefix: _Line | _Phrases | None = None
    """Beginnings of messages; the rest is {rest}."""
    regex: _Line | _Phrases | None = None
    """Regular expressions without look-around and back-references; groups are {1} or {name}."""
    priority: int = 0
    """The flow with the highest number is tried first; of equal ones, the first in the file."""
    prompt: Annotated[_Text, Field(min_length=1)] | None = None
    """Instructions that the model reads with the message; with `agent`, the task of that agent."""
    agent: _Line | None = None
    """The agent that is started as a sub-agent; its answer is the answer."""
    plan: Annotated[list[_Line], Field(min_length=1, max_length=MAX_STEPS)] | None = None
    """The steps of the plan for the message."""
    goal: _Line | None = None
    """The goal of the plan. Without it, the goal is the message."""
    reply: Annotated[_Text, Field(min_length=1)] | None = None
    """The answer to the message."""
    tool: _Line | None = None
    """The tool that is called; its result is the answer."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The arguments of the tool."""
    http: EndpointTable | None = None
    """A request; its result is the answer."""
    command: _Line | None = None
    """A slash command: /compact, /help, /exit or /mode plan."""
    answer: _Text = ""
    """The answer after a call: {result}, {result.path.to.value} and parts of the message."""
    on_failure: Literal["reply", "model"] = "reply"
    """The action after a failed call: an answer about the failure, or a request to the model."""
    failure: _Text = ""
    """The answer after a failed call; {error} is why."""

    @model_validator(mode="after")
    def _has_one_result(self) -> Self:
        first = self.prompt if self.agent is None else self.agent
        targets = (first, self.plan, self.reply, self.tool, self.http, self.command)
        if sum(one is not None for one in targets) != 1:
            raise ValueError("it needs exactly one of prompt, plan, reply, tool, agent, http and command")
        if self.goal is not None and self.plan is None:
            raise ValueError("goal belongs to a plan")
        return self

    @property
    def phrases(self) -> list[str]:
        return [self.trigger] if isinstance(self.trigger, str) else self.trigger or []

    @property
    def texts(self) -> list[Any]:
        """All texts in which placeholders may stand."""
        own = (self.prompt, self.goal, self.reply, self.answer, self.failure)
        return [*filter(None, own), *(self.plan or ()), *self.arguments.values()]


class RulesTable(_Table):
    """Rules about calls, such as `save_customer`."""

    allow: list[str] = Field(default_factory=list)
    """Calls that run without a question."""
    ask: list[str] = Field(default_factory=list)
    """Calls that always ask a person."""
    deny: list[str] = Field(default_factory=list)
    """Calls that never run."""


class LimitsTable(_Table):
    """The limits of one run."""

    max_turns: Annotated[int, Field(ge=1)] | None = None
    """The most model calls of one run."""
    max_budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The most that one run may cost, in US dollars."""
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The time limit of one run, in seconds."""


def _kind_of_tool(value: Any) -> str:
    return "name" if isinstance(value, str) else "entry"


ToolEntry = Annotated[
    Annotated[_Line, Tag("name")] | Annotated[HttpToolEntry, Tag("entry")], Discriminator(_kind_of_tool)
]


class AgentFile(_Table):
    """The description of one agent."""

    schema_address: str = Field(default="", alias="$schema")
    """The address of this schema, for editors."""
    basic_settings: BasicSettings = BasicSettings()
    instructions: _Text = ""
    """Instructions for the system prompt, after the basic settings."""
    action_books: Annotated[list[ActionBook], Field(max_length=500)] = Field(default_factory=list[ActionBook])
    """Conditions and actions, which the system prompt lists."""
    tools: Annotated[list[ToolEntry], Field(max_length=500)] = Field(default_factory=list[ToolEntry])
    """HTTP requests, and the names of tools that ship."""
    flows: Annotated[list[FlowEntry], Field(max_length=200)] = Field(default_factory=list[FlowEntry])
    """What happens without a question to the model."""
    skills: list[_Line] = Field(default_factory=list)
    """The names of skills in the working folder, its parents or the home folder."""
    mcp_servers: dict[_Name, dict[str, Any]] = Field(default_factory=dict)
    """Tool servers, in the form of `mcpServers` in a `.mcp.json`."""
    model: _Line | None = None
    """The model, as PROVIDER/MODEL. Without it, the model of the command is used."""
    fallback_models: list[_Line] = Field(default_factory=list)
    """Models that replace the first one while it cannot be used."""
    effort: Effort | None = None
    """How much the model reasons before it answers."""
    mode: Mode | None = None
    """The mode: which calls run without a question."""
    planning: Literal["auto", "off"] = "auto"
    """Whether the model may make plans."""
    rules: RulesTable = RulesTable()
    limits: LimitsTable = LimitsTable()
    variables: dict[_Variable, str] = Field(default_factory=dict)
    """Values of {var.NAME}, used where a session gives no other value."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema of the answers. Without it, the answers are texts."""


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of agent files for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **AgentFile.model_json_schema()}
