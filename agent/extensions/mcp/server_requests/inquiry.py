"""Questions of tool servers whose answer may come from a later process.

A server of the newer protocol that needs a person's answer ends the call with its question and an opaque
state, which has to return with the answer. Both are stored in a file. The answer is a call of
`answer_mcp_question`, which always asks for approval. So the person sees the question and the answer, and can
change or deny it, today or next week.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import Client
from mcp.client.context import ClientRequestContext
from pydantic import Field, ValidationError

from .....actions.ports import BadArguments, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from .....actions.tools.schema import PlainText, ToolArguments, parse_arguments, spec_of
from .....actions.workspace.atomic_write import replace_content
from .....state.calls import Effect
from .....state.conversation.messages import Record
from ..connection import ServerRefused
from ..schemas import Arguments, UnfitSchema, usable
from ..text import one_line, plain

if TYPE_CHECKING:
    from ..tool import CallProgress, McpTool

_MOST_ROUNDS = 5
_MOST_QUESTION_CHARS = 2000
_KEPT_S = 90 * 86_400
_MOST_BYTES = 1_000_000
Responses = dict[str, Any]
"""The server's key of a request -> the response, a result type of the MCP library."""


class Inquiry(Record):
    """A stored call that waits for answers."""

    tool: str
    """The name of the tool in sessions."""
    arguments: dict[str, Any]
    required: str
    """The fields that the server requires in the answer, as JSON."""

    @property
    def result(self) -> types.InputRequiredResult:
        return types.InputRequiredResult.model_validate_json(self.required, by_name=False)

    @property
    def questions(self) -> dict[str, types.ElicitRequest]:
        asked = self.result.input_requests or {}
        return {key: one for key, one in asked.items() if isinstance(one, types.ElicitRequest)}

    @property
    def message(self) -> str:
        """Return the complete question for the person."""
        return plain("\n".join(one.params.message for one in self.questions.values()), _MOST_QUESTION_CHARS)


class Inquiries:
    """The stored questions of all servers, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, inquiry: Inquiry) -> str:
        """Store a question; return the name of the stored question."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clear_old()
        name = f"q{secrets.token_hex(6)}"
        replace_content(self._path(name), inquiry.model_dump_json().encode(), None)
        return name

    def find(self, name: str) -> Inquiry | None:
        try:
            with self._path(name).open("rb") as file:
                return Inquiry.model_validate_json(file.read(_MOST_BYTES))
        except (OSError, ValidationError):
            return None

    def forget(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name if name.isalnum() else 'none'}.json"

    def _clear_old(self) -> None:
        for path in self._folder.glob("*.json"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _KEPT_S:
                    path.unlink()


async def ask_client(
    client: Client,
    tool: str,
    arguments: dict[str, Any],
    progress: CallProgress,
    has_person: bool,
    given: tuple[Responses, str | None] = ({}, None),
) -> types.CallToolResult | types.InputRequiredResult:
    """Call a tool and answer the server's requests until the server returns a result.

    `has_person` says whether a person can answer now. If it is false, a question for the person is returned
    in place of the result. Raises the exceptions of the MCP library.
    """
    responses, state = given
    for _ in range(_MOST_ROUNDS):
        result = await client.session.call_tool(
            tool, arguments, progress.longest_s, progress_callback=progress.report_progress,
            input_responses=responses or None, request_state=state, allow_input_required=True,
        )  # fmt: skip
        if not isinstance(result, types.InputRequiredResult):
            return result
        requests = result.input_requests or {}
        if not has_person and any(isinstance(one, types.ElicitRequest) for one in requests.values()):
            return result
        responses, state = await dispatch_requests(client, requests), result.request_state
    raise ServerRefused("it asks too many questions in a row")


async def dispatch_requests(client: Client, requests: dict[str, Any]) -> Responses:
    """Answer the requests that need no person, such as the folders of the session."""
    found: Responses = {}
    for key, request in requests.items():
        context = ClientRequestContext(session=client.session, request_id=key, meta=None)
        answer = await client.session.dispatch_input_request(context, request)
        if isinstance(answer, types.ErrorData):
            raise ServerRefused(f"it requests something that it may not have: {one_line(answer.message)}")
        found[key] = answer
    return found


def describe_inquiry(server: str, name: str, inquiry: Inquiry) -> str:
    """Describe for the model the question of the server, and how to answer it."""
    shapes = {key: getattr(one.params, "requested_schema", {}) for key, one in inquiry.questions.items()}
    fields = next(iter(shapes.values())) if len(shapes) == 1 else shapes
    return (
        f"The tool server {server} has a question for the user. The call is not finished yet.\n"
        f"Question: {inquiry.message}\n"
        f"Form of the answer: {json.dumps(fields, default=str)[:4000]}\n"
        f'Call {ANSWER} with question "{name}", the text of the question as `asked`, and your proposal as'
        " `answer`: the user sees both, and changes, approves or denies it."
    )


ANSWER = "answer_mcp_question"


class _Answer(ToolArguments):
    question: PlainText = Field(description="The name of the question in the server's result", max_length=40)
    asked: PlainText = Field(description="The text of the question, word for word", max_length=4000)
    answer: PlainText = Field(description="The answer: a JSON object in the form that the question requires")


_SPEC = spec_of(
    ANSWER,
    "Answer the question of a tool server. The user sees the question and the answer, and decides.",
    _Answer,
)


class AnswerQuestion:
    """The tool that continues a call whose server asked a question. It always asks a person for approval."""

    def __init__(self, inquiries: Inquiries, tools: dict[str, McpTool]) -> None:
        self._inquiries = inquiries
        self._tools = tools

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    @property
    def traits(self) -> ToolTraits:
        return ToolTraits(subject="asked", asks="always")

    @property
    def effect(self) -> Effect:
        return "effect"

    def parse(self, arguments: str) -> _Answer:
        """Return the answer. Raises `BadArguments` if it does not quote an open question."""
        given = parse_arguments(_SPEC, _Answer, arguments)
        inquiry = self._inquiries.find(given.question)
        if inquiry is None:
            raise BadArguments(f"{ANSWER}: there is no open question {given.question[:40]}.")
        if " ".join(given.asked.split()) != " ".join(inquiry.message.split()):
            raise BadArguments(f"{ANSWER}: `asked` differs from the question, which is: {inquiry.message}")
        _contents(inquiry, given.answer)
        return given

    def effect_of(self, arguments: Any) -> Effect:
        return "effect"

    def subject(self, arguments: _Answer) -> str:
        return arguments.asked

    def paths(self, arguments: Any) -> Sequence[str]:
        return ()

    async def run(self, arguments: _Answer, context: ToolContext) -> ToolOutcome:
        inquiry = self._inquiries.find(arguments.question)
        tool = None if inquiry is None else self._tools.get(inquiry.tool)
        if inquiry is None or tool is None:
            return ToolOutcome("error", "The server that asked this question is no longer available.")
        outcome = await tool.go_on(inquiry, _contents(inquiry, arguments.answer), context)
        if outcome.outcome == "ok":
            self._inquiries.forget(arguments.question)
        return outcome


def _contents(inquiry: Inquiry, answer: str) -> dict[str, dict[str, Any]]:
    """Return the answers by the server's keys. Raises `BadArguments` if one does not fit its question."""
    questions = inquiry.questions
    whole = Arguments(ANSWER, {"type": "object"}).parse_arguments(answer)
    parts: dict[str, Any] = dict.fromkeys(questions, whole) if len(questions) == 1 else whole
    found: dict[str, dict[str, Any]] = {}
    for key, question in questions.items():
        try:
            form = usable(dict(getattr(question.params, "requested_schema", {})) or {"type": "object"})
        except UnfitSchema as unfit:
            raise BadArguments(f"{ANSWER}: the question cannot be answered: {unfit}.") from None
        found[key] = Arguments(ANSWER, form).parse_arguments(json.dumps(parts.get(key)))
    return found


async def responses_of(client: Client, inquiry: Inquiry, contents: dict[str, dict[str, Any]]) -> Responses:
    """Return the responses to a server: those of the person as given, the others from this program."""
    requests = inquiry.result.input_requests or {}
    others = {key: one for key, one in requests.items() if key not in contents}
    given = {
        key: types.ElicitResult.model_validate({"action": "accept", "content": content})
        for key, content in contents.items()
    }
    return {**await dispatch_requests(client, others), **given}
