"""Hooks as the configuration declares them, in the schema that other agents use, too."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from ....state.lazy_dataclass import dataclass

HookEvent = Literal[
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
    "PermissionRequest", "PreCompact", "PostCompact", "Stop", "SubagentStart", "SubagentStop", "SessionEnd",
    "Notification",
]  # fmt: skip
HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
DEFAULT_TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class HookCommand:
    event: HookEvent
    matcher: str
    """A regular expression that has to match the whole subject of the event, such as a tool name. An empty
    text or `*` matches every subject."""
    command: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    blocks_on_failure: bool = False

    def matches(self, *names: str) -> bool:
        """Return whether the hook applies to one of these names, ignoring case."""
        if self.matcher in ("", "*"):
            return True
        return any(re.fullmatch(self.matcher, name, re.IGNORECASE) for name in names)

    @property
    def display_name(self) -> str:
        """Return the name of the hook in messages."""
        first = self.command.strip().partition("\n")[0]
        return first if len(first) <= _MAX_NAME_CHARS else f"{first[:_MAX_NAME_CHARS]}..."


_MAX_NAME_CHARS = 60
_MOST_COMMAND_CHARS = 16_384


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _CommandTable(_Table):
    type: Literal["command"] = "command"
    command: Annotated[str, StringConstraints(min_length=1, max_length=_MOST_COMMAND_CHARS)]
    timeout: float = Field(DEFAULT_TIMEOUT_S, gt=0, le=MAX_TIMEOUT_S)
    """The time limit in seconds."""
    onFailure: Literal["continue", "block"] = "continue"  # noqa: N815


def _check_pattern(matcher: str) -> str:
    try:
        re.compile("" if matcher == "*" else matcher)
    except re.error as error:
        raise ValueError(f"it is not a regular expression ({error.msg})") from None
    return matcher


class _GroupTable(_Table):
    matcher: Annotated[str, AfterValidator(_check_pattern)] = ""
    hooks: list[_CommandTable]


def _flat(tables: dict[HookEvent, list[_GroupTable]]) -> Any:
    return [
        HookCommand(event, group.matcher, one.command, one.timeout, one.onFailure == "block")
        for event, groups in tables.items()
        for group in groups
        for one in group.hooks
    ]


class HooksConfiguration(_Table):
    """The value of `hooks` in a configuration. The reader turns it into a list of `HookCommand`."""

    hooks: Annotated[dict[HookEvent, list[_GroupTable]], AfterValidator(_flat)]
