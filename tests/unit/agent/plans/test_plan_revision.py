"""A revised plan says how it differs from the one that was approved, and what it allows beyond it."""

from pathlib import Path

import pytest
from support.models.plans import FINISH, PROPOSAL, approve, open_with_plans, propose, require_sound, write
from support.models.scripted import ScriptedModel, collect

from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_difference import describe_difference
from sandbur.agent.review.plans.plan_text import UnreadablePlan, parse_plan
from sandbur.agent.sdk.runs.pending import PendingToolCall
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store
from sandbur.ui.commands.sessions.show import view_lines
from sandbur.ui.headless.json_output import pending_objects
from sandbur.ui.terminal.lines import question_lines
from sandbur.ui.web.waiting_approvals import describe_waiting_call

OLD = """\
# Write the parser
- budget: 0.50 USD
## 1. Write the code
- writes: src/
- runs: git mv
## 2. Test
- runs: pytest -q
"""
NEW = """\
# Write the parser
- budget: 1 USD
## 1. Write the code
- writes: src/, docs/
## 2. Write the words
## 3. Test
- runs: pytest -q
- budget: 9,000 tokens
"""


def compare(folder: Path, old: str, new: str) -> list[str]:
    return describe_difference(parse_plan(old, Permissions(folder).by_key), new).split("\n")


def test_wider_permissions_stand_apart_from_narrower_ones(tmp_path: Path) -> None:
    head, *lines = compare(tmp_path, OLD, NEW)
    assert head.startswith("Compared with the approved plan ")
    assert lines == [
        "! the budget of the plan: 1.0 USD instead of 0.5 USD",
        "! allows more in step 1: writes: docs/",
        "- allows less in step 1: runs: git mv",
        "+ step 2: Write the words",
        "- the budget of step 3: 9,000 tokens instead of no limit",
    ]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            OLD.replace("Write the parser", "Write a lexer"),
            "~ goal: Write a lexer (it was: Write the parser)",
        ),
        (OLD.replace("2. Test", "2. Check"), "~ step 2: Check (it was: Test)"),
        (OLD.replace("2. Test", "2. Test\nall of it"), "~ step 2: Test (its text changed)"),
        (OLD.partition("## 2")[0], "- the earlier step 2: Test"),
        (OLD.replace("- budget: 0.50 USD\n", ""), "! the budget of the plan: no limit instead of 0.5 USD"),
        (OLD, "It is the plan that was approved before, unchanged."),
        (
            OLD.replace("- budget: 0.50", "- expects: all is deleted\n- budget: 0.50"),
            "~ expects of the plan: all is deleted (it was: nothing)",
        ),
        (f"{OLD}- after: nothing\n", "~ step 2 comes after nothing instead of all earlier steps"),
        (f"{OLD}- after: 1\n", "~ step 2 comes after 1 instead of all earlier steps"),
        (
            OLD.replace("src/\n", "src/\n- writes: src/\n"),
            "It is the plan that was approved before, unchanged.",
        ),
        (
            OLD.replace("- writes: src/\n- runs: git mv\n", "- runs: git mv\n- writes: src/\n"),
            "~ its lines are in another order",
        ),
    ],
)
def test_each_kind_of_change_has_a_line(tmp_path: Path, changed: str, line: str) -> None:
    assert line in compare(tmp_path, OLD, changed)


def test_a_text_that_is_no_plan_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UnreadablePlan):
        compare(tmp_path, OLD, "no plan")


WIDER = "# Write two files\n## 1. Write the first\n- writes: out/, more/\n- runs: echo hello\n"


async def test_the_question_about_a_revised_plan_says_what_changed(store: Store, tmp_path: Path) -> None:
    failed = [("finish_step", {"status": "failed", "summary": "it cannot be written"})]
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, failed, propose(WIDER)))
    await collect(session.send("write two files"))
    assert session.state.calls_to_decide[0].plan_changes == ""
    _, end = await approve(session)
    (call,) = session.state.calls_to_decide
    wider = "! allows more in step 1: writes: more/"
    assert wider in call.plan_changes.split("\n")
    assert ("caution", wider) in question_lines(call, str(tmp_path))
    assert ("caution", wider) in describe_waiting_call(call, str(tmp_path)).lines
    assert any(wider in line for line in view_lines(store.show("s1")))
    assert wider in pending_objects([call])[0]["plan_changes"]
    assert wider in PendingToolCall.of(end.pending[0]).plan_changes
    await require_sound(store, tmp_path)


async def test_a_plan_of_a_later_turn_is_compared_with_the_last_approved_one(
    store: Store, tmp_path: Path
) -> None:
    model = ScriptedModel(PROPOSAL, FINISH, FINISH, "Done.", propose(WIDER))
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("write two files"))
    await approve(session)
    await collect(session.send("and more"))
    assert session.state.approved_plan is None
    assert "! allows more in step 1: writes: more/" in session.state.calls_to_decide[0].plan_changes
    await require_sound(store, tmp_path)


async def test_an_edited_plan_is_compared_again(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(PROPOSAL, FINISH, FINISH, "Done.", propose(WIDER), write("a.txt"))
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("write two files"))
    await approve(session)
    await collect(session.send("and more"))
    (call,) = session.state.calls_to_decide
    narrower = '{"plan": "# Write one file\\n## Write it\\n- writes: only.txt"}'
    await collect(
        session.decide([CallDecision(call_id=call.call_id, approved=True, arguments=narrower)], True)
    )
    (decided,) = session.state.pending_tool_calls
    assert "! allows more in step 1: writes: only.txt" in decided.plan_changes
