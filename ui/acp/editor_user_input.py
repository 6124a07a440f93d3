"""Asks the person at an editor what a running tool or a tool server wants to know.

Editors that support elicitation show a form; others show the choices as the options of a permission request.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acp import RequestError, text_block, tool_content
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeclineElicitationResponse,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationUrlSessionMode,
    PermissionOption,
    ToolCallUpdate,
)
from pydantic import ValidationError

from ...actions.ports.user_input import UserAnswer, UserQuestion
from ..terminal.text.form_fields import fields_of
from ..terminal.text.sanitize import one_line, plain

if TYPE_CHECKING:
    from acp import Client

_ANSWER = "answer"
_NO_FORM = "This editor shows no forms: only questions with a few choices can be asked here."
_DECLINES = "decline"
_MOST_CHOICES = 20


class EditorInput:
    """A `UserInput` for one session of an editor."""

    def __init__(self, client: Client, capabilities: ClientCapabilities | None) -> None:
        self._client = client
        supported = None if capabilities is None else capabilities.elicitation
        self._shows_forms = supported is not None and supported.form is not None
        self._shows_addresses = supported is not None and supported.url is not None
        self.session_id = ""

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Send the question to the editor and wait; it is cancelled with the run."""
        try:
            if question.url:
                return await self._ask_visit(question)
            if self._shows_forms:
                return await self._ask_form(question)
            return await self._ask_choice(question)
        except ValidationError:
            return UserAnswer("cancel", "The editor cannot show a form of this kind.")
        except (RequestError, ConnectionError):
            return UserAnswer("cancel", "The editor did not ask.")

    async def _ask_form(self, question: UserQuestion) -> UserAnswer:
        schema = ElicitationSchema.model_validate(question.schema or _schema_of(question.choices))
        mode = ElicitationFormSessionMode(session_id=self.session_id, requested_schema=schema)
        answer = await self._client.create_elicitation(_message_of(question), mode)
        if not isinstance(answer, AcceptElicitationResponse):
            return _without_answer(answer)
        content = answer.content or {}
        if question.schema:
            return UserAnswer(content=content)
        return UserAnswer(text=str(content.get(_ANSWER, "")))

    async def _ask_visit(self, question: UserQuestion) -> UserAnswer:
        if not self._shows_addresses:
            about = f"{_message_of(question)}\n\n{one_line(question.url)}"
            picked = await self._ask_permission(about, ["I have been there"])
            return picked if isinstance(picked, UserAnswer) else UserAnswer()
        mode = ElicitationUrlSessionMode.model_validate(
            {"sessionId": self.session_id, "elicitationId": uuid.uuid4().hex, "url": question.url}
        )
        answer = await self._client.create_elicitation(_message_of(question), mode)
        return UserAnswer() if isinstance(answer, AcceptElicitationResponse) else _without_answer(answer)

    async def _ask_choice(self, question: UserQuestion) -> UserAnswer:
        """Ask with a permission request, for one of a few answers or for the only value of a form."""
        fields = fields_of(question.schema)
        if not question.schema:
            choices = [(choice, choice) for choice in question.choices]
        elif len(fields) == 1 and fields[0].kind == "boolean":
            choices = [("y", "Yes"), ("n", "No")]
        elif len(fields) == 1 and fields[0].kind != "array":
            choices = list(zip(fields[0].choices, fields[0].labels, strict=True))
        else:
            choices = []
        if not 0 < len(choices) <= _MOST_CHOICES:
            return UserAnswer("cancel", _NO_FORM)
        picked = await self._ask_permission(_message_of(question), [label for _, label in choices])
        if isinstance(picked, UserAnswer):
            return picked
        value = choices[picked][0]
        if fields:
            return UserAnswer(content={fields[0].name: fields[0].parse(value)})
        return UserAnswer(text=value)

    async def _ask_permission(self, text: str, labels: Sequence[str]) -> int | UserAnswer:
        """Return the number of the label that the person picked, or why there is none."""
        options = [
            PermissionOption(option_id=str(number), name=one_line(label), kind="allow_once")
            for number, label in enumerate(labels)
        ]
        options.append(PermissionOption(option_id=_DECLINES, name="No answer", kind="reject_once"))
        name, heading = f"question-{uuid.uuid4().hex}", one_line(text.partition("\n")[0])
        asked = ToolCallUpdate(
            tool_call_id=name,
            title=heading,
            kind="other",
            status="pending",
            content=[tool_content(text_block(text))],
        )
        response = await self._client.request_permission(self.session_id, asked, options)
        if not isinstance(response.outcome, AllowedOutcome):
            return UserAnswer("cancel")
        picked = response.outcome.option_id
        return int(picked) if picked.isdecimal() and int(picked) < len(labels) else UserAnswer(_DECLINES)


def _message_of(question: UserQuestion) -> str:
    who = f"{one_line(question.asked_by)}: " if question.asked_by else ""
    return f"{who}{plain(question.text)}"


def _schema_of(choices: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a form for a text."""
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    if choices:
        answer["enum"] = list(choices)
    return {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}


def _without_answer(answer: object) -> UserAnswer:
    return UserAnswer("decline" if isinstance(answer, DeclineElicitationResponse) else "cancel")
