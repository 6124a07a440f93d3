"""What a session is apart from its state: its settings, and how it is listed."""

from dataclasses import dataclass
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from .application import ApplicationState, ExecutionMode
from .messages import Record


class SessionSettings(Record):
    """What a session keeps until flags change it."""

    model: str
    cwd: str
    add_dirs: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    network_tools: tuple[str, ...] = ()
    """Names of tools beside those of every session; fixed at its start, as all that a model is told."""
    mode: ExecutionMode = "interactive"
    """Of its beginning; the state tells the present one."""
    system_prompt: str = ""
    """Computed once, so that every request of the session starts with the same bytes."""

    @model_serializer(mode="wrap")
    def _sparing(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what sessions of earlier versions did not have."""
        stored = fields(self)
        return stored if self.network_tools else {k: v for k, v in stored.items() if k != "network_tools"}


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
