"""Sessions of the command have memory unless it is off; a session keeps what it began with."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.models.scripted import collect
from support.places import PYTHONPATH

from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.session import SessionSettings

OFF, BOTH, STATIC = ({"SANDBUR_MEMORY": mode} for mode in ("off", "both", "static"))


@asynccontextmanager
async def opened(folder: Path, env: dict[str, str]) -> AsyncGenerator[Runtime]:
    own = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "data"), "PATH": os.environ["PATH"]}
    runtime = Runtime.open({"model": "demo", "cwd": folder}, {**own, **env})
    try:
        yield runtime
    finally:
        await runtime.aclose()


@pytest.mark.parametrize(("env", "has_tool"), [({}, True), (OFF, False), (BOTH, True), (STATIC, False)])
async def test_the_setting_chooses_the_tool_of_new_sessions(
    tmp_path: Path, env: dict[str, str], has_tool: bool
) -> None:
    async with opened(tmp_path, env) as runtime:
        session = await runtime.create()
        assert ("memory" in [spec.name for spec in session.offered.specs]) is has_tool


@pytest.mark.parametrize(("before", "after"), [({}, OFF), (BOTH, OFF), (STATIC, {}), (OFF, {})])
async def test_a_session_keeps_its_memory_when_the_setting_changes(
    tmp_path: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    async with opened(tmp_path, before) as runtime:
        session = await runtime.create()
        await collect(session.send("hello"))
        offered = session.offered.specs
    async with opened(tmp_path, after) as runtime:
        assert (await runtime.resume(session.id)).offered.specs == offered


def test_a_session_of_an_older_version_has_none_unless_somebody_set_it() -> None:
    older = SessionSettings.model_validate({"model": "demo", "cwd": "/"})
    assert older.memory == ""
    assert "memory" not in older.model_dump()


LOADED = """
import asyncio, json, sys
from sandbur.ui.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
wing = [name for name in sys.modules if "knowledge.memory." in name]
print(json.dumps([wing, [name for name in sys.modules if "state.memory" in name]]), file=sys.stderr)
"""


def list_loaded(folder: Path, **more: str) -> tuple[list[str], list[str], int]:
    """Return the modules of the wing, those with its queries, and the tokens of a hello."""
    env = {
        "PYTHONPATH": PYTHONPATH,
        "HOME": str(folder),
        "SANDBUR_HOME": str(folder),
        "PATH": os.environ["PATH"],
    }
    line = [sys.executable, "-c", LOADED, "-p", "hi", "-m", "demo", "--output-format", "json"]
    done = subprocess.run(
        line, env=env | more, cwd=folder, capture_output=True, text=True, timeout=240, check=True
    )
    wing, queries = json.loads(done.stderr.splitlines()[-1])
    return wing, queries, json.loads(done.stdout.splitlines()[-1])["usage"]["input_tokens"]


def test_memory_that_is_off_costs_nothing_and_a_hello_opens_none(tmp_path: Path) -> None:
    wing, queries, tokens = list_loaded(tmp_path, SANDBUR_MEMORY="off")
    assert (wing, queries) == ([], [])
    wing, queries, more = list_loaded(tmp_path)
    assert queries == []
    assert sorted(name.rpartition(".")[2] for name in wing) == ["memory_runtime", "memory_tool", "page_file"]
    assert 200 < more - tokens < 450
