"""A tool call from the proposal of the model to its result."""

import hashlib
from collections.abc import Mapping
from functools import partial
from operator import is_, not_
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
"""What running a call twice would mean. `read`: nothing; `idempotent`: nothing, with the same key;
`verifiable`: its effect can be checked; `effect`: unknown."""

Decision = Literal["undecided", "approved", "denied", "invalid"]
Origin = Literal["model", "person", "command", "tool", "flow"]
"""Who requests a call: a model, a person, a command file that a person called, a running call of a tool, or a
flow that a message started."""
DecidedBy = Literal["policy", "rule", "person", "runtime", "hook"]


Settlement = Literal["done", "failed", "rerun", "check"]
"""How a call of unknown outcome is settled. `done`: it took effect; `failed`: it did not; `rerun`: it may run
again; `check`: the model has to find out."""


class Recovery(Record):
    """What is known, and decided, about a call that was running when its process died."""

    starts: int = 0
    """How often the call had been started when this was recorded; another start makes this obsolete."""
    started_at: str = ""
    """Time of the last start: UTC, ISO 8601."""
    output: str = ""
    """What the call had written until then, shortened."""
    note: str = ""
    """What is known about the end of the call, in one sentence."""
    settled_as: Settlement | None = None
    """The outcome that a person, or a check of the effect, decided."""
    settled_result: str = ""
    """A text of the person for the model."""


_NO_RECOVERY = Recovery()
_DEFAULTS = {"reason": "", "edited": False, "kind": "approval"}
"""Values of a call that the store omits."""


class FingerprintedFile(Record):
    """A file or folder of a call, as it was when the approval was requested."""

    path: str
    """The path as the call writes it."""
    real: str
    """The real path, with all links followed."""
    file: str = ""
    """Device and inode; empty if nothing is there."""
    content: str = ""
    """SHA-256 where the content matters (it is replaced or run); otherwise empty."""


class ApprovalFingerprint(Record):
    """What a person's approval of a call depends on: the approval is void once any of it changes."""

    call: str
    """SHA-256 of the tool's name and its exact arguments."""
    cwd: str
    """The real path of the working folder."""
    concern: str
    """Why the gate asked for approval."""
    files: tuple[FingerprintedFile, ...] = ()


class HookVerdict(Record):
    """The verdict of a configured hook on a call before it was proposed."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    """Empty: the gate decides. The gate may still refuse a call that the hook allows, or ask about it."""
    reason: str = ""
    edited: bool = False
    """True if the hook changed the arguments."""


class PendingCall(Record):
    """A call of the active history's last message without a result: the proposal and its approval."""

    call_id: str
    tool: str
    arguments: str
    """The JSON text that runs: from the model, or from the person after an edit."""
    effect: Effect = "effect"
    decision: Decision = "undecided"
    """`invalid`: the call never runs; `reason` is the error for the model."""
    reason: str = ""
    """Why the gate asks, or why the call was denied or is invalid."""
    decided_by: DecidedBy = "policy"
    edited: bool = False
    masked: bool = Field(default=False, exclude_if=not_)
    """True if a secret was masked, as in `ToolUse`."""
    binding: ApprovalFingerprint | None = Field(default=None, exclude_if=partial(is_, None))
    """Set for a call that needs approval; None otherwise, and in older records."""
    hook: HookVerdict | None = Field(default=None, exclude_if=partial(is_, None))
    """None if no hook gave a verdict."""
    version: str = Field(default="", exclude_if=lambda version: not version)
    """The version of the tool, if its author gives one."""
    preset: str = Field(default="", exclude_if=lambda preset: not preset)
    """JSON object of the arguments that the tool's author fixed; empty if there are none."""
    origin: Origin = Field(default="model", exclude_if=lambda origin: origin == "model")
    """For a call that no model requested, there is no message with a `ToolUse`."""

    kind: Literal["approval", "outcome_unknown"] = "approval"
    """What the decision is about: approval to run, or the outcome after a process died."""
    recovery: Recovery = _NO_RECOVERY
    """Empty for a call that no process died over. Stored as fields of the call itself."""

    @property
    def parent_call_id(self) -> str:
        """The call whose tool requests this one; its result goes to that tool and into no history. Empty:
        there is none."""
        return parent_call_id_of(self.call_id)

    @model_validator(mode="before")
    @classmethod
    def _group_recovery(cls, stored: Any) -> Any:
        if not isinstance(stored, dict) or "recovery" in stored:
            return stored  # pyright: ignore[reportUnknownVariableType]
        fields = cast(dict[str, Any], stored)
        found = {name: fields[name] for name in Recovery.model_fields if name in fields}
        wish = {name: value for name, value in fields.items() if name not in found}
        return {**wish, "recovery": found} if found else wish

    @model_serializer(mode="wrap")
    def _flatten_recovery(
        self, fields: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        stored = fields(self)
        recovery = stored.pop("recovery")
        if info.context and self.recovery == _NO_RECOVERY:
            # Without this, each step of a call would store the default values again.
            return {name: value for name, value in stored.items() if _DEFAULTS.get(name) != value}
        return {**stored, **recovery}

    @field_serializer("arguments")
    def _omit_known_arguments(self, value: str, info: SerializationInfo) -> str:
        """Omit arguments in the store that are in the message that requests the call."""
        return value if self.edited or self.origin != "model" or not info.context else ""


def digest_arguments(arguments: str) -> str:
    """Return the SHA-256 by which records name the arguments of a call."""
    return hashlib.sha256(arguments.encode()).hexdigest()


def nested_call_id(parent_call_id: str, number: int) -> str:
    """Return the id of a nested call; `number` counts from 1. No other call has an id with a slash."""
    return f"{parent_call_id}/{number}"


def parent_call_id_of(call_id: str) -> str:
    """Return the id of the call whose tool requested this call; empty if no tool did."""
    return call_id.rpartition("/")[0]


def digest_request(tool: str, arguments: str) -> str:
    """Return the SHA-256 by which a nested call is recognized when its tool runs again."""
    return digest_arguments(f"{tool}\n{arguments}")


def update_recovery(call: PendingCall, **known: Any) -> PendingCall:
    """Return the call with some fields of its recovery replaced."""
    return call.model_copy(update={"recovery": call.recovery.model_copy(update=known)})


def restore_arguments(calls: tuple[PendingCall, ...], asked: Message | None) -> tuple[PendingCall, ...]:
    """Return stored calls with the arguments from the message that requested them."""
    requested = {use.call_id: use.arguments for use in asked.tool_uses} if asked is not None else {}
    return tuple(
        call
        if call.edited or call.origin != "model"
        else call.model_copy(update={"arguments": requested.get(call.call_id, "")})
        for call in calls
    )


Move = Literal["proposed", "started", "finished"]
"""The progress of a call. The journal also records decisions as `decided`, which is no progress."""


class JournaledCall(Record):
    """The last recorded move of a call."""

    call_id: str
    move: Move
    at: str
    """UTC, ISO 8601."""
    result: ToolResult | None = None
    """Set for `finished`."""
    starts: int = 0
    """How often the call was started."""


class NestedCall(Record):
    """A call that a tool requested while it ran, as it was proposed."""

    call: PendingCall
    requested: str
    """The digest of the tool's name and the arguments, as `digest_request` returns it."""


class KeptResult(Record):
    """The stored result of a call that ended."""

    tool: str
    content: str
    """What the model read."""
    output: bytes | None = None
    """The complete output of the tool, if `content` is only a part of it."""
    output_bytes: int = 0
    """The size of the complete output; without `output`, the output is lost."""


class CallDecision(Record):
    """A decision of a person about one pending call."""

    call_id: str
    approved: bool = False
    reason: str = ""
    arguments: str | None = None
    """New JSON arguments, which replace those of the call."""
    settle: Settlement | None = None
    """Set for a call with an unknown outcome; then the fields above do not count."""
    result: str = ""
    """The text for the model about a call that is settled as done, failed or check."""
    by: str = ""
    """Who decided: user@host."""


HOOK_DECIDES = "a hook"
"""The `by` of a decision where a hook denies a call that a person would have been asked about."""

NESTED_CALL_DECIDES = "its nested call"
"""The `by` of the decision that a call runs again because one of its nested calls needed a decision."""

VIRTUAL = "virtual:"
"""The start of the path of a file in a back end, which is not on the disk."""


class FileChange(Record):
    """The change of one file by a call. A link counts as a file whose content is its target."""

    path: str
    """Absolute, with links in its folders resolved; begins with `virtual:` for a file in a back end."""
    before: str | None
    """SHA-256 of the old content; None if there was no file, or if the content is unknown."""
    before_mode: int | None
    """Permission bits, for a link with those of `S_IFLNK`; None if there was no file."""
    after: str | None
    """SHA-256 of the new content; None if the file is gone, or if the content is unknown."""
    after_mode: int | None = None
    """As `before_mode`; None also if it is unknown."""
    new_folders: int = 0
    """How many of the file's parent folders are new."""
    is_restorable: bool = True
    """False if the earlier state is not known well enough to restore it."""

    @property
    def is_virtual(self) -> bool:
        """True if the file is in a back end, not on the disk."""
        return self.path.startswith(VIRTUAL)


class FileChanges(NamedTuple):
    """What a call changed in files; the second argument of a cancellation, if the call knows it."""

    changes: tuple[FileChange, ...] = ()
    pre_images: Mapping[str, bytes] = MappingProxyType({})
    """SHA-256 -> the content that was replaced."""


NO_FILE_CHANGES = FileChanges()
