"""What a session is apart from its state: its settings, and how it is listed."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

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
    ask: tuple[str, ...] = Field((), exclude_if=lambda rules: not rules)
    catastrophic: Literal["ask", "run"] = Field(default="ask", exclude=True)
    """As the user's own configuration says at this run: never stored, and never taken from what is stored."""
    network_tools: tuple[str, ...] = Field((), exclude_if=lambda tools: not tools)
    """Names of tools beside those of every session; fixed at its start, as all that a model is told."""
    mode: ExecutionMode = "interactive"
    """Of its beginning; the state tells the present one."""
    sandbox: SandboxWish = Field("off", exclude_if=lambda wish: wish == "off")
    allow_net: tuple[str, ...] = Field((), exclude_if=lambda domains: not domains)
    """Domains that commands in the sandbox may reach; `*`: all there is."""
    system_prompt: str = ""
    """Computed once, so that every request of the session starts with the same bytes."""
    imported_seq: int | None = Field(default=None, exclude_if=lambda seq: seq is None)
    """The last step that ran elsewhere, in a session that was imported."""

    def is_foreign_at(self, last_seq: int) -> bool:
        """Tell whether a session that stands after this step was imported, and went on nowhere since."""
        return self.imported_seq is not None and last_seq <= self.imported_seq

    @property
    def digest(self) -> str:
        """Return what the hash chain records of them: a field that comes to be later does not change it."""
        said = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


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
    is_foreign: bool = False
    """It was imported, and nobody has gone on with it here."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session as it is read beside its writer."""

    summary: SessionSummary
    settings: SessionSettings
    state: ApplicationState
    position: str | None
    """The action that ran last."""
