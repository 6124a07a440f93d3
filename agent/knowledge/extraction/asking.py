"""Asks a model for the facts in a chunk: in a session of its own, which is recorded and resumed like any."""

from __future__ import annotations

import uuid
from typing import NamedTuple, cast

from ....actions.turn.output.types import TypedOutput, output_format_of
from ....state.application import ApplicationState
from ....state.session import SessionSettings, SpawnedBy
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ProcessContext
from ...session.run_limits import Limits
from ...session.session import Session
from ..recorded_request import RequestFailed, ask_once, make_settings
from .extracted_facts import INSTRUCTIONS, ExtractedFacts

AGENT = "extraction"
"""The name of the agent whose sessions find facts."""
END = "extraction_end"
"""The variable of such a session with the number of the first record after its chunk."""
_LIMITS = Limits(6, timeout_s=300)
"""The most model calls and the most time of one such session. It may ask again for the form of the answer."""
_NAMESPACE = uuid.UUID("5b0f1b8e-6a0c-4f43-9d1e-7c54f2b7a9d1")


class ExtractionRequest(NamedTuple):
    """What a model is asked about a chunk."""

    text: str
    end: int
    """The number of the first record after the chunk."""
    step: int
    """The newest step of the source session in the chunk."""


class ExtractionAnswer(NamedTuple):
    """The facts that a model found, and what it used."""

    facts: ExtractedFacts
    tokens: int


class ExtractionSession:
    """The session that finds facts in the records of another session from `first` on.

    Its id follows from that place, so that a later process finds the session that an earlier one began.
    """

    def __init__(
        self,
        process: ProcessContext,
        definition: Definition,
        source: SessionSettings,
        source_id: str,
        first: int,
    ) -> None:
        """`definition` is the agent of the session `source_id`, and `source` has its settings."""
        self.id = str(uuid.uuid5(_NAMESPACE, f"{source_id}:{first}"))
        self._process = process
        self._output: TypedOutput[ExtractedFacts] = output_format_of(ExtractedFacts)
        self._source, self._source_id, self._first = source, source_id, first
        named = process.settings_of_folder(process.settings.cwd).of("extraction_model")
        self._model: str = named or source.model
        own = definition.model
        self._definition = Definition(
            name=AGENT,
            overrides={"memory": "off", "memory_extraction": "off"},
            model=own if own is not None and own.name == self._model else None,
            has_builtin_tools=False,
            has_planning=False,
            output=self._output.format,
        )

    def find_end(self) -> int | None:
        """Return where the chunk ends, if an earlier process began to ask; None if none did."""
        index = self._process.store.index
        return int(index.settings(self.id).variables[END]) if index.exists(self.id) else None

    async def open(self) -> Session:
        """Open the session; a new one is stored with its request. Raises `SandburError`."""
        index = self._process.store.index
        is_stored = await self._process.store.database.offload(lambda: index.exists(self.id))
        settings = self._process.store.open_settings(self.id).settings if is_stored else self._make_settings()
        state = ApplicationState(execution_mode="interactive")
        session = await self._process.open_session(self.id, settings, state, self._definition, deps=None)
        session.limits = _LIMITS
        return session

    async def ask(self, session: Session, request: ExtractionRequest) -> ExtractionAnswer:
        """Return the facts that the model answers, or has answered before the process was killed.

        `request` is sent unless it was sent before. Raises `SandburError` if the run fails.
        """
        if not len(session.state.chat_history):
            by = cast("SpawnedBy", session.settings.spawned_by)
            what = f"facts in the records {self._first} to {request.end - 1}"
            place = by.model_copy(update={"sequence": request.step, "description": what})
            changes = {"variables": {END: str(request.end)}, "spawned_by": place}
            session.rules.settings = session.settings.model_copy(update=changes)
        end = await ask_once(session, request.text, "found no facts")
        if end.output is None:
            raise RequestFailed("The model found no facts: its answer has another form.")
        used = session.state.usage
        return ExtractionAnswer(
            self._output.parse(end.output), (used.input_tokens or 0) + (used.output_tokens or 0)
        )

    async def close(self, session: Session) -> None:
        await self._process.close_session(session)

    def _make_settings(self) -> SessionSettings:
        """Return the settings of a new session: those of the source, without tools and instructions."""
        by = SpawnedBy(session_id=self._source_id, sequence=0, call_id="", agents=(AGENT,))
        return make_settings(
            self._model,
            self._source.cwd,
            INSTRUCTIONS,
            by,
            output_schema=self._output.format.output_schema,
            strict_tools=self._source.strict_tools,
            app=self._source.app,
            user=self._source.user,
        )
