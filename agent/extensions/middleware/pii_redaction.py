"""Middleware that removes personal data from messages and tool results before the model reads them."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from ....actions.ports import ModelRequest, Reply, ToolOutcome
from ....state.conversation.messages import Block, Message, Text, ToolResult
from ....state.conversation.transcript import Transcript
from .middleware import FEATURE, Middleware, MiddlewareSession, NextModelCall, NextToolCall, ToolCallRequest

PersonalData = Literal["email", "phone", "card", "iban", "ssn", "ip"]


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    is_one: Callable[[str], bool] = bool
    """Returns whether a match of the pattern is such a value."""


def _is_card(text: str) -> bool:
    """Return whether the check digit of a card number is right (Luhn)."""
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return whether the check digits of an account number are right (ISO 13616)."""
    plain = text.replace(" ", "")
    number = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(number) % 97 == 1


_FORMS: Mapping[PersonalData, _Form] = {
    "email": _Form(re.compile(r"\b[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b")),
    "iban": _Form(re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), _is_iban),
    "card": _Form(re.compile(r"\b\d(?:[ -]?\d){12,18}\b"), _is_card),
    "ssn": _Form(re.compile(r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}\b")),
    "phone": _Form(re.compile(r"(?<![\w.])\+\d{1,3}[ -]?(?:\(\d{1,4}\)[ -]?)?\d(?:[ -]?\d){6,12}\b")),
    "ip": _Form(re.compile(r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b(?!\.)")),
}
_USUAL: tuple[PersonalData, ...] = ("email", "phone", "card", "iban", "ssn")
_MARK_CHARS = 4


class PIIRedaction(Middleware):
    """Replaces personal data by marks such as `[email 1f0c]`. Within a session, equal values have equal
    marks.

    Requests to the model and recorded tool results are redacted; the person's own messages are recorded
    unchanged. The model cannot pass a redacted value to a tool. Only values with a known format are found, so
    names and postal addresses are not.
    """

    priority = FEATURE + 80

    def __init__(self, *kinds: PersonalData) -> None:
        """Select the kinds to redact; without arguments, all but IP addresses (`ip`)."""
        if unknown := [kind for kind in kinds if kind not in _FORMS]:
            raise ValueError(f"unknown kind of personal data {unknown[0]!r}; known are {', '.join(_FORMS)}")
        self._forms = {kind: form for kind, form in _FORMS.items() if kind in (kinds or _USUAL)}
        self._redacted: dict[str, dict[int, tuple[Message, Message]]] = {}
        """Session id -> identity (`id`) of a message -> that message, and the redacted one that is sent in
        its place."""

    def on_stop(self, session: MiddlewareSession) -> None:
        self._redacted.pop(session.id, None)

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        histories = tuple(map(self._redact_history, request.histories))
        return await next(replace(request, histories=histories))

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        outcome = await next(call)
        content = self.redact(outcome.content)
        whole = outcome.full_output
        if whole is not None:
            whole = self.redact(whole.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        blocks = tuple(
            one.model_copy(update={"text": self.redact(one.text)}) if isinstance(one, Text) else one
            for one in outcome.blocks
        )
        return replace(outcome, content=content, full_output=whole, blocks=blocks)

    def redact(self, text: str) -> str:
        """Return the text with marks in place of the matches."""
        for kind, form in self._forms.items():
            text = form.pattern.sub(partial(self._mark, kind, form), text)
        return text

    def _mark(self, kind: str, form: _Form, found: re.Match[str]) -> str:
        value = found[0]
        if not form.is_one(value):
            return value
        digest = hashlib.sha256(f"{self.session.id}\0{value}".encode("utf-8", "surrogateescape"))
        return f"[{kind} {digest.hexdigest()[:_MARK_CHARS]}]"

    def _redact_history(self, history: Transcript) -> Transcript:
        found = list(self._redact_messages(history))
        changed = any(before is not after for before, after in zip(history, found, strict=True))
        return Transcript.of(*found) if changed else history

    def _redact_messages(self, history: Transcript) -> Iterable[Message]:
        known = self._redacted.setdefault(self.session.id, {})
        for message in history:
            if id(message) not in known:
                # The entry keeps the original message alive. So no other object can have the same `id`
                # as long as the entry exists.
                known[id(message)] = (message, self._redact_message(message))
            yield known[id(message)][1]

    def _redact_message(self, message: Message) -> Message:
        if message.origin == "model":
            return message
        text = message.for_model
        blocks = tuple(map(self._block_without, text.blocks))
        if blocks == text.blocks:
            return message
        # A new message, not a copy: a copy would keep the values that were computed from the old blocks.
        return Message(role=message.role, origin=message.origin, blocks=blocks)

    def _block_without(self, block: Block) -> Block:
        if isinstance(block, Text):
            return block.model_copy(update={"text": self.redact(block.text)})
        if isinstance(block, ToolResult):
            return block.model_copy(update={"content": self.redact(block.content)})
        return block
