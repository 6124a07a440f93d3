"""Looking at the steps of a session, and going on from any of them."""

import json
import time
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.killed import effects, kill_in_command
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.agent.history.timeline import list_timeline
from sandbur.state.store.store import Store

JSON = ("--output-format", "json")


def talk(command: Command, *words: str) -> str:
    return command.run("-p", *words, "-m", "demo", *JSON).result["session_id"]


def steps(command: Command, session_id: str) -> list[Any]:
    return command.run("sessions", "show", session_id, "--steps", "--json").lines


def messages(command: Command, session_id: str) -> list[Any]:
    return json.loads(command.run("sessions", "show", session_id, "--json").out)["messages"]


def test_every_step_is_one_line_that_says_what_it_did(command: Command) -> None:
    session_id = talk(command, "run echo hi | tee /dev/null")
    command.run("approve", session_id)
    found = [(step["seq"], step["action"], step["kind"], step["text"]) for step in steps(command, session_id)]
    assert found == [
        (0, "prompt", "message", "run echo hi | tee /dev/null"),
        (1, "router", "calls", "run_shell_command echo hi | tee /dev/null (waits for a decision)"),
        (2, "human_confirm", "decision", "approved: run_shell_command echo hi | tee /dev/null"),
        (3, "execute_tools", "results", "ok: run_shell_command echo hi | tee /dev/null"),
        (4, "router", "reply", "`echo hi | tee /dev/null` gave: hi exit code: 0"),
    ]
    shown = command.run("sessions", "show", session_id, "--steps").out.splitlines()
    assert len(shown) == 5
    assert shown[0].split()[0] == "0"
    assert shown[0].endswith("prompt               you: run echo hi | tee /dev/null")


def test_a_plan_is_told_step_by_step(command: Command) -> None:
    session_id = talk(command, "my web site is slow, find out why", "--yolo")
    found = steps(command, session_id)
    assert [step["kind"] for step in found[:3]] == ["message", "calls", "plan"]
    assert found[2]["text"].startswith("3 steps: 1. ")
    summaries = [step["text"] for step in found if step["kind"] == "summary"]
    assert [text[:16] for text in summaries] == [f"Step {number} completed" for number in (1, 2, 3)]
    assert any(step["text"].startswith("step 2: run_shell_command") for step in found)


def test_an_unknown_outcome_and_its_settlement_are_steps(command: Command) -> None:
    session_id = kill_in_command(command)
    command.run("-p", "-r", session_id)
    command.run("settle", session_id, "--as", "failed")
    texts = [step["text"] for step in steps(command, session_id)]
    assert "outcome unknown: run_shell_command" in texts
    assert any(text.startswith("failed: run_shell_command") for text in texts)


def test_the_steps_of_a_fork_begin_with_those_it_came_from(command: Command) -> None:
    parent = talk(command, "hello")
    fork = command.run("fork", parent, "--at", "0").out.strip()
    command.run("-p", "-r", fork, "and more")
    found = [(step["seq"], step["session_id"], step["kind"]) for step in steps(command, fork)]
    assert found[0] == (0, parent, "message")
    assert [one[1] for one in found[1:]] == [fork] * (len(found) - 1)
    assert f"(steps it was forked from: {parent})" in command.run("sessions", "show", fork, "--steps").out


def test_a_hostile_step_cannot_steer_the_terminal(command: Command) -> None:
    session_id = talk(command, "run printf '\x1b]52;c;eA==\x07'; echo \u202e", "--yolo")
    shown = command.run("sessions", "show", session_id, "--steps").out
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.slow
async def test_the_steps_of_a_long_session_are_read_in_a_moment(store: Store) -> None:
    session = await open_session(
        store, ScriptedModel(*[act("x" * 2000 + str(n)) for n in range(400)], "end"), Recorder()
    )
    await collect(session.send("go"))
    began = time.process_time()
    found = list_timeline(store.database, "s1")
    assert len(found) == 802
    assert time.process_time() - began < 1.0
    assert all(len(step.text) < 300 for step in found)


async def test_a_damaged_step_is_named_and_the_others_are_shown(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    await collect(session.send("go"))
    store.database.commit([("UPDATE steps SET position = 'prompt' WHERE seq = 2", ())])
    store.quarantine_damage("s1")
    texts = [step.text for step in list_timeline(store.database, "s1")]
    assert texts == ["go", "act a", "(the record of this step is damaged)", "done"]


FIRST = ("messages", 0, "blocks", 0, "text")


@pytest.mark.parametrize(
    ("edit", "at", "place", "value"),
    [
        ("chat_history.0.text=another question", "1", FIRST, "another question"),
        ("chat_history.-1.text=another answer", "1", ("messages", 1, "blocks", 0, "text"), "another answer"),
        ('chat_history.0.text="a \\"quoted\\" one"', "1", FIRST, 'a "quoted" one'),
        ("current_goal=world peace", "1", ("goal",), "world peace"),
        ("current_goal=null", "1", ("goal",), None),
        ("current_goal=42", "1", ("goal",), "42"),
        ("execution_mode=yolo", "1", ("mode",), "yolo"),
        ("user_input=asked anew", "0", FIRST, "asked anew"),
    ],
)  # fmt: skip
def test_a_fork_starts_with_an_edited_state(
    command: Command, edit: str, at: str, place: tuple[Any, ...], value: Any
) -> None:
    parent = talk(command, "hello")
    before = messages(command, parent)
    fork = command.run("fork", parent, "--at", at, "--set", edit).out.strip()
    found: Any = json.loads(command.run("sessions", "show", fork, "--json").out)
    for step in place:
        found = found[step]
    assert found == value
    assert messages(command, parent) == before
    assert command.run("-p", "-r", fork, "and on").code == 0
    assert command.run("doctor").code == 0


def test_the_answer_to_an_edited_question_is_another(command: Command) -> None:
    parent = talk(command, "run echo one", "--yolo")
    fork = command.run("fork", parent, "--at", "0", "--set", "user_input=run echo two").out.strip()
    assert "two" in command.run("-p", "-r", fork).out


def test_edits_add_up_and_a_plan_can_be_rewritten(command: Command) -> None:
    parent = talk(command, "my web site is slow, find out why", "--yolo")
    edits = ("--set", "vibe_plan.1.description=look elsewhere", "--set", "vibe_plan.-1.status=completed",
             "--set", "vibe_plan.2.analysis=nothing to do", "--set", "current_goal=a quick look")  # fmt: skip
    fork = command.run("fork", parent, "--at", "2", *edits).out.strip()
    view = json.loads(command.run("sessions", "show", fork, "--json").out)
    planned = [(step["description"], step["status"], step["summary"]) for step in view["steps_planned"]]
    assert planned[1] == ("look elsewhere", "pending", "")
    assert planned[2][1:] == ("completed", "nothing to do")
    assert view["goal"] == "a quick look"
    assert command.run("-p", "-y", "-r", fork).code == 0


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ("nonsense=1", "The state has no `nonsense`."),
        ("chat_history=[]", "`chat_history` cannot be set"),
        ("pending_tool_calls=[]", "`pending_tool_calls` cannot be set: only the run itself changes it."),
        ("usage.llm_calls=0", "The state has no `usage.llm_calls`"),
        ("turn_open=false", "`turn_open` cannot be set"),
        ("chat_history.2.text=x", "is the result of a call, which cannot be changed."),
        ("chat_history.99.text=x", "names no message: there are 4, counted from 0."),
        ("chat_history.0.text=", "cannot be empty"),
        ("chat_history.1.tool_uses=[]", "cannot be set"),
        ("vibe_plan.0.description=x", "names no plan step: there is none."),
        ("execution_mode=wild", "There is no mode 'wild'."),
        ("user_input=", "The message is empty."),
    ],
)
def test_what_would_break_a_history_cannot_be_set(command: Command, edit: str, problem: str) -> None:
    parent = talk(command, "run echo hi", "--yolo")
    ended = command.run("fork", parent, "--set", edit)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 1
    assert len(command.run("sessions", "list", "--json").lines) == 1


def test_a_fork_brings_the_files_of_then_back(command: Command) -> None:
    file = command.folder / "a.txt"
    file.write_text("before\n")
    parent = talk(command, "replace before with after in a.txt", "--yolo")
    command.run("-p", "-r", parent, "create file b.txt with new")
    assert (file.read_text(), (command.folder / "b.txt").exists()) == ("after\n", True)
    ended = command.run("fork", parent, "--at", "0", "--files", "--yes")
    assert ended.code == 0
    assert f"restored: {file}" in ended.err
    assert f"removed: {command.folder / 'b.txt'}" in ended.err
    assert (file.read_text(), (command.folder / "b.txt").exists()) == ("before\n", False)
    again = command.run("fork", parent, "--at", "0", "--files", "--yes")
    assert "Every file already is as it was at that step." in again.err


def test_a_fork_runs_no_call_again_that_its_parent_ran(command: Command) -> None:
    parent = talk(command, "run echo x >> effects", "--yolo")
    fork = command.run("fork", parent, "--at", "1").out.strip()
    assert command.run("-p", "-r", fork).code == 0
    assert effects(command) == 1
