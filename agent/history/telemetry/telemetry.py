"""The telemetry of one process. It is off by default, and its end takes seconds at most, even with a slow
collector."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....actions.ports import Masker, Tool
from ....state.errors import ConfigError
from ....state.process.installation import make_install_command
from ....state.session import SpawnedBy
from ...runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from .delivery import CLOSE_S, Channel, DeliveryErrors, end
from .telemetry_settings import SIGNALS, Signal, TelemetrySettings, telemetry_settings

if TYPE_CHECKING:
    from .session_telemetry import SessionTelemetry


class Telemetry:
    def __init__(self, settings: TelemetrySettings, env: Mapping[str, str]) -> None:
        """Start exporting. Raises `ImportError`, or `ValueError` for a setting that only OpenTelemetry
        checks."""
        self._has_content = settings.has_content
        self._channels: dict[Signal, Channel] = {
            signal: Channel(signal, settings.urls.get(signal, "")) for signal in SIGNALS
        }
        self._errors = DeliveryErrors(self._channels)
        try:
            from .exporters import observe_session, open_exporters

            self._observe = observe_session
            self._outlet, self._shutdowns = open_exporters(settings, self._channels, env)
        except (ImportError, ValueError):
            self._errors.end(())
            raise

    @classmethod
    def start(cls, env: Mapping[str, str]) -> Telemetry | None:
        """Start exporting if the environment asks for that, otherwise return None. Raises `ConfigError`."""
        settings = telemetry_settings(env)
        if settings is None:
            return None
        try:
            return cls(settings, env)
        except ImportError as missing:
            raise ConfigError(
                f"Telemetry is switched on, but {missing.name or 'OpenTelemetry'} is not installed.",
                f"Install it with: {make_install_command('otel')}",
            ) from None
        except ValueError as invalid:
            raise ConfigError(f"OpenTelemetry rejects its settings: {invalid}") from None

    def session(
        self,
        session_id: str,
        masker: Masker,
        spawned_by: SpawnedBy | None = None,
        tools: Mapping[str, Tool] | None = None,
    ) -> SessionTelemetry:
        """Return the observer of one session; `spawned_by` is set for a sub-agent, `tools` are the
        session's.
        """
        return self._observe(session_id, self._outlet, masker.text, self._has_content, spawned_by, tools)

    def close(self) -> str:
        """Send the remaining data within a few seconds; return a message for the person, or an empty text."""
        self._outlet.worker.end(CLOSE_S)
        return self._errors.end(end(self._channels, self._shutdowns))


class TelemetryRuntime(ExtensionRuntime):
    """Exports the runs of all sessions in a process."""

    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._telemetry: Telemetry | None = None

    def open_session(self, context: SessionContext) -> SessionAdditions:
        if self._telemetry is None:
            self._telemetry = Telemetry.start(self.process.env)
        if self._telemetry is None:
            return SessionAdditions()
        by = context.settings.spawned_by
        observer = self._telemetry.session(context.id, context.masker, by, context.tools)
        return SessionAdditions(observers=(observer,), middleware=observer.middleware)

    async def finish(self) -> str:
        """Send the remaining data to the collector; return the error, or an empty text."""
        telemetry, self._telemetry = self._telemetry, None
        return "" if telemetry is None else await asyncio.to_thread(telemetry.close)
