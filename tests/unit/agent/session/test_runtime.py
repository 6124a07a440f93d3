"""Opening sessions: what flags change, what is refused, what stays private."""

import os
import stat
from pathlib import Path

import pytest

from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.errors import ConfigError, SessionNotFound, UsageError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "SANDBUR_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def options(tmp_path: Path, **more: object) -> dict[str, object]:
    return {"model": "demo", "cwd": tmp_path, **more}


async def said_hello(tmp_path: Path, env: dict[str, str], **more: object) -> str:
    runtime = Runtime.open(options(tmp_path, **more), env)
    session = await runtime.create()
    _ = [event async for event in session.send("hello")]
    await runtime.aclose()
    return session.id


async def test_a_resumed_session_keeps_its_settings_until_flags_change_them(
    tmp_path: Path, env: dict[str, str]
) -> None:
    session_id = await said_hello(tmp_path, env, mode="yolo", deny=("run_shell_command(rm *)",))
    runtime = Runtime.open({}, env)
    kept = await runtime.resume(session_id)
    assert (kept.ports.model.name, kept.state.execution_mode) == ("demo", "yolo")
    assert kept.settings.deny == ("run_shell_command(rm *)",)
    await runtime.aclose()
    runtime = Runtime.open({"mode": "plan", "deny": ("write_file",)}, env)
    changed = await runtime.resume(session_id)
    assert changed.state.execution_mode == "plan"
    assert changed.settings.deny == ("run_shell_command(rm *)", "write_file")
    assert runtime.store.index.settings(session_id).deny == ("run_shell_command(rm *)",)
    _ = [event async for event in changed.send("hello")]
    assert runtime.store.index.settings(session_id) == changed.settings
    await runtime.aclose()


async def test_an_opened_but_unused_session_is_not_stored(tmp_path: Path, env: dict[str, str]) -> None:
    runtime = Runtime.open(options(tmp_path), env)
    await runtime.create()
    assert runtime.store.sessions() == []
    await runtime.aclose()


async def test_a_session_whose_folder_is_gone_says_so(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    session_id = await said_hello(folder, env)
    folder.rmdir()
    runtime = Runtime.open({}, env)
    with pytest.raises(UsageError, match="is gone"):
        await runtime.resume(session_id)
    with pytest.raises(SessionNotFound):
        await runtime.resume("nothing")
    await runtime.aclose()


async def test_a_wrong_model_in_the_configuration_is_a_configuration_error(
    tmp_path: Path, env: dict[str, str]
) -> None:
    runtime = Runtime.open({}, env | {"SANDBUR_MODEL": "nope/x"})
    with pytest.raises(ConfigError, match="configured model"):
        await runtime.create()
    await runtime.aclose()


async def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    runtime = Runtime.open(options(folder), env)
    with pytest.raises(UsageError, match="not UTF-8"):
        await runtime.create()
    await runtime.aclose()


async def test_an_open_data_folder_is_closed(tmp_path: Path, env: dict[str, str]) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    await said_hello(tmp_path, env)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
