"""A reopened plan goes on with what is left of it, and never takes the place of an approved one."""

from pathlib import Path

from support.models.plans import (
    FAIL,
    FINISH,
    START,
    approve,
    notebook,
    open_with_notebook,
    propose,
    require_sound_notebook,
    submit,
    write,
)
from support.models.scripted import Turn, collect

from sandbur.actions.ports.events import Event, RunFinished
from sandbur.actions.turn.plan.notebook import list_past
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_text import parse_plan
from sandbur.agent.session.session import Session
from sandbur.state.conversation.plan_notebook import PlanChange
from sandbur.state.store.store import Store

MADE = submit("one", "two")
APPROVED = "# Write a file\n## Write it\n- writes: a.txt\n"
WIDER = "# Write a file\n## Write it\n- writes: a.txt, docs/\n"
LEFT: list[Turn] = [START, MADE, notebook("abandon", text="later"), "Stopped."]
"""The replies of a turn after which an earlier plan is there that nobody approved."""


async def reopen_by_person(session: Session, folder: Path) -> tuple[list[Event], RunFinished]:
    """Reopen the newest earlier plan, and approve it again if it was approved."""
    found = list_past(session.state)[-1]
    text = found.approved_text
    approved = parse_plan(text, Permissions(folder).by_key) if text else None
    change = PlanChange(command="reopen", number=found.number, plan=approved)
    return await collect(session.change_plan(change, "Go on with it."))


def list_steps(session: Session) -> list[tuple[str, str]]:
    return [(step.description, step.status) for step in session.state.vibe_plan]


async def test_a_finished_approved_plan_cannot_be_left_for_an_earlier_plan(
    store: Store, tmp_path: Path
) -> None:
    turns = [
        propose(APPROVED),
        notebook("finish", text="ok"),
        notebook("reopen", number=1),
        write("evil.txt"),
    ]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns, mode="auto-edit")
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    _, end = await approve(session)
    assert end.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    assert session.state.approved_plan is not None
    assert not (tmp_path / "evil.txt").exists()
    await require_sound_notebook(store, tmp_path)


async def test_a_plan_that_follows_a_finished_approved_one_is_compared_with_it(
    store: Store, tmp_path: Path
) -> None:
    turns = [propose(APPROVED), notebook("finish", text="ok"), notebook("reopen", number=1), propose(WIDER)]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns)
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    await approve(session)
    assert "! allows more in step 1: writes: docs/" in session.state.calls_to_decide[0].plan_changes


async def test_an_earlier_plan_can_be_reopened_in_the_turn_after_an_approved_one(
    store: Store, tmp_path: Path
) -> None:
    turns: list[Turn] = [propose(APPROVED), FINISH, "Written.", notebook("reopen", number=1), FINISH, FINISH]
    session = await open_with_notebook(store, tmp_path, *LEFT, *turns, "Looked.")
    await collect(session.send("look at it"))
    await collect(session.send("write a file"))
    await approve(session)
    _, end = await collect(session.send("go on with the first plan"))
    assert (end.status, end.result) == ("done", "Looked.")
    await require_sound_notebook(store, tmp_path)


async def test_an_approved_plan_is_done_although_a_plan_before_it_failed(
    store: Store, tmp_path: Path
) -> None:
    turns = [propose("# g\n## x\n"), FAIL, propose("# g\n## y\n- writes: y.txt\n"), FINISH, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns)
    await collect(session.send("go"))
    await approve(session)
    await approve(session)
    (past,) = list_past(session.state)
    assert past.status == "done"
    assert [step.status for step in past.steps] == ["failed", "completed"]


async def test_an_approved_plan_that_is_done_begins_again(store: Store, tmp_path: Path) -> None:
    turns = [propose("# g\n## x\n"), FAIL, propose("# g\n## y\n- writes: y.txt\n"), FINISH, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns, write("y.txt"), FINISH, "Again.")
    await collect(session.send("go"))
    await approve(session)
    await approve(session)
    _, end = await reopen_by_person(session, tmp_path)
    assert (end.status, end.result) == ("done", "Again.")
    assert (tmp_path / "y.txt").exists()
    await require_sound_notebook(store, tmp_path)


async def test_steps_with_the_same_title_keep_their_own_status(store: Store, tmp_path: Path) -> None:
    made = submit("Run the tests", "Run the tests")
    turns: list[Turn] = [START, made, FINISH, notebook("abandon", text="later"), "Stopped."]
    again: list[Turn] = [notebook("reopen", number=1), FINISH, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns, *again)
    await collect(session.send("go"))
    _, end = await collect(session.send("go on"))
    assert (end.status, end.result) == ("done", "Done.")
    assert list_steps(session) == [("Run the tests", "completed")] * 2
    await require_sound_notebook(store, tmp_path)


async def test_steps_of_an_approved_plan_with_the_same_title_keep_their_own_status(
    store: Store, tmp_path: Path
) -> None:
    text = "# g\n## Test\n- runs: pytest -q\n## Fix\n- writes: a.txt\n## Test\n- runs: pytest -q\n"
    turns: list[Turn] = [propose(text), FINISH, FAIL, "It failed.", FINISH, FINISH, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns)
    await collect(session.send("go"))
    await approve(session)
    _, end = await reopen_by_person(session, tmp_path)
    assert (end.status, end.result) == ("done", "Done.")
    await require_sound_notebook(store, tmp_path)


async def test_a_reopened_plan_leaves_out_the_steps_that_a_person_skipped(
    store: Store, tmp_path: Path
) -> None:
    made = submit("one", "Delete the table", "three")
    turns: list[Turn] = [
        START,
        made,
        write("a.txt"),
        FINISH,
        FAIL,
        submit("three"),
        notebook("abandon", text="no"),
    ]
    again: list[Turn] = ["Stopped.", notebook("reopen", number=1), FINISH, FINISH, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns, *again)
    await collect(session.send("go"))
    await collect(session.send("/plan skip 2"))
    await approve(session)
    _, end = await collect(session.send("go on"))
    assert (end.status, end.result) == ("done", "Done.")
    assert ("Delete the table", "skipped") in list_steps(session)
    await require_sound_notebook(store, tmp_path)


async def test_a_skipped_step_of_an_approved_plan_allows_nothing_after_it_is_reopened(
    store: Store, tmp_path: Path
) -> None:
    text = "# g\n## a\n- writes: a.txt\n## b\n- writes: b.txt\n## c\n"
    turns: list[Turn] = [propose(text), write("z.txt"), FINISH, FAIL, "It failed.", write("b.txt")]
    session = await open_with_notebook(store, tmp_path, *turns)
    await collect(session.send("go"))
    await approve(session)
    await collect(session.send("/plan skip 2"))
    await approve(session)
    _, end = await reopen_by_person(session, tmp_path)
    assert end.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    assert list_steps(session) == [("a", "completed"), ("b", "skipped"), ("c", "in_progress")]
    await require_sound_notebook(store, tmp_path)


async def test_an_approved_plan_that_is_reopened_ends_plan_mode(store: Store, tmp_path: Path) -> None:
    turns: list[Turn] = [propose("# g\n## x\n- writes: x.txt\n"), FAIL, "It failed."]
    session = await open_with_notebook(store, tmp_path, *turns, write("x.txt"), FINISH, "Done.", mode="plan")
    await collect(session.send("go"))
    await approve(session)
    session.change_mode("plan")
    _, end = await reopen_by_person(session, tmp_path)
    assert (end.status, session.state.execution_mode) == ("done", "interactive")
    assert (tmp_path / "x.txt").exists()
    await require_sound_notebook(store, tmp_path)


async def test_a_plan_that_a_person_abandoned_is_asked_about_again(store: Store, tmp_path: Path) -> None:
    turns: list[Turn] = [propose(APPROVED), write("z.txt"), "Hello.", notebook("reopen", number=1), "I see."]
    session = await open_with_notebook(store, tmp_path, *turns)
    await collect(session.send("write a file"))
    await approve(session)
    change = PlanChange(command="abandon", text="not today")
    await collect(session.change_plan(change, "/plan abandon"))
    assert list_past(session.state)[-1].approved_text == APPROVED.strip()
    assert session.state.plan_terms is not None
    assert session.state.plan_terms.rules == ()
    await collect(session.send("hello"))
    _, end = await collect(session.send("go on"))
    (answer,) = [one for message in session.state.chat_history for one in message.tool_results][-1:]
    assert "has to approve it again" in answer.content
    assert (end.status, session.state.vibe_plan, session.state.approved_plan) == ("done", (), None)
    await require_sound_notebook(store, tmp_path)
