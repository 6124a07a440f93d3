"""`Agent.try_` runs in a copy; the folder changes only by `apply`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.samples.trial_folders import list_files

from sandbur import Agent, ModelRequest, workspace_tools
from sandbur.agent.review.trials.trial import TrialPlace, list_trials
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store

OLD, NEW = {"one.txt": "one\n"}, {"new/two.txt": "two\n", "one.txt": "ONE\n"}


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "one.txt").write_text("one\n")
    return folder


def write_files(request: ModelRequest) -> Any:
    if [result for message in request.messages for result in message.tool_results]:
        return "done"
    return [
        ToolCall("write_file", path="one.txt", content="ONE\n"),
        ToolCall("write_file", path="new/two.txt", content="two\n"),
    ]


def make_agent(store: TemporaryStore, workspace: Path, **options: Any) -> Agent[str]:
    chosen = {"mode": "auto-edit", "env": store.env, **options}
    return Agent(
        ScriptedModel(write_files), tools=workspace_tools(), store=store.url, cwd=workspace, **chosen
    )


async def test_the_folder_changes_only_by_apply(store: TemporaryStore, workspace: Path) -> None:
    agent = make_agent(store, workspace)
    trial = await agent.try_("go")
    assert (trial.result.output, trial.result.status, trial.result.session_id) == ("done", "done", trial.id)
    assert list_files(workspace) == OLD
    assert {(change.path.name, change.kind) for change in trial.difference} == {
        ("one.txt", "changed"),
        ("two.txt", "added"),
    }
    assert "+ONE" in next(change.diff for change in trial.difference if change.path.name == "one.txt")
    assert await trial.apply() == f"Applied the trial {trial.id}: 1 file added, 1 file changed."
    assert list_files(workspace) == NEW


async def test_a_conflict_raises_and_a_merge_joins_both_changes(
    store: TemporaryStore, workspace: Path
) -> None:
    (workspace / "one.txt").write_text("one\ntwo\nthree\n")

    def write(request: ModelRequest) -> Any:
        done = [result for message in request.messages for result in message.tool_results]
        return "done" if done else [ToolCall("write_file", path="one.txt", content="ONE\ntwo\nthree\n")]

    agent = Agent(
        ScriptedModel(write), tools=workspace_tools(), store=store.url, cwd=workspace, mode="auto-edit",
        env=store.env,
    )  # fmt: skip
    trial = await agent.try_("go")
    (workspace / "one.txt").write_text("one\ntwo\nTHREE\n")
    with pytest.raises(UsageError, match="it was changed since the trial began"):
        await trial.apply()
    await trial.apply(merge=True)
    assert list_files(workspace) == {"one.txt": "ONE\ntwo\nTHREE\n"}


async def test_a_dropped_trial_leaves_nothing(store: TemporaryStore, workspace: Path) -> None:
    trial = await make_agent(store, workspace).try_("go")
    await trial.drop()
    home = Path(store.env["SANDBUR_HOME"])
    assert [path for path in (home / "trials").iterdir() if path.name != "lock"] == []
    assert not home.with_name(f"{home.name}-copies").exists()
    with pytest.raises(UsageError, match="There is no trial"):
        await trial.apply()


async def test_deny_rules_hold_in_the_copy_and_for_the_apply(store: TemporaryStore, workspace: Path) -> None:
    rule = f"write_file({workspace}/new/**)"
    trial = await make_agent(store, workspace, deny=[rule]).try_("go")
    assert [change.path.name for change in trial.difference] == ["one.txt"]


async def test_a_folder_that_cannot_be_copied_runs_nothing(store: TemporaryStore, workspace: Path) -> None:
    (workspace / "large.bin").write_bytes(b"x" * 2_000_000)
    agent = make_agent(store, workspace)
    inside = make_agent(store, workspace, env={**store.env, "SANDBUR_HOME": str(workspace / "data")})
    with pytest.raises(UsageError, match="would take the records of Sandbur along"):
        await inside.try_("go")
    with pytest.raises(UsageError, match="`session_id`"):
        await agent.try_("go", session_id="s1")
    assert (workspace / "one.txt").read_text() == "one\n"


async def test_no_other_process_applies_or_drops_a_trial_while_the_agent_runs(
    store: TemporaryStore, workspace: Path
) -> None:
    seen: list[bool] = []

    def look(request: ModelRequest) -> Any:
        home = Path(store.env["SANDBUR_HOME"])
        seen.extend(TrialPlace(home, trial.id).is_in_use for trial in list_trials(home))
        return write_files(request)

    agent = Agent(
        ScriptedModel(look), tools=workspace_tools(), store=store.url, cwd=workspace, mode="auto-edit",
        env=store.env,
    )  # fmt: skip
    trial = await agent.try_("go")
    assert seen == [True, True]
    await trial.apply()
