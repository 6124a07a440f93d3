"""The options of a session in an editor's panel: its mode and its model."""

from collections.abc import Iterator, Sequence

from acp.schema import SessionConfigOptionSelect, SessionConfigSelectOption, SessionMode, SessionModeState

from ...agent.runtime.runtime import Runtime
from ...agent.session.session import Session
from ...state.application import ExecutionMode
from ..terminal.text.sanitize import one_line

MODE, MODEL = "mode", "model"
_MOST_MODELS = 30
_MOST_SESSIONS = 50
"""The number of newest sessions that are searched for models that were used before."""
_MODES: dict[ExecutionMode, tuple[str, str]] = {
    "interactive": ("Ask", "only reading inside the workspace needs no question"),
    "plan": ("Plan", "looks inside the workspace, changes nothing"),
    "auto-edit": ("Edit", "file edits inside the workspace pass too"),
    "yolo": ("Yolo", "everything passes, except what a deny rule names"),
}


def mode_state(current: str, offered: Sequence[ExecutionMode]) -> SessionModeState:
    listed = [
        SessionMode(id=mode, name=name, description=meaning)
        for mode, (name, meaning) in _MODES.items()
        if mode in offered
    ]
    return SessionModeState(current_mode_id=current, available_modes=listed)


def config_options(
    runtime: Runtime, session: Session, modes: SessionModeState
) -> list[SessionConfigOptionSelect]:
    """Return the options with their current values; editors that support them ignore the list of modes."""
    model = session.settings.model
    return [
        SessionConfigOptionSelect(
            type="select",
            id=MODE,
            name="Mode",
            category="mode",
            description="What runs without a question",
            current_value=modes.current_mode_id,
            options=[_option(one.id, one.name, one.description or "") for one in modes.available_modes],
        ),
        SessionConfigOptionSelect(
            type="select",
            id=MODEL,
            name="Model",
            category="model",
            description="Which model answers from the next message on",
            current_value=model,
            options=[_option(name, one_line(name), about) for name, about in _models(runtime, model).items()],
        ),
    ]


def _option(value: str, name: str, about: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(value=value, name=name, description=one_line(about) or None)


def _models(runtime: Runtime, current: str) -> dict[str, str]:
    """Return the current model, those of the settings and of earlier sessions, each with a description."""
    found = {current: "the model of this session"}
    for name, about in _check_known(runtime):
        if len(found) < _MOST_MODELS:
            found.setdefault(name, about)
    return found


def _check_known(runtime: Runtime) -> Iterator[tuple[str, str]]:
    settings = runtime.settings
    if settings.model is not None:
        yield settings.model, "as it is configured"
    yield from ((model, f"your name for it: {name}") for name, model in settings.aliases.items())
    yield from ((model, "stands in when another fails") for model in settings.fallback_models)
    yield from ((one.model, "used before") for one in runtime.store.sessions(most=_MOST_SESSIONS))
