"""Digests of conversations: what a client sends is compared with what sessions have, and found by it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from .....agent.session.secrets import SecretMasker, masker_for
from .....state.conversation.messages import UserContent, encodable
from .....state.lazy_dataclass import dataclass
from .contents import SentConversation
from .turns import digest_content, squeeze


@dataclass(frozen=True, slots=True)
class DigestedConversation:
    """A conversation with a new message, by its digests."""

    belonging: Sequence[str]
    """Whose conversation it is: the kind of API, the agent, the user, and the instructions."""
    asked: tuple[str, ...]
    """The digests of the messages of the user, the new one last."""
    answers: tuple[str, ...]
    masker: SecretMasker

    @property
    def opening(self) -> str:
        """The tag of all sessions whose conversations have this beginning."""
        return f"opening:{_digest_json([*self.belonging, self.asked[0]])}"

    @property
    def past(self) -> str:
        """The digest of the conversation before the new message."""
        return self._digest(self.answers)

    def digest_answered(self, answer: str) -> str:
        """Return the digest of the conversation with this answer to the new message."""
        return self._digest((*self.answers, _normalize_answer(self.masker, answer)))

    def digest_turns(self, count: int) -> str:
        """Return a digest of the first turns, whoever's conversation it is."""
        return _digest_json([*self.asked[:count], *self.answers[:count]])

    def _digest(self, answers: Sequence[str]) -> str:
        return _digest_json([*self.belonging, self.asked[: len(answers)], answers])


def digest_conversation(
    cwd: str, agent: str, user: str, sent: SentConversation, kind: str
) -> DigestedConversation:
    """Return a conversation by its digests, without secrets, as the store has it."""
    masker = masker_for(os.environ, Path(cwd))
    messages = (*(turn.content for turn in sent.turns), sent.message)
    asked = tuple(_digest_message(masker, message) for message in messages)
    answers = tuple(_normalize_answer(masker, turn.answer) for turn in sent.turns)
    return DigestedConversation((kind, agent, user, sent.instructions), asked, answers, masker)


def digest_message(cwd: str, content: UserContent) -> str:
    """Return the digest of a message as the store has it: without secrets."""
    return _digest_message(masker_for(os.environ, Path(cwd)), content)


def _digest_message(masker: SecretMasker, content: UserContent) -> str:
    parts = (content,) if isinstance(content, str) else content
    return digest_content([masker.text(encodable(part)) if isinstance(part, str) else part for part in parts])


def _normalize_answer(masker: SecretMasker, text: str) -> str:
    """Return an answer as it is compared: without secrets, with one space between words."""
    return squeeze(masker.text(encodable(text)))


def _digest_json(values: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]
