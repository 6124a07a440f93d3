"""`/try` without a screen: its actions, and what it refuses."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.samples.trial_folders import list_files, make_ended_trial
from support.screens.slash_desk import SlashDesk, environment, slash_desk

from sandbur.agent.review.trials.trial import TrialPlace, list_trials
from sandbur.ui.chat.slash.table import completions

OLD = {"one.txt": "a\nb\nc\n"}
NEW = {"new.txt": "new\n", "one.txt": "A\nb\nc\n"}


def change(copy: Path) -> None:
    (copy / "one.txt").write_text("A\nb\nc\n")
    (copy / "new.txt").write_text("new\n")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    return folder


@asynccontextmanager
async def try_desk(workspace: Path, **options: Any) -> AsyncGenerator[SlashDesk]:
    """Open a chat beside whose data folder there are no trials yet."""
    env = {**environment(workspace.parent), "LC_ALL": "C.UTF-8"}
    async with slash_desk(workspace, env=env, **options) as desk:
        yield desk


def type_all(workspace: Path, *lines: str, picks: tuple[str, ...] = (), **options: Any) -> str:
    """Type lines in a chat; return the output on one line."""

    async def run() -> str:
        async with try_desk(workspace, **options) as desk:
            make_ended_trial(desk.runtime.settings.home, workspace, change)
            desk.picks = list(picks)
            for line in lines:
                await desk.type(line)
            return " ".join(desk.read_output().split())

    return asyncio.run(run())


def test_apply_is_a_call_of_the_session_and_undo_takes_it_back(workspace: Path) -> None:
    async def run() -> None:
        async with try_desk(workspace) as desk:
            home = desk.runtime.settings.home
            make_ended_trial(home, workspace, change)
            desk.picks = ["y"]
            await desk.type("/try apply t1")
            assert list_files(workspace) == NEW
            assert [one.state for one in list_trials(home)] == ["applied"]
            assert desk.runtime.store.index.exists(desk.session.id)
            desk.picks = ["y"]
            await desk.type("/undo")
            assert list_files(workspace) == OLD
            desk.read_output()
            await desk.type("/try list")
            assert "ended" in desk.read_output()
            assert [one.state for one in list_trials(home)] == ["ended"]

    asyncio.run(run())


def test_a_part_that_was_taken_back_leaves_the_trial_applied(workspace: Path) -> None:
    async def run() -> None:
        async with try_desk(workspace) as desk:
            home = desk.runtime.settings.home
            make_ended_trial(home, workspace, change)
            desk.picks = ["y"]
            await desk.type("/try apply")
            (workspace / "new.txt").unlink()
            (workspace / "new.txt").mkdir()
            (workspace / "new.txt/inner").write_text("mine\n")
            desk.picks = ["y"]
            await desk.type("/undo")
            await desk.type("/try list")
            assert [one.state for one in list_trials(home)] == ["applied"]

    asyncio.run(run())


@pytest.mark.parametrize("pick", ["n", ""])
def test_apply_without_a_yes_writes_nothing(workspace: Path, pick: str) -> None:
    text = type_all(workspace, "/try apply", picks=(pick,))
    assert list_files(workspace) == OLD
    assert "Nothing was written. The changes are kept: /try apply t1" in text
    assert "2 files, +2 -1" in text


@pytest.mark.parametrize(
    ("pick", "after"),
    [("m", {**NEW, "one.txt": "A\nb\nmine\n"}), ("s", {**NEW, "one.txt": "a\nb\nmine\n"})],
)
def test_a_conflict_is_merged_or_left_out(workspace: Path, pick: str, after: dict[str, str]) -> None:
    async def run() -> None:
        async with try_desk(workspace) as desk:
            make_ended_trial(desk.runtime.settings.home, workspace, change)
            (workspace / "one.txt").write_text("a\nb\nmine\n")
            desk.picks = [pick]
            await desk.type("/try apply")
            assert "one.txt: it was changed since the trial began" in desk.read_output()

    asyncio.run(run())
    assert list_files(workspace) == after


def test_diff_shows_the_changes_without_control_characters(workspace: Path) -> None:
    (workspace / "one.txt").write_text("\x1b[31m\n")
    text = type_all(workspace, "/try diff")
    assert "\x1b" not in text
    assert "new: new.txt" in text
    assert "+A" in text


def test_drop_asks_and_removes_the_copy(workspace: Path) -> None:
    async def run() -> None:
        async with try_desk(workspace) as desk:
            home = desk.runtime.settings.home
            make_ended_trial(home, workspace, change)
            for key, is_there in (("n", True), ("y", False)):
                desk.picks = [key]
                await desk.type("/try drop t1")
                assert TrialPlace(home, "t1").folder.exists() is is_there
            await desk.type("/try list")
            assert "There is no trial." in desk.read_output()

    asyncio.run(run())


def test_a_task_runs_in_a_copy_with_the_model_of_the_chat(workspace: Path) -> None:
    async def run() -> None:
        async with try_desk(workspace) as desk:
            await desk.type("/try say hello")
            text = " ".join(desk.read_output().split())
            [trial] = list_trials(desk.runtime.settings.home)
            assert (trial.task, trial.state) == ("say hello", "ended")
            assert f"Trial {trial.id} changed no files." in text
            assert desk.runtime.store.index.settings(trial.id).model == "demo"

    asyncio.run(run())
    assert list_files(workspace) == OLD


def test_mode_rules_and_folders_of_the_chat_hold_in_the_trial(workspace: Path, tmp_path: Path) -> None:
    added = tmp_path / "added folder"
    added.mkdir()

    async def run() -> None:
        rules = ("write_file(-x)",)
        async with try_desk(workspace, mode="plan", deny=rules, add_dirs=(added,)) as desk:
            await desk.type("/try say hello")
            [trial] = list_trials(desk.runtime.settings.home)
            settings = desk.runtime.store.index.settings(trial.id)
            assert (settings.mode, settings.deny, settings.add_dirs) == ("plan", rules, (str(added),))

    asyncio.run(run())


def test_a_trial_that_cannot_begin_is_one_sentence_in_the_chat(workspace: Path) -> None:
    async def run() -> str:
        env = {**environment(workspace.parent), "SANDBUR_HOME": str(workspace / "data")}
        async with slash_desk(workspace, env=env) as desk:
            await desk.type("/try say hello")
            return desk.read_output()

    assert asyncio.run(run()) == "The trial did not begin; the lines above say why.\n"


def test_it_waits_for_an_open_question(workspace: Path) -> None:
    async def run() -> str:
        async with try_desk(workspace) as desk:
            desk.asks = True
            await desk.type("/try say hello")
            return desk.read_output()

    assert asyncio.run(run()) == "/try waits until the question is answered.\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/try", "Name a task. /try TASK, /try list, or /try diff|apply|drop [ID]"),
        ("/try diff x9", "There is no trial `x9`."),
        ("/try apply x9", "There is no trial `x9`."),
    ],
)
def test_bad_input_gets_one_sentence(workspace: Path, line: str, sentence: str) -> None:
    assert type_all(workspace, line).startswith(sentence)


def test_a_trial_of_another_folder_is_not_applied_here(workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    async def run() -> str:
        async with try_desk(workspace) as desk:
            make_ended_trial(desk.runtime.settings.home, other, change)
            await desk.type("/try apply t1")
            return " ".join(desk.read_output().split())

    text = asyncio.run(run())
    assert "which is not a folder of this session. Apply it in a shell: sandbur try apply t1" in text
    assert list_files(other) == {}


def test_the_actions_are_completed() -> None:
    assert [offer.text for offer, _ in completions("/try d")] == ["diff", "drop"]
