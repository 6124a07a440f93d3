"""`sandbur diff` says where two runs part and what is different from there on."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.demo_runs import DemoRuns
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.screens.terminal_pair import Terminal

from sandbur.agent.history.reports.diff import Comparison, Parting, align_steps, compare, parting
from sandbur.agent.history.timeline import TimelineStep
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store


@pytest.fixture
def runs(tmp_path: Path) -> DemoRuns:
    return DemoRuns(tmp_path)


def compared(runs: DemoRuns, left: str, right: str) -> Comparison:
    store = runs.store()
    found = compare(store, left, right)
    store.close()
    return found


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([("a", None)], [("a", 5), ("b", None)], Parting("a", 5)),
        ([("a", 5), ("b", None)], [("a", 3), ("c", None)], Parting("a", 3)),
        ([("a", 5), ("b", 8), ("c", None)], [("a", 5), ("b", None)], Parting("b", 8)),
        ([("a", 3), ("b", 3), ("c", None)], [("a", 5), ("b", None)], Parting("a", 3)),
        ([("a", None)], [("b", None)], None),
        ([("a", 1), ("b", None)], [("c", 1), ("d", None)], None),
    ],
)
def test_forks_part_after_the_last_step_they_share(left: Any, right: Any, expected: Parting | None) -> None:
    assert parting(left, right) == expected
    assert parting(right, left) == expected


def steps(text: str) -> list[TimelineStep]:
    """Make a step of each word: the action, a colon, what it did."""
    parts = (word.partition(":") for word in text.split())
    return [TimelineStep(seq, "", action, "other", what, "s") for seq, (action, _, what) in enumerate(parts)]


def test_steps_that_say_the_same_stand_side_by_side_and_others_by_their_action() -> None:
    left = steps("p:hi r:call x:ok r:answer")
    right = steps("p:hi r:call c:yes x:ok r:other p:more")
    pairs = [
        (a and f"{a.action}:{a.text}", b and f"{b.action}:{b.text}") for a, b in align_steps(left, right)
    ]
    assert pairs == [
        ("p:hi", "p:hi"),
        ("r:call", "r:call"),
        (None, "c:yes"),
        ("x:ok", "x:ok"),
        ("r:answer", "r:other"),
        (None, "p:more"),
    ]


def test_every_step_is_in_the_alignment_once_and_in_order() -> None:
    left, right = steps("p:a r:b " * 40 + "x:y"), steps("r:b p:a x:z " * 30)
    pairs = align_steps(left, right)
    assert [pair.left for pair in pairs if pair.left] == left
    assert [pair.right for pair in pairs if pair.right] == right


async def test_a_fork_is_told_from_its_parent(runs: DemoRuns) -> None:
    parent = await runs.work("write one into a.txt", "replace one with two in a.txt", "write x into b.txt")
    fork = await runs.fork(parent, 3, files=True)
    await runs.work("replace one with three in a.txt", "write y into c.txt", session_id=fork)
    found = compared(runs, parent, fork)
    assert found.parting == Parting(parent, 3)
    assert [step.seq for step in found.common] == [0, 1, 2, 3]
    assert [pair.is_same for pair in found.pairs[:4]] == [False, True, True, False]
    files = {file.name: (file.place, file.difference and file.difference.status) for file in found.files}
    assert files == {
        "a.txt": ("both", "changed"),
        "b.txt": ("left", "added"),
        "c.txt": ("right", "added"),
    }
    a_txt = found.files[0].difference
    assert a_txt is not None
    assert a_txt.diff.splitlines()[-2:] == ["-two", "+three"]
    assert (found.left.whole.steps, found.left.own.steps) == (12, 8)
    assert found.right.own.usage is not None
    assert found.right.own.usage.llm_calls == 4
    assert "c.txt" in found.answers


async def test_a_parent_that_ended_where_its_fork_began_has_nothing_of_its_own(runs: DemoRuns) -> None:
    parent = await runs.work("write one into a.txt")
    fork = await runs.fork(parent, 3)
    await runs.work("write two into a.txt", session_id=fork)
    found = compared(runs, parent, fork)
    assert found.left.own.steps == 0
    assert {pair.left for pair in found.pairs} == {None}
    difference = found.files[0].difference
    assert difference is not None
    assert difference.diff.splitlines()[-2:] == ["-one", "+two"]


async def test_runs_that_have_nothing_in_common_are_aligned_from_their_beginnings(runs: DemoRuns) -> None:
    left = await runs.work("write one into a.txt")
    right = await runs.work("write one into a.txt", "hello")
    found = compared(runs, left, right)
    assert (found.parting, len(found.common)) == (None, 0)
    assert [pair.is_same for pair in found.pairs] == [True, True, True, False, False, False]
    # The second run found the file as it wrote it, so it changed nothing.
    assert [(file.name, file.place) for file in found.files] == [("a.txt", "left")]


async def test_runs_of_two_folders_are_compared_by_the_names_inside(tmp_path: Path) -> None:
    ids: list[str] = []
    for name, text in (("one", "hello"), ("two", "goodbye")):
        runs = DemoRuns(tmp_path)
        runs.folder = tmp_path / name
        runs.folder.mkdir()
        ids.append(await runs.work(f"write {text} into a.txt", "write same into sub/b.txt"))
    found = compared(runs, *ids)
    assert [(file.name, file.place, file.difference is None) for file in found.files] == [
        ("a.txt", "both", False),
        ("sub/b.txt", "both", True),
    ]


async def test_a_content_that_is_not_known_any_more_is_said_to_be(runs: DemoRuns) -> None:
    left = await runs.work("write one into a.txt")
    (runs.folder / "a.txt").write_text("mine\n")
    right = await runs.work("write two into a.txt")
    found = compared(runs, left, right).files[0].difference
    assert found is not None
    assert (found.status, found.note) == ("changed", "its content is no longer available")


async def test_decisions_are_told_with_who_made_them(runs: DemoRuns) -> None:
    left = await runs.work("write one into a.txt", mode="interactive")
    right = await runs.fork(left, 1)
    third = await runs.fork(left, 1)
    await runs.decide(left, approved=True, by="ann@here")
    await runs.decide(right, approved=False, reason="too early", by="bob@there")
    changed = json.dumps({"path": "a.txt", "content": "other\n"})
    await runs.decide(third, approved=True, arguments=changed, by="cid@there")
    found = compared(runs, left, right)
    (decided,) = found.decisions
    assert decided.left is not None
    assert decided.right is not None
    ours, theirs = decided.left.verdicts[-1], decided.right.verdicts[-1]
    assert (ours.decision, ours.who, decided.left.outcome) == ("approved", "ann@here", "ok")
    assert (theirs.decision, theirs.who, theirs.reason) == ("denied", "bob@there", "too early")
    (decided,) = compared(runs, left, third).decisions
    assert decided.right is not None
    assert decided.right.verdicts[-1].is_edited


async def test_a_call_that_was_asked_for_before_the_parting_is_shown_where_its_decisions_differ(
    runs: DemoRuns,
) -> None:
    left = await runs.work("write one into a.txt", mode="interactive")
    right = await runs.fork(left, 1)
    await runs.decide(left, approved=True, by="ann@here")
    (decided,) = compared(runs, left, right).decisions
    assert decided.left is not None
    assert decided.right is not None
    assert decided.right.verdicts[-1].decision == "undecided"


async def test_a_run_without_a_trace_is_compared_without_its_costs(runs: DemoRuns) -> None:
    left = await runs.work("hello")
    right = await runs.work("hello again")
    store = runs.store()
    store.database.commit([("DELETE FROM traces WHERE session_id = ?", (left,))])
    found = compare(store, left, right)
    assert (found.left.whole.usage, found.left.whole.run_s) == (None, None)
    assert found.right.whole.usage is not None
    store.close()


async def test_every_step_of_two_long_runs_is_told(store: Store) -> None:
    for name in ("s1", "s2"):
        model = ScriptedModel(*[act(f"{name[-1]}{n % 7}") for n in range(100)], "end")
        session: Session = await open_session(store, model, Recorder(), session_id=name)
        await collect(session.send("go"))
    found = compare(store, "s1", "s2")
    assert len(found.common) == 0
    assert sum(pair.left is not None for pair in found.pairs) == 202


@pytest.mark.slow
def test_the_command_prints_what_a_person_can_read(tmp_path: Path) -> None:
    runs = DemoRuns(tmp_path)
    parent = asyncio.run(runs.work("write one into a.txt", "write x into b.txt"))
    fork = asyncio.run(runs.fork(parent, 3))
    asyncio.run(runs.work("replace one with two in a.txt", session_id=fork))
    command = Command(runs.folder)
    command.env["SANDBUR_HOME"] = str(runs.home)
    ended = command.run("diff", parent, fork)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert f"session         < {parent}  > {fork}" in lines
    assert any(line.startswith("The sessions differ after step 3 (router: agent: ") for line in lines)
    assert "  < 4      prompt: you: write x into b.txt" in lines
    assert "  > 4      prompt: you: replace one with two in a.txt" in lines
    assert f"  b.txt  only in {parent[:8]}: added" in lines
    assert "    +two" in lines
    found = json.loads(command.run("diff", parent[:8], fork[:8], "--json").out)
    assert found["parting"] == {"session_id": parent, "seq": 3}
    assert [file["name"] for file in found["files"]] == ["a.txt", "b.txt"]


def test_a_terminal_gets_both_runs_beside_each_other(tmp_path: Path) -> None:
    runs = DemoRuns(tmp_path)
    parent = asyncio.run(runs.work("write one into a.txt", "write x into b.txt"))
    fork = asyncio.run(runs.fork(parent, 3))
    asyncio.run(runs.work("replace one with two in a.txt", session_id=fork))
    command = Command(runs.folder)
    command.env |= {"SANDBUR_HOME": str(runs.home), "TERM": "xterm", "COLUMNS": "140"}
    with Terminal(columns=140) as terminal:
        process = command.start("diff", parent, fork, start_new_session=True, **terminal.streams)
        terminal.see("Answers")
        terminal.drain(process)
        shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.output.decode())
    assert process.returncode == 0
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert rows.count(f"{parent[:8]} {fork[:8]}") == 2
    assert "4 prompt: you: write x into b.txt | 4 prompt: you: replace one with two in a.txt" in rows
    assert f"b.txt only in {parent[:8]}: added" in rows


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nope", "{id}"), "There is no session 'nope'."),
        (("{id}", "nope"), "There is no session 'nope'."),
        (("{id}", "{id}"), "Both names mean session"),
        (("{id}",), "ID2"),
    ],
)
def test_a_wrong_name_is_told_in_a_sentence(tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    runs = DemoRuns(tmp_path)
    session_id = asyncio.run(runs.work("hello"))
    command = Command(runs.folder)
    command.env["SANDBUR_HOME"] = str(runs.home)
    ended = command.run("diff", *(word.format(id=session_id) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err


def test_a_hostile_run_cannot_steer_the_terminal(tmp_path: Path) -> None:
    runs = DemoRuns(tmp_path)
    evil = "\x1b]52;c;eA==\x07\x1b[2J\u202e[bold]"
    left = asyncio.run(runs.work(f"write {evil} into a.txt", f"run echo {evil}"))
    right = asyncio.run(runs.work(f"write {evil}2 into a.txt", f"say {evil}"))
    command = Command(runs.folder)
    command.env["SANDBUR_HOME"] = str(runs.home)
    shown = command.run("diff", left, right).out
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "[bold]" in shown
