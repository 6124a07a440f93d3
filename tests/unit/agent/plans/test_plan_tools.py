"""New sessions of the command have the tool `propose_plan`. A session keeps the tools that it began with."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.plan_runs import Plans, step
from support.models.scripted import collect

from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.session.session import Session
from sandbur.state.session import SessionSettings

MOST_TOKENS = 3500
OFF = {"SANDBUR_PLAN_PROPOSALS": "0"}
BOTH = {"SANDBUR_PLAN_NOTEBOOK": "1"}
CHOICES: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({}, ("propose_plan",)),
    (OFF, ()),
    (BOTH, ("propose_plan", "plan")),
    ({**OFF, **BOTH}, ("plan",)),
]


@asynccontextmanager
async def opened(folder: Path, env: dict[str, str], mode: str = "interactive") -> AsyncGenerator[Runtime]:
    own = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "data"), "PATH": os.environ["PATH"]}
    runtime = Runtime.open({"model": "demo", "cwd": folder, "mode": mode}, {**own, **env})
    try:
        yield runtime
    finally:
        await runtime.aclose()


def list_plan_tools(session: Session) -> tuple[str, ...]:
    return tuple(spec.name for spec in session.offered.specs if spec.name in ("propose_plan", "plan"))


@pytest.mark.parametrize(("env", "tools"), CHOICES)
async def test_the_settings_choose_the_tools_of_new_sessions(
    tmp_path: Path, env: dict[str, str], tools: tuple[str, ...]
) -> None:
    async with opened(tmp_path, env) as runtime:
        session = await runtime.create()
        assert list_plan_tools(session) == session.settings.plan_tools == tools


@pytest.mark.parametrize(("before", "after"), [({}, OFF), (OFF, {}), (OFF, BOTH), (BOTH, {})])
async def test_a_session_keeps_its_tool_list_when_the_settings_change(
    tmp_path: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    async with opened(tmp_path, before) as runtime:
        session = await runtime.create()
        await collect(session.send("hello"))
        offered = session.offered.specs
    async with opened(tmp_path, after) as runtime:
        resumed = await runtime.resume(session.id)
        assert resumed.offered.specs == offered
        assert not resumed.notices


def test_a_session_of_an_older_version_has_none_of_the_tools() -> None:
    older = SessionSettings.model_validate({"model": "demo", "cwd": "/"})
    assert older.plan_tools == ()
    assert "plan_tools" not in older.model_dump()


async def test_sub_agents_have_none_of_the_tools(tmp_path: Path) -> None:
    plans = Plans(tmp_path, (step("one", None), step("two", None)))
    async with plans.runtime() as runtime:
        session = await runtime.create()
        assert session.settings.plan_tools == ("propose_plan",)
        await collect(session.send("do it"))
        children = runtime.store.index.children_of(session.id, limit=5)
        found = [runtime.store.index.settings(child.id) for child in children]
    assert [(one.plan_tools, "propose_plan" in one.own_tools) for one in found] == [((), False)] * 2


async def test_only_sessions_that_begin_in_plan_mode_have_the_form_in_their_prompt(tmp_path: Path) -> None:
    form = "- budget: 20,000 tokens"
    for mode, env, expected in (("interactive", {}, False), ("plan", {}, True), ("plan", OFF, False)):
        async with opened(tmp_path, env, mode) as runtime:
            session = await runtime.create()
            assert (form in session.settings.system_prompt) is expected, (mode, env)


def test_the_prompt_and_the_tools_of_the_command_stay_below_3500_tokens(tmp_path: Path) -> None:
    ended = Command(tmp_path).run("-p", "x", "-m", "demo", "--output-format", "json")
    assert ended.result["usage"]["input_tokens"] < MOST_TOKENS
