"""A tool call on its way from the model's wish to its result."""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_serializer,
    model_serializer,
    model_validator,
)

from .conversation.messages import Message, Record, ToolResult

Effect = Literal["read", "idempotent", "verifiable", "effect"]
"""What running a call twice would mean: nothing, nothing, checkable, unknown."""

Decision = Literal["undecided", "approved", "denied", "invalid"]
Origin = Literal["model", "person", "command"]
"""Who wants a call: a model, somebody who typed it, or a file whose command somebody typed."""
DecidedBy = Literal["policy", "rule", "person", "runtime", "hook"]


Settlement = Literal["done", "failed", "rerun", "check"]
"""It took effect; it did not, or not as it should; it may run once more; the model is to find out."""


class Recovery(Record):
    """What is known, and said, of a call that was running when its process died."""

    starts: int = 0
    """How often it had been started when this was found out or said; one more start voids it."""
    started_at: str = ""
    """UTC, ISO 8601; of the last start."""
    output: str = ""
    """What it had written until then, capped."""
    note: str = ""
    """What is known about its end, in one sentence."""
    settled_as: Settlement | None = None
    """What a person, or a check of its effect, says came of it."""
    settled_result: str = ""
    """What the person adds for the model."""


_NOT_LOST = Recovery()
_USUAL = {"reason": "", "edited": False, "kind": "approval"}
"""Of a call that is asked for: what the store need not say."""


class BoundFile(Record):
    """A file or folder that a call is about, as it was when the question about the call arose."""

    path: str
    """As the call names it."""
    real: str
    """Where that leads, all links followed."""
    file: str = ""
    """Device and inode; empty if there is nothing."""
    content: str = ""
    """SHA-256, where the content matters: it is replaced, or run. Empty: it does not, or is not there."""


class Binding(Record):
    """What a person's approval of a call rests on: once something of it is another, it is void."""

    call: str
    """SHA-256 of the tool's name and the exact arguments."""
    cwd: str
    """The working folder, all links followed."""
    concern: str
    """Why the gate asked."""
    files: tuple[BoundFile, ...] = ()


class HookSaid(Record):
    """What a hook of the configuration said of a call before it was proposed."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    """Empty: it leaves that to the gate. What it allows the gate may still refuse, or ask about."""
    reason: str = ""
    edited: bool = False
    """The arguments are the hook's."""


class PendingCall(Record):
    """One call of the active history's last message that has no result yet: the wish and its approval."""

    call_id: str
    tool: str
    arguments: str
    """The JSON text that runs: the model's, or the person's after an edit."""
    effect: Effect = "effect"
    decision: Decision = "undecided"
    """`invalid`: never runs; `reason` is the error the model gets."""
    reason: str = ""
    """Why it asks, was denied or is invalid."""
    decided_by: DecidedBy = "policy"
    edited: bool = False
    masked: bool = Field(default=False, exclude_if=lambda is_so: not is_so)
    """As in `ToolUse`."""
    binding: Binding | None = Field(default=None, exclude_if=lambda binding: binding is None)
    """Of a call that a person decides about. None: nobody has to, or it is from before there were any."""
    hook: HookSaid | None = Field(default=None, exclude_if=lambda said: said is None)
    """None: nothing was said."""
    origin: Origin = Field(default="model", exclude_if=lambda origin: origin == "model")
    """No message asks for what is not the model's."""

    kind: Literal["approval", "outcome_unknown"] = "approval"
    """What a decision is needed for: that it may run, or what came of it when the process died."""
    recovery: Recovery = _NOT_LOST
    """As nothing, for a call that no process died over. Stored as fields of the call."""

    @model_validator(mode="before")
    @classmethod
    def _take_in(cls, stored: Any) -> Any:
        if not isinstance(stored, dict) or "recovery" in stored:
            return stored  # pyright: ignore[reportUnknownVariableType]
        fields = cast(dict[str, Any], stored)
        found = {name: fields[name] for name in Recovery.model_fields if name in fields}
        wish = {name: value for name, value in fields.items() if name not in found}
        return {**wish, "recovery": found} if found else wish

    @model_serializer(mode="wrap")
    def _spread(self, fields: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        stored = fields(self)
        recovery = stored.pop("recovery")
        if info.context and self.recovery == _NOT_LOST:
            # Each step of a call would say once more that nothing is amiss with it.
            return {name: value for name, value in stored.items() if _USUAL.get(name) != value}
        return {**stored, **recovery}

    @field_serializer("arguments")
    def _refer(self, value: str, info: SerializationInfo) -> str:
        """Leave out in the store what the message that asks for the call says already."""
        return value if self.edited or self.origin != "model" or not info.context else ""


def arguments_digest(arguments: str) -> str:
    """Return the digest by which records name the arguments of a call."""
    return hashlib.sha256(arguments.encode()).hexdigest()


def recovering(call: PendingCall, **known: Any) -> PendingCall:
    """Return the call with more known, or said, of its recovery."""
    return call.model_copy(update={"recovery": call.recovery.model_copy(update=known)})


def restore_arguments(calls: tuple[PendingCall, ...], asked: Message | None) -> tuple[PendingCall, ...]:
    """Return stored calls with the arguments of the message that asked for them."""
    said = {use.call_id: use.arguments for use in asked.tool_uses} if asked is not None else {}
    return tuple(
        call
        if call.edited or call.origin != "model"
        else call.model_copy(update={"arguments": said.get(call.call_id, "")})
        for call in calls
    )


Move = Literal["proposed", "started", "finished"]
"""How far a call got. The journal also records who decided about it, as `decided`, which moves nothing."""


class JournaledCall(Record):
    """The last recorded move of a call."""

    call_id: str
    move: Move
    at: str
    """UTC, ISO 8601."""
    result: ToolResult | None = None
    """Set if `finished`."""
    starts: int = 0
    """How often it was started."""


class KeptResult(Record):
    """What is kept of a call that ended."""

    tool: str
    content: str
    """What the model was given."""
    output: bytes | None = None
    """All that the tool gave back, where `content` is a part of it."""
    output_bytes: int = 0
    """How much there was of that; with no `output`, it is not there any more."""


class CallDecision(Record):
    """What a person says about one pending call."""

    call_id: str
    approved: bool = False
    reason: str = ""
    arguments: str | None = None
    """New JSON arguments: the call runs with these instead."""
    settle: Settlement | None = None
    """Set for a call whose outcome is unknown; the fields above then say nothing."""
    result: str = ""
    """What the model reads about a call that is settled as done, failed or check."""
    by: str = ""
    """Who decided, for the record: user@host."""


HOOK_DECIDES = "a hook"
"""Who decided where a hook denies what a person was to be asked."""

VIRTUAL = "virtual:"
"""Begins the path of a file that is none of the disk, but of a back end."""


class FileChange(Record):
    """One file before and after a call. A link counts as a file whose content is its target."""

    path: str
    """Absolute, links on the way resolved; behind `virtual:` one that is none of the disk."""
    before: str | None
    """SHA-256 of the old content; None if there was no file, or if its content is not known."""
    before_mode: int | None
    """Permission bits, with those of `S_IFLNK` for a link; None if there was no file."""
    after: str | None
    """SHA-256 of the new content; None if the file is gone, or if its content is not known."""
    after_mode: int | None = None
    """As `before_mode`; None too if it is not known."""
    new_folders: int = 0
    """How many folders, from the file's own upwards, were not there before."""
    is_restorable: bool = True
    """False if it is not known well enough what was there before."""

    @property
    def is_virtual(self) -> bool:
        """Whether it is none of a file on the disk."""
        return self.path.startswith(VIRTUAL)


class Changed(NamedTuple):
    """What a call did to files; the second argument of a cancellation whose call knows it."""

    changes: tuple[FileChange, ...] = ()
    pre_images: Mapping[str, bytes] = MappingProxyType({})
    """SHA-256 -> content that `changes` replaced."""


UNCHANGED = Changed()
