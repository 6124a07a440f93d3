"""Facts, their scopes and their origin, with the checks of what a fact may contain."""

import hashlib
import re
import unicodedata
from functools import partial
from operator import is_
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..errors import UsageError

MOST_TEXT_BYTES = 16 * 1024
MOST_FACTS = 100_000
"""The most valid facts of one scope."""
MEMORIES = "/memories/"
_SHORT_ID_CHARS = 8
_MOST_PATH_CHARS = 255
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_FROZEN = ConfigDict(frozen=True, extra="forbid")

ScopeKind = Literal["user", "project", "agent"]
Origin = Literal["person", "model", "tool"]
FactState = Literal["valid", "superseded", "forgotten", "proposed", "rejected"]
"""A `proposed` fact waits for a person. Only a `valid` fact is found by searches and shown to a model."""
FACT_STATES: tuple[FactState, ...] = ("valid", "superseded", "forgotten", "proposed", "rejected")
ChangeKind = Literal[
    "added", "confirmed", "superseded", "forgotten", "restored", "moved", "imported", "proposed", "accepted",
    "rejected",
]  # fmt: skip


class FactScope(BaseModel):
    """For whom a fact holds. A query names exactly the scopes whose facts it may return."""

    model_config = _FROZEN

    kind: ScopeKind
    key: str = ""
    """The key of a project's root folder, the name of an agent, or the name of a user, which may be empty."""

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.kind != "user" and not self.key:
            raise ValueError(f"a scope of the kind {self.kind} needs a key")
        if _CONTROL.search(self.key):
            raise ValueError("the key of a scope may not contain control characters")
        return self

    def name_collection(self, tenant: str) -> str:
        """Return the collection in which the facts of this scope are searched for."""
        key = hashlib.blake2b(f"{tenant}\0{self.key}".encode(), digest_size=16).hexdigest()
        return f"facts:{self.kind}:{key}"


class Provenance(BaseModel):
    """Where a fact comes from. It stays when the session is deleted."""

    model_config = _FROZEN

    origin: Origin = "person"
    session_id: str = ""
    step: int | None = None
    call_id: str = ""
    """The tool call in which the fact was found, or the message: see `make_message_id`."""


class Fact(BaseModel):
    """One fact, as it is in the store."""

    model_config = _FROZEN

    id: str
    text: str
    kind: str = "fact"
    scope: FactScope
    path: str = ""
    """A virtual path below /memories, unique among the valid facts of a scope; empty if it has none."""
    provenance: Provenance = Provenance()
    created_at: str
    confirmed_at: str
    state: FactState = "valid"
    superseded_by: str | None = None
    derived_from: tuple[str, ...] = ()
    """The ids of the facts from which it was derived."""
    corrects: str | None = Field(default=None, exclude_if=partial(is_, None))
    """The fact that a proposal is to replace; None: it is to be added."""

    @field_validator("id", "superseded_by", "corrects")
    @classmethod
    def _check_id(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
            raise ValueError("an id has 1 to 64 letters, digits, - and _")
        return value


class FactChange(BaseModel):
    """What happened to a fact."""

    model_config = _FROZEN

    fact_id: str
    version: int
    """The number of the operation. All facts that one operation changed have the same number."""
    what: ChangeKind
    at: str
    actor: str
    """Who did it, such as the name of a person, or of a model."""
    cause: str
    """The fact for which the operation was asked for. Others went with it because they were derived."""
    reason: str = ""


_MESSAGE = re.compile(r"message:(\d{1,9})\.(\d{1,9})")


def make_message_id(log: int, position: int) -> str:
    """Return the `call_id` of a fact that was found in a message of a session."""
    return f"message:{log}.{position}"


def parse_message_id(call_id: str) -> tuple[int, int] | None:
    """Return the log and the position of the message that a `call_id` names; None if it names a call."""
    found = _MESSAGE.fullmatch(call_id)
    return None if found is None else (int(found[1]), int(found[2]))


def shorten_id(fact_id: str) -> str:
    """Return the start of an id, by which people name a fact."""
    return fact_id[:_SHORT_ID_CHARS]


def check_text(text: str) -> str:
    """Return the text of a fact without spaces around it. Raises `UsageError` if it is not valid."""
    text = text.strip()
    if not text:
        raise UsageError("A fact needs a text.", "Say what is to be remembered.")
    if found := _CONTROL.search(text):
        raise UsageError(
            f"The text of a fact contains the control character U+{ord(found[0]):04X}.",
            "Remove it.",
        )
    if (size := len(text.encode())) > MOST_TEXT_BYTES:
        raise UsageError(
            f"A fact may have {MOST_TEXT_BYTES:,} bytes, but this one has {size:,}.", "Split or shorten it."
        )
    return text


def check_kind(kind: str) -> str:
    """Return the kind of a fact. Raises `UsageError` if it is not valid."""
    if not _KIND.fullmatch(kind):
        raise UsageError(
            f"{kind[:60]!r} is not a kind of facts.", "Use up to 32 small letters, digits, - and _."
        )
    return kind


def check_path(path: str) -> str:
    """Return a virtual path, or nothing for none. Raises `UsageError` if it is not valid."""
    if not path:
        return ""
    parts = path.split("/")
    is_below = path.startswith(MEMORIES) and all(map(_is_name, parts[2:]))
    if not is_below or _CONTROL.search(path) or "\\" in path or "\n" in path or "\t" in path:
        raise UsageError(
            f"{path[:80]!r} is not a path of a fact.",
            "Write /memories/ and a name, such as /memories/tests.md.",
        )
    if len(path) > _MOST_PATH_CHARS:
        raise UsageError(
            f"The path of a fact may have {_MOST_PATH_CHARS} characters, but this one has {len(path)}.",
            "Shorten it.",
        )
    return path


def _is_name(part: str) -> bool:
    # A database may treat two names as one that differ in spaces at their end.
    return part == part.strip() and part not in ("", ".", "..")


def make_text_key(text: str) -> str:
    """Return a digest that is the same for texts that differ in case, spaces and the full stop only."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!")
    return hashlib.sha256(plain.encode()).hexdigest()[:40]
