"""What a session is apart from its state: its settings, and how it is listed."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from .application import ApplicationState, ExecutionMode
from .messages import Record

SandboxWish = Literal["auto", "required", "off"]


class SessionSettings(Record):
    """What a session keeps until flags change it."""

    model: str
    cwd: str
    add_dirs: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: ExecutionMode = "interactive"
    """Of its beginning; the state tells the present one."""
    sandbox: SandboxWish = "off"
    allow_net: tuple[str, ...] = ()
    """Domains that commands in the sandbox may reach; `*`: all there is."""
    system_prompt: str = ""
    """Computed once, so that every request of the session starts with the same bytes."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what came later and says nothing: older versions read these bytes, too."""
        idle = {
            name for name, value in (("sandbox", "off"), ("allow_net", ())) if getattr(self, name) == value
        }
        return {name: value for name, value in dump(self).items() if name not in idle}


@dataclass(frozen=True, slots=True)
class SessionSummary:
    id: str
    title: str
    cwd: str
    model: str
    status: str
    """As in the result of the last run, or `new`, `running`, or `interrupted` by its process's death."""
    created_at: str
    updated_at: str
    steps: int
    """Graph steps so far."""
    parent_id: str | None
    parent_seq: int | None
    wake_at: str = ""
    """When the run goes on by itself: UTC, ISO 8601; empty if it waits for nobody but a person."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as it is read beside its writer."""

    summary: SessionSummary
    settings: SessionSettings
    state: ApplicationState
    position: str | None
    """The action that ran last."""
