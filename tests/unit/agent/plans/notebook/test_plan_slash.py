"""`/plan` in the chat: saved plans, earlier plans, and a task to plan."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.models.scripted import ScriptedModel
from support.screens.slash_desk import SlashDesk, slash_desk

from sandbur.ui.chat.slash.command import SlashOffer
from sandbur.ui.commands.review.plan.slash import list_plan_choices

START = [("start_plan", {"goal": "Move the parser"})]
MADE = [("submit_plan", {"steps": [{"description": "Move it"}, {"description": "Test it"}]})]
DONE = [("finish_step", {"status": "completed", "summary": "it is done"})]
FAILED = [("finish_step", {"status": "failed", "summary": "it cannot be done"})]
BINDS = "# Write a note\n## Write it\n- writes: notes/\n"


class Pressed(NamedTuple):
    key: str


@asynccontextmanager
async def opened(folder: Path, *turns: Any) -> AsyncGenerator[SlashDesk]:
    (folder / ".git").mkdir(exist_ok=True)
    async with slash_desk(folder, ScriptedModel(*turns)) as desk:
        yield desk


def press(desk: SlashDesk, key: str) -> None:
    answers: list[Any] = desk.picks
    answers.append(Pressed(key))


async def read(desk: SlashDesk, text: str) -> str:
    desk.read_output()
    await desk.type(text)
    return " ".join(desk.read_output().split())


async def test_a_plan_is_saved_listed_and_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path, START, MADE, DONE, DONE, "Done.", DONE, DONE, "Again.") as desk:
        assert "There are no saved plans here." in await read(desk, "/plan list")
        assert "has no plan" in await read(desk, "/plan save parser")
        await desk.send("move the parser")
        assert f"Wrote {tmp_path}/.sandbur/plans/parser.md." in await read(desk, "/plan save parser")
        assert "parser Move the parser" in await read(desk, "/plan list")
        assert "exists already" in await read(desk, "/plan save parser")
        assert "Again." in await read(desk, "/plan use parser with care")
        assert desk.session.state.plan_facts.name == "parser"
        sent = desk.session.state.user_input
        assert sent == "Carry out the saved plan parser: Move the parser\n\nwith care"
        assert "There is no saved plan other." in await read(desk, "/plan use other")


async def test_a_plan_with_permissions_begins_only_with_the_key(tmp_path: Path) -> None:
    own = tmp_path / "config/sandbur/plans"
    own.mkdir(parents=True)
    (own / "note.md").write_text(BINDS)
    write = [("write_file", {"path": "notes/a", "content": "x"})]
    async with opened(tmp_path, write, DONE, "Written.") as desk:
        press(desk, "n")
        assert "The plan was not begun." in await read(desk, "/plan use note")
        assert desk.session.state.vibe_plan == ()
        press(desk, "y")
        shown = await read(desk, "/plan use note")
        assert "- writes: notes/" in shown
        assert "Written." in shown
        assert (tmp_path / "notes/a").read_text() == "x"
        press(desk, "n")
        assert "The plan was not begun." in await read(desk, "/plan reopen 1")


async def test_earlier_plans_are_shown_reopened_and_abandoned(tmp_path: Path) -> None:
    turns = [START, MADE, DONE, FAILED, [("submit_plan", {"steps": []})], "Half.", DONE, "Whole."]
    async with opened(tmp_path, *turns) as desk:
        assert "There are no earlier plans." in await read(desk, "/plan history")
        assert "There is no plan." in await read(desk, "/plan abandon")
        await desk.send("move the parser")
        assert "Plan 1 [unfinished]: Move the parser 1. [completed] Move it" in await read(
            desk, "/plan history"
        )
        assert "There is no earlier plan 9." in await read(desk, "/plan history 9")
        assert "The plan is abandoned." in await read(desk, "/plan abandon")
        assert "Plan 1 [abandoned]" in await read(desk, "/plan history 1")
        assert "Whole." in await read(desk, "/plan reopen 1")
        assert [step.status for step in desk.session.state.vibe_plan] == ["completed", "completed"]


@pytest.mark.parametrize("task", ["use pytest for the tests", "abandon the old parser", "list all files"])
async def test_words_that_are_no_command_are_a_task(tmp_path: Path, task: str) -> None:
    async with slash_desk(tmp_path, ScriptedModel(), plan_proposals=False) as desk:
        assert "no tool to propose a plan with" in await read(desk, f"/plan {task}")


async def test_a_task_is_planned_in_plan_mode(tmp_path: Path) -> None:
    async with opened(tmp_path, [("propose_plan", {"plan": BINDS})]) as desk:
        await read(desk, "/plan write a note")
        assert desk.session.state.execution_mode == "plan"
        assert [call.tool for call in desk.session.state.calls_to_decide] == ["propose_plan"]


def test_the_first_words_are_completed() -> None:
    assert SlashOffer("use", "carry out a saved plan") in list(list_plan_choices(None))
