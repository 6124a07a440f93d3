"""Reads the setting `hooks` and opens the hooks of each session in a process."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ....state.errors import ConfigError, SandburError
from ...config.paths import decode_text
from ...config.setting_reader import SettingReader, SettingValue
from ...config.sources import fit
from ...runtime.extension_runtime import ExtensionRuntime, SessionAdditions, SessionContext
from .declared import HookCommand, HooksConfiguration
from .hook_process import HookPlace
from .hooks import Hooks, HookSession


class HooksReader(SettingReader):
    """Reads `hooks`."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> list[HookCommand]:
        found = fit(HooksConfiguration, {"hooks": value}, source, lambda key: f"`{key}`", error)
        return cast(list[HookCommand], found.hooks)

    def resolve(self, values: Sequence[SettingValue]) -> tuple[HookCommand, ...]:
        return tuple(dict.fromkeys(hook for one in values for hook in one.value))

    def disclose(self, value: Sequence[HookCommand]) -> Iterator[str]:
        return (f"runs on {hook.event}: {hook.command}" for hook in value)


def parse_hooks(content: bytes, path: Path) -> tuple[list[HookCommand], list[str]]:
    """Return the hooks of a `hooks.json`, and an empty list of notices. Raises `ConfigError`.

    The file holds the table of events, alone or as the value of its only key `hooks`.
    """
    try:
        values = json.loads(decode_text(content, path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.", "Correct it.") from None
    table = cast(dict[str, Any], values) if isinstance(values, dict) else {"hooks": values}
    whole = table if list(table) == ["hooks"] else {"hooks": table}
    return HooksReader().check(whole["hooks"], str(path), ConfigError), []


class HooksRuntime(ExtensionRuntime):
    """Adds the configured hooks to each session."""

    def open_session(self, context: SessionContext) -> SessionAdditions:
        if not context.has_model:
            return SessionAdditions()
        place = HookPlace(Path(context.settings.cwd), context.scratch, context.withheld)
        hooks = Hooks(
            self.process.settings.of("hooks"),
            HookSession(context.id, place, context.masker.text, context.tools),
        )
        return SessionAdditions(observers=(hooks,), hooks=hooks, on_open=hooks.begin_session)
