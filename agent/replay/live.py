"""The real parts of a walk: the session's model, or its calls run once more in its folder."""

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config import Settings
from agent.replay.recording import read_recording
from agent.replay.today import Live, LiveTools
from agent.secrets import masker_for
from agent.wiring import connect_models
from state.calls import PendingCall
from state.errors import UsageError
from state.session import SessionSettings
from state.store.store import Store


@asynccontextmanager
async def live_parts(
    parts: frozenset[str], settings: Settings, session: SessionSettings, env: Mapping[str, str]
) -> AsyncGenerator[Live]:
    """Connect what is to be real: `model`, `tools` or both; raises `UsageError` or `CredentialsError`."""
    with tempfile.TemporaryDirectory(prefix="sandbur-live-") as folder:
        model = connect_models(settings, session, env) if "model" in parts else None
        tools = _tools(session, env, Path(folder)) if "tools" in parts else None
        try:
            yield Live(model, tools)
        finally:
            if model is not None:
                await model.aclose()


def _tools(session: SessionSettings, env: Mapping[str, str], folder: Path) -> LiveTools:
    cwd = Path(session.cwd)
    if not cwd.is_dir():
        raise UsageError(f"The folder of this session, {cwd}, is gone, so no tool can run in it.")
    return LiveTools(masker_for(env, cwd), folder)


def started_calls(store: Store, session_id: str, from_seq: int | None) -> list[tuple[int, PendingCall]]:
    """Return the calls that a walk with real tools runs, each with its step."""
    first = -1 if from_seq is None else from_seq
    return [
        (moment.seq, call)
        for moment in read_recording(store, session_id).moments()
        if moment.seq > first and moment.run is not None
        for call in moment.before["pending_tool_calls"]
        if call.call_id in moment.started
    ]


def next_message(store: Store, session_id: str, seq: int) -> str | None:
    """Return what the person said in the step behind `seq`, if that is where a turn begins."""
    for moment in read_recording(store, session_id).moments():
        if moment.seq == seq + 1 and moment.action == "prompt":
            return str(moment.after["user_input"])
    return None
