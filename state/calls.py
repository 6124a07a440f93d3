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
"""What a second run of a call would mean. `read`: nothing. `idempotent`: nothing, if the key is the same.
`verifiable`: its effect can be checked. `effect`: unknown.
"""

Decision = Literal["undecided", "approved", "denied", "invalid"]
Origin = Literal["model", "person", "command", "tool", "flow", "plan"]
"""The requester of a call. `model`: a model. `person`: a person. `command`: a command file that a person
called. `tool`: the tool of a running call. `flow`: a flow that a message started. `plan`: a step of the plan,
whose sub-agent the call starts.
"""
DecidedBy = Literal["policy", "rule", "person", "runtime", "hook"]


Settlement = Literal["done", "failed", "rerun", "check"]
"""The way a call of unknown outcome is settled. `done`: it took effect. `failed`: it did not. `rerun`: it may
run again. `check`: the model must find out.
"""


class Recovery(Record):
    """The facts and the decision about a call that was running when its process died."""

    starts: int = 0
    """How many times the call had been started when this was recorded. Another start makes this record
    obsolete.
    """
    started_at: str = ""
    """The time of the last start: UTC, ISO 8601."""
    output: str = ""
    """The output of the call until the process died, shortened."""
    note: str = ""
    """One sentence about the end of the call."""
    settled_as: Settlement | None = None
    """The outcome that a person, or a check of the effect, determined; None if there is none yet."""
    settled_result: str = ""
    """A text that the person wrote for the model."""


_NO_RECOVERY = Recovery()
_DEFAULTS = {"reason": "", "edited": False, "kind": "approval"}
"""The values of a call that the store omits."""


class FingerprintedFile(Record):
    """The state of a file or folder of a call when the approval was requested."""

    path: str
    """The path in the form in which the call contains it."""
    real: str
    """The real path, with all links followed."""
    file: str = ""
    """The device and the inode; empty if there is no file."""
    content: str = ""
    """The SHA-256 of the content if the call replaces or runs it; otherwise empty."""


class ApprovalFingerprint(Record):
    """The data that a person's approval of a call depends on. If any of it changes, the approval is void."""

    call: str
    """The SHA-256 of the tool's name and its exact arguments."""
    cwd: str
    """The real path of the working folder."""
    concern: str
    """Why the gate asked for approval."""
    files: tuple[FingerprintedFile, ...] = ()


class HookVerdict(Record):
    """The verdict of a configured hook on a call before it was proposed."""

    decision: Literal["", "allow", "ask", "deny"] = ""
    """The verdict of the hook; empty if the gate decides. The gate may still refuse a call that the hook
    allows, or ask about it.
    """
    reason: str = ""
    edited: bool = False
    """Whether the hook changed the arguments."""


class SubAgentCall(Record):
    """Where a call of a sub-agent waits."""

    session_id: str
    """The session of the sub-agent whose own call it is."""
    call_id: str
    """Its id in that session."""
    agents: tuple[str, ...]
    """The names of the agents from the first sub-agent of this session down to the one that waits."""


class PendingCall(Record):
    """A call that has no result yet, with its proposal and its approval. The last message of the active
    history requests it.
    """

    call_id: str
    tool: str
    arguments: str
    """The JSON text that the call runs with: from the model, or from the person after an edit."""
    effect: Effect = "effect"
    decision: Decision = "undecided"
    """The decision. `invalid` means that the call never runs; `reason` is the error for the model."""
    reason: str = ""
    """Why the gate asks, or why the call was denied or is invalid."""
    decided_by: DecidedBy = "policy"
    edited: bool = False
    masked: bool = Field(default=False, exclude_if=not_)
    """Whether a secret was masked, as in `ToolUse`."""
    binding: ApprovalFingerprint | None = Field(default=None, exclude_if=partial(is_, None))
    """The fingerprint for the approval; None if the call needs no approval, and in older records."""
    hook: HookVerdict | None = Field(default=None, exclude_if=partial(is_, None))
    """The verdict of a hook; None if no hook gave one."""
    version: str = Field(default="", exclude_if=lambda version: not version)
    """The version that the tool's author set; empty if there is none."""
    preset: str = Field(default="", exclude_if=lambda preset: not preset)
    """A JSON object with the arguments that the tool's author fixed; empty if there are none."""
    origin: Origin = Field(default="model", exclude_if=lambda origin: origin == "model")
    """The requester of the call. If it is not a model, no message contains a `ToolUse` of the call."""

    plan_changes: str = Field(default="", exclude_if=not_)
    """How the plan that the call proposes differs from the one that a person approved before, one change a
    line; empty for other calls.
    """
    changes: str = Field(default="", exclude_if=not_)
    """The difference of files that the call would write, if its arguments do not show it. A long one is
    shortened.
    """

    kind: Literal["approval", "outcome_unknown"] = "approval"
    """What the decision is about: approval to run, or the outcome after a process died."""
    sub_agent: SubAgentCall | None = Field(default=None, exclude_if=partial(is_, None))
    """Set for a call that waits in the session of a sub-agent: it is decided here, and runs only there."""
    recovery: Recovery = _NO_RECOVERY
    """The facts about a started call whose process died; empty for other calls. Stored as fields of the call
    itself.
    """

    @property
    def parent_call_id(self) -> str:
        """Return the id of the call whose tool requests this call; empty if no tool requests it.

        The result of this call goes to that tool, and into no history.
        """
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
            # Without this, each step with the call would store the default values again.
            return {name: value for name, value in stored.items() if _DEFAULTS.get(name) != value}
        return {**stored, **recovery}

    @field_serializer("arguments")
    def _omit_known_arguments(self, value: str, info: SerializationInfo) -> str:
        """Omit arguments in the store if the message that requests the call contains them."""
        return value if self.edited or self.origin != "model" or not info.context else ""


def digest_arguments(arguments: str) -> str:
    """Return the SHA-256 that records use for the arguments of a call."""
    return hashlib.sha256(arguments.encode()).hexdigest()


def nested_call_id(parent_call_id: str, number: int) -> str:
    """Return the id of a nested call; `number` counts from 1. No other call has an id with a slash."""
    return f"{parent_call_id}/{number}"


def relayed_call_id(task_call_id: str, call_id: str) -> str:
    """Return the id by which a session knows a waiting call of the sub-agent that its call started."""
    return f"{task_call_id}/{call_id}"


def parent_call_id_of(call_id: str) -> str:
    """Return the id of the call of this session that a nested or relayed call belongs to; empty: none."""
    head, slash, _ = call_id.partition("/")
    return head if slash else ""


def digest_request(tool: str, arguments: str) -> str:
    """Return the SHA-256 that identifies a nested call when its tool runs again."""
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
"""The progress of a call. The journal also records decisions, as `decided`, but these are not progress."""


class JournaledCall(Record):
    """The last recorded move of a call."""

    call_id: str
    move: Move
    at: str
    """The time of the move: UTC, ISO 8601."""
    result: ToolResult | None = None
    """The result; None unless the move is `finished`."""
    starts: int = 0
    """How many times the call was started."""


class NestedCall(Record):
    """A call that a tool requested while it ran, in its proposed form."""

    call: PendingCall
    requested: str
    """The digest of the tool's name and the arguments, as `digest_request` returns it."""


class KeptResult(Record):
    """The stored result of a call that ended."""

    tool: str
    content: str
    """The text that the model read."""
    output: bytes | None = None
    """The complete output of the tool, if `content` is only a part of it."""
    output_bytes: int = 0
    """The size of the complete output in bytes. If it is set without `output`, the output is lost."""


class CallDecision(Record):
    """A decision of a person about one pending call."""

    call_id: str
    approved: bool = False
    reason: str = ""
    arguments: str | None = None
    """The JSON arguments that replace those of the call; None to keep them."""
    settle: Settlement | None = None
    """The outcome of a call of unknown outcome; None for other calls. If it is set, the fields above do not
    count.
    """
    result: str = ""
    """The text for the model about a call that is settled as done, failed or check."""
    by: str = ""
    """The person who decided, as user@host."""


HOOK_DECIDES = "a hook"
"""The `by` of a decision if a hook denies a call for which a person would have been asked."""

SUB_AGENT_DECIDES = "a person at its sub-agent"
"""The `by` of a decision about a call of a sub-agent that was taken in the session of the sub-agent."""

NESTED_CALL_DECIDES = "its nested call"
"""The `by` of the decision that a call runs again because one of its nested calls needed a decision."""

VIRTUAL = "virtual:"
"""The start of the path of a file in a back end, which is not on the disk."""


class FileChange(Record):
    """The change of one file by a call. A link counts as a file whose content is its target."""

    path: str
    """The absolute path, with links in its folders resolved. It begins with `virtual:` for a file in a back
    end.
    """
    before: str | None
    """The SHA-256 of the old content; None if there was no file, or if the content is unknown."""
    before_mode: int | None
    """The permission bits; for a link also the bits of `S_IFLNK`. None if there was no file."""
    after: str | None
    """The SHA-256 of the new content; None if the file is gone, or if the content is unknown."""
    after_mode: int | None = None
    """Like `before_mode`, but for the new file; None also if it is unknown."""
    new_folders: int = 0
    """The number of the file's parent folders that are new."""
    is_restorable: bool = True
    """Whether the earlier state is known well enough to restore it."""

    @property
    def is_virtual(self) -> bool:
        """Return whether the file is in a back end, not on the disk."""
        return self.path.startswith(VIRTUAL)


class FileChanges(NamedTuple):
    """The changes that a call made in files. They are the second argument of a cancellation, if the call
    knows them.
    """

    changes: tuple[FileChange, ...] = ()
    pre_images: Mapping[str, bytes] = MappingProxyType({})
    """Maps a SHA-256 to the content that was replaced."""


NO_FILE_CHANGES = FileChanges()
