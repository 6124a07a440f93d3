"""The forms of requests and answers, from which the checks and the OpenAPI document are made."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from ....state.calls import Settlement
from ....state.process.clock import format_time
from ....state.store.access_tokens import Scope

SessionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_:@][A-Za-z0-9_.:@-]{0,63}$")]
"""Not `.` and `..`, which clients and proxies take for folders."""
NO_NUL = r"^[^\x00]*$"
"""The pattern of texts in columns: PostgreSQL has no U+0000 in them."""
Label = Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)]
MOST_TEXT_CHARS = 256 * 1024
MessageText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MOST_TEXT_CHARS),
    # Checked where the content is read, which says it in words.
    Field(json_schema_extra={"pattern": r"\S"}),
]
_MOST_BLOCKS = 50
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_FIRST_YEAR, _LAST_YEAR = 1970, 9000


def _check_year(time: datetime) -> datetime:
    if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
        raise ValueError(f"the year of a time is from {_FIRST_YEAR} to {_LAST_YEAR}")
    return time


def _check_form(time: Any) -> Any:
    if not isinstance(time, str) or _DATE.match(time) is None:
        raise ValueError("a time is a text such as 2026-01-31T12:00:00Z")
    return time


_YEARS = Field(json_schema_extra={"pattern": r"^(19[7-9]\d|[2-8]\d{3})-"})
Time = Annotated[AwareDatetime, AfterValidator(_check_year), BeforeValidator(_check_form), _YEARS]
"""A number, which would be seconds since 1970, is no time here."""


def _write_time(time: Any) -> Any:
    return format_time(time) if isinstance(time, datetime) else time


AnswerTime = Annotated[str, BeforeValidator(_write_time), Field(json_schema_extra={"format": "date-time"})]
"""A stored time in an answer, in the one form of all of them: `2026-01-31T12:00:00.000+00:00`."""


class Form(BaseModel):
    """The body or the query of a request: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)


class AnswerForm(BaseModel):
    model_config = ConfigDict(frozen=True)


class TextBlockForm(Form):
    type: Literal["text"]
    text: MessageText


_QUANTA = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
BASE64: dict[str, Any] = {"contentEncoding": "base64", "minLength": 4, "pattern": _QUANTA}
"""The schema of bytes, which are checked when they are decoded."""


class FileSourceForm(Form):
    data: str = Field(json_schema_extra=BASE64)
    """The bytes as base64."""


class FileBlockForm(Form):
    type: Literal["image", "document", "audio", "video"]
    source: FileSourceForm
    name: str = Field("", max_length=200)


Block = Annotated[TextBlockForm | FileBlockForm, Field(discriminator="type")]
MessageContent = MessageText | Annotated[list[Block], Field(min_length=1, max_length=_MOST_BLOCKS)]


class SessionListQuery(Form):
    app: Label | None = None
    user: Label | None = None
    tag: Label | None = None
    status: Label | None = None
    since: Time | None = None
    until: Time | None = None
    text: Label | None = Field(None, description="All words are in the messages, or it is in the title.")
    parent: SessionId | None = Field(None, description="Only the sub-agents of this session.")
    children: bool = Field(False, description="Whether sub-agents are among the sessions.")
    limit: int = Field(50, ge=1, le=200)
    cursor: Annotated[str, StringConstraints(max_length=400)] | None = Field(
        None, description="`cursor` of the last session of the page before."
    )


class SessionEntryAnswer(AnswerForm):
    id: str
    title: str
    status: str
    model: str
    app: str
    user: str
    tags: list[str]
    created_at: AnswerTime
    updated_at: AnswerTime
    parent: str | None = Field(description="The session whose call started this one.")
    cursor: str


class SessionPageAnswer(AnswerForm):
    sessions: list[SessionEntryAnswer]
    next: str | None = Field(description="The `cursor` of the next page; null: this is the last one.")


class WaitingCallAnswer(AnswerForm):
    call_id: str
    tool: str
    arguments: Any
    kind: Literal["approval", "outcome_unknown"]
    reason: str
    model_config = ConfigDict(frozen=True, extra="allow")


class PlanStepEntryAnswer(AnswerForm):
    step_id: str
    description: str
    status: str
    summary: str


class SessionDetailsAnswer(AnswerForm):
    id: str
    title: str
    status: str
    agent: str
    model: str
    app: str
    user: str
    tags: list[str]
    created_at: AnswerTime
    updated_at: AnswerTime
    parent: str | None
    forked_from: str | None
    steps: int
    mode: str
    goal: str | None
    plan: list[PlanStepEntryAnswer]
    pending: list[WaitingCallAnswer]
    usage: dict[str, Any]
    last_event_id: str | None = Field(description="The id after which a stream has only what is new.")


class NewSessionForm(Form):
    agent: Label = Field("", description="The name of an agent of this server; empty: its first one.")
    session_id: SessionId | None = None
    message: MessageContent | None = Field(None, description="The first message, which starts a run.")
    app: Label = ""
    user: Label = ""
    tags: Annotated[list[Label], Field(max_length=20)] = []


class NewMessageForm(Form):
    content: MessageContent


class SteeringForm(Form):
    text: MessageText


class RenamingForm(Form):
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class AcceptedAnswer(AnswerForm):
    """Something is stored, and a run works on it. The stream has what follows."""

    session_id: str
    last_event_id: str | None = Field(description="The id after which the stream has what follows.")


class ApprovalForm(Form):
    calls: Annotated[list[Label], Field(max_length=200)] = Field(
        default=[], description="The ids of the calls; empty: all that wait for approval."
    )
    arguments: dict[str, Any] | None = Field(None, description="Edited arguments, for one call.")


class DenialForm(Form):
    calls: Annotated[list[Label], Field(max_length=200)] = []
    reason: Annotated[str, StringConstraints(max_length=4000)] = ""


class SettlingForm(Form):
    call: Label
    outcome: Settlement
    result: Annotated[str, StringConstraints(max_length=MOST_TEXT_CHARS)] = ""


class ForkPlaceForm(Form):
    at: int | None = Field(None, ge=0, le=2**31, description="The last step to share; null: the newest.")


class DeletedAnswer(AnswerForm):
    deleted: list[str]


class HistoryQueryForm(Form):
    first: int = Field(0, ge=0, le=2**31, description="The number of the first message.")
    limit: int = Field(50, ge=1, le=200)


class HistoryMessageAnswer(AnswerForm):
    number: int
    role: Literal["user", "assistant", "tool", "system", "damaged"]
    text: str
    tool_uses: list[dict[str, Any]]
    tool_results: list[dict[str, Any]]
    files: list[dict[str, Any]]


class HistoryPartAnswer(AnswerForm):
    total: int
    messages: list[HistoryMessageAnswer]


class StepQueryForm(Form):
    first: int = Field(0, ge=0, le=2**31)
    limit: int = Field(200, ge=1, le=1000)


class StepEntryAnswer(AnswerForm):
    seq: int
    at: AnswerTime
    action: str
    kind: str
    text: str


class StepPageAnswer(AnswerForm):
    total: int
    steps: list[StepEntryAnswer]


class ReplayForm(Form):
    from_step: int | None = Field(
        None, ge=0, le=2**31, description="Begin after this step; null: at the first."
    )
    ignore_tools: bool = Field(False, description="Changed, new and removed tools alone are no difference.")


class DivergenceAnswer(AnswerForm):
    """The first difference between the recording and the present program."""

    step: int
    action: str
    kind: str
    summary: str
    lines: list[str] = Field(
        description="`-` begins a line of the recording, `+` one of the present program."
    )


class ReplayAnswer(AnswerForm):
    session_id: str
    is_same: bool
    steps: int = Field(description="How many steps were run and compared.")
    first_step: int
    last_step: int
    recorded_only: list[int] = Field(description="The steps that could only be taken as recorded.")
    not_run: list[str] = Field(description="The tools that were neither run nor compared.")
    divergence: DivergenceAnswer | None


class PassageQueryForm(Form):
    text: Annotated[str, StringConstraints(max_length=1000)] = Field(
        description="What to search for; or a `reference` or `rest`, which reads the message from there."
    )


class PassageAnswer(AnswerForm):
    session_id: str = Field(description="This session, a sub-agent, or what it was forked from.")
    step: int
    at: AnswerTime
    kind: Literal["person", "answer", "call", "result"]
    tool: str
    call_id: str
    text: str
    neighbour: str = Field(description="The beginning of the answer, the question, the call or the result.")
    reference: str
    rest: str = Field(description="The `text` that reads what follows; empty at the end.")


class PassageListAnswer(AnswerForm):
    passages: list[PassageAnswer]


class EventQueryForm(Form):
    after: Annotated[str, StringConstraints(max_length=100)] | None = Field(
        None, description="An id as in the header Last-Event-ID, which counts if both are there."
    )


class FileEntryAnswer(AnswerForm):
    digest: str
    media_type: str
    size: int
    name: str


class ChangedFileAnswer(AnswerForm):
    call_id: str
    path: str


class FileListAnswer(AnswerForm):
    attached: list[FileEntryAnswer] = Field(description="The files in messages of the asked part.")
    changed: list[ChangedFileAnswer] = Field(description="The files that calls changed, oldest first.")


class AgentEntryAnswer(AnswerForm):
    name: str
    title: str = Field(description="Its own name, or the one by which the server has it.")
    description: str


class AgentListAnswer(AnswerForm):
    agents: list[AgentEntryAnswer]


FactScopeName = Annotated[str, StringConstraints(pattern=r"^(user|project|agent:[ -~]{1,100})$")]


class FactQueryForm(Form):
    text: Label = Field("", description="What the facts are about; empty: the newest ones.")
    scope: FactScopeName = Field("user", description="`user`, `project` or `agent:NAME`.")
    limit: int = Field(50, ge=1, le=200)


_NO_CONTROLS = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]+$"
"""Checked where a fact is added, which names the character."""


class NewFactForm(Form):
    text: Annotated[str, StringConstraints(min_length=1, max_length=16_000)] = Field(
        json_schema_extra={"pattern": _NO_CONTROLS}
    )
    scope: FactScopeName = "user"


class FactEntryAnswer(AnswerForm):
    id: str
    text: str
    kind: str
    scope: str
    path: str
    state: str
    created_at: AnswerTime


class FactListAnswer(AnswerForm):
    facts: list[FactEntryAnswer]


class NewTokenForm(Form):
    name: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=NO_NUL)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    expires_at: Time | None = None


class TokenEntryAnswer(AnswerForm):
    id: str
    name: str
    tenant: str
    scopes: list[Scope]
    created_at: AnswerTime
    expires_at: str


class NewTokenAnswer(TokenEntryAnswer):
    token: str = Field(description="The text of the token. It is shown only now.")


class TokenListAnswer(AnswerForm):
    tokens: list[TokenEntryAnswer]


class AuditQueryForm(Form):
    limit: int = Field(100, ge=1, le=1000)
    before: Annotated[str, StringConstraints(max_length=80)] = Field(
        "", description="`next` of the page before, or a time: only older entries."
    )


class AuditLineAnswer(AnswerForm):
    at: AnswerTime
    token: str
    request: str
    session: str
    status: int


class AuditPartAnswer(AnswerForm):
    entries: list[AuditLineAnswer]
    next: str | None = Field(description="The `before` of the next page; null: this is the last one.")


class HealthAnswer(AnswerForm):
    status: Literal["ok"]


class ErrorBodyAnswer(AnswerForm):
    type: str
    message: str
    hint: str


class ErrorAnswer(AnswerForm):
    """Every error has this form."""

    error: ErrorBodyAnswer
