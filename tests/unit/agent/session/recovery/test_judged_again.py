"""What was judged is what runs: each call is judged once more right before it starts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.stores.audits import breaches
from support.stores.reopening import reopen
from support.stores.tampering import chain_again

from sandbur.actions.ports.events import ToolFinished
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("inside\n")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the key\n")
    return folder


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "run_shell_command", {"command": command}


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": path}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


def yes(*call_ids: str) -> list[CallDecision]:
    return [CallDecision(call_id=call_id, approved=True) for call_id in call_ids]


def waiting(session: Session) -> list[tuple[str, str]]:
    return [(c.call_id, c.reason) for c in session.state.pending_tool_calls if c.decision == "undecided"]


def outcomes(events: list[Any]) -> dict[str, str]:
    return {one.call_id: one.outcome for one in events if isinstance(one, ToolFinished)}


LINK = "rm -r src && ln -s ../secret src"


async def test_a_link_made_by_the_first_call_does_not_let_the_second_read_outside(
    store: Store, place: Path
) -> None:
    model = ScriptedModel([shell(LINK), read("src/key")], "end")
    session = await open_real(store, model, place, mode="interactive", allow=(f"run_shell_command({LINK})",))
    events, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("needs_approval", 3)
    assert outcomes(events) == {"c1_0": "ok"}
    [(call_id, reason)] = waiting(session)
    assert call_id == "c1_1"
    assert "outside the workspace" in reason
    assert len(model.requests) == 1


async def test_what_had_run_is_in_the_history_and_the_denied_call_gets_the_only_other_result(
    store: Store, place: Path
) -> None:
    model = ScriptedModel([shell(LINK), read("src/key"), read("other")], "end")
    session = await open_real(store, model, place, mode="interactive", allow=(f"run_shell_command({LINK})",))
    await collect(session.send("go"))
    assert [result.call_id for m in session.state.chat_history for result in m.tool_results] == [
        "c1_0",
        "c1_2",
    ]
    model = ScriptedModel("end")
    session = await open_real(reopen(store), model, place, mode="interactive")
    events, end = await collect(session.decide([CallDecision(call_id="c1_1", reason="no")]))
    assert (end.result, end.status) == ("end", "denied")
    assert outcomes(events) == {"c1_1": "denied"}
    results = [result.call_id for message in model.requests[0].messages for result in message.tool_results]
    assert results == ["c1_0", "c1_2", "c1_1"]
    assert not breaches(store)


async def test_a_link_made_by_the_first_call_does_not_pass_a_deny_rule_in_yolo(
    store: Store, place: Path
) -> None:
    (place.parent / "secret" / "key").rename(place / "key")
    denied = "read_file(key)"
    (place / "link.sh").write_text("ln -s key plain\n")
    model = ScriptedModel([shell("sh link.sh"), read("plain")], "end")
    session = await open_real(store, model, place, deny=(denied,))
    events, end = await collect(session.send("go"))
    assert outcomes(events) == {"c1_0": "ok", "c1_1": "denied"}
    assert (end.status, end.exit_code) == ("denied", 3)
    assert "the key" not in str([message.blocks for message in session.state.chat_history])


async def test_a_write_that_now_leads_outside_asks_in_auto_edit_mode(store: Store, place: Path) -> None:
    model = ScriptedModel([shell(LINK), write("src/new", "x")], "end")
    session = await open_real(store, model, place, mode="auto-edit", allow=(f"run_shell_command({LINK})",))
    _, end = await collect(session.send("go"))
    assert end.exit_code == 3
    assert "outside the workspace" in waiting(session)[0][1]
    assert not (place.parent / "secret" / "new").exists()


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "its content": (lambda file: file.write_text("other\n"), "src/a.txt has changed"),
    "its place": (
        lambda file: (file.unlink(), file.symlink_to(file.parent.parent / "b.txt")),
        "src/a.txt now leads to",
    ),
    "the file, with the same content": (
        lambda file: ((file.parent / "b").write_text(file.read_text()), (file.parent / "b").replace(file)),
        "src/a.txt was replaced by another file",
    ),
    "that it is there": (lambda file: file.unlink(), "src/a.txt is gone"),
}


@pytest.mark.parametrize("changed", CHANGES)
async def test_an_approved_write_asks_again_when_something_changed(
    store: Store, place: Path, changed: str
) -> None:
    change, said = CHANGES[changed]
    (place / "b.txt").write_text("inside\n")
    edit = "edit_file", {"path": "src/a.txt", "old": "inside", "new": "mine"}
    session = await open_real(store, ScriptedModel([edit]), place, mode="interactive")
    _, end = await collect(session.send("go"))
    change(place / "src" / "a.txt")
    session = await open_real(reopen(store), ScriptedModel("end"), place, mode="interactive")
    _, end = await collect(session.decide(yes("c1_0")))
    assert (end.status, end.exit_code) == ("needs_approval", 3)
    assert said in waiting(session)[0][1]
    assert "mine" not in (place / "b.txt").read_text()
    assert not breaches(store)


async def test_the_second_approval_covers_the_file_as_it_is_now(store: Store, place: Path) -> None:
    edit = "edit_file", {"path": "src/a.txt", "old": "inside", "new": "mine"}
    session = await open_real(store, ScriptedModel([edit], "end"), place, mode="interactive")
    await collect(session.send("go"))
    (place / "src" / "a.txt").write_text("more\ninside\n")
    await collect(session.decide(yes("c1_0")))
    events, end = await collect(session.decide(yes("c1_0")))
    assert (end.result, outcomes(events)) == ("end", {"c1_0": "ok"})
    assert (place / "src" / "a.txt").read_text() == "more\nmine\n"
    assert not breaches(store)


async def test_a_new_file_that_exists_meanwhile_asks_again(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([write("new", "x")]), place, mode="interactive")
    await collect(session.send("go"))
    (place / "new").write_text("somebody's\n")
    _, end = await collect(session.decide(yes("c1_0")))
    assert end.exit_code == 3
    assert "new exists now" in waiting(session)[0][1]
    assert (place / "new").read_text() == "somebody's\n"


async def test_edits_of_one_file_that_were_approved_together_run_one_after_the_other(
    store: Store, place: Path
) -> None:
    edits = [
        ("edit_file", {"path": "src/a.txt", "old": "inside", "new": "one"}),
        ("edit_file", {"path": "src/a.txt", "old": "one", "new": "two"}),
    ]
    session = await open_real(store, ScriptedModel(edits, "end"), place, mode="interactive")
    await collect(session.send("go"))
    events, _ = await collect(session.decide(yes("c1_0", "c1_1")))
    assert outcomes(events) == {"c1_0": "ok", "c1_1": "ok"}
    assert (place / "src" / "a.txt").read_text() == "two\n"


async def test_a_change_from_elsewhere_between_two_approved_edits_asks_again(
    store: Store, place: Path
) -> None:
    calls = [
        ("edit_file", {"path": "src/a.txt", "old": "inside", "new": "one"}),
        shell("echo more >> src/a.txt"),
        ("edit_file", {"path": "src/a.txt", "old": "one", "new": "two"}),
    ]
    session = await open_real(store, ScriptedModel(calls, "end"), place, mode="interactive")
    await collect(session.send("go"))
    _, end = await collect(session.decide(yes("c1_0", "c1_1", "c1_2")))
    assert end.exit_code == 3
    assert [call_id for call_id, _ in waiting(session)] == ["c1_2"]
    assert (place / "src" / "a.txt").read_text() == "one\nmore\n"


async def test_another_working_folder_asks_again(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([shell("touch made")]), place, mode="interactive")
    await collect(session.send("go"))
    other = place.parent / "other"
    other.mkdir()
    session = await open_real(reopen(store), ScriptedModel("end"), other, mode="interactive")
    _, end = await collect(session.decide(yes("c1_0")))
    assert end.exit_code == 3
    assert f"the working folder is now {other}" in waiting(session)[0][1]
    assert not (other / "made").exists()
    events, _ = await collect(session.decide(yes("c1_0")))
    assert outcomes(events) == {"c1_0": "ok"}
    assert (other / "made").exists()


async def test_an_edited_call_is_bound_to_what_it_was_changed_to(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([write("one", "x")], "end"), place, mode="interactive")
    await collect(session.send("go"))
    arguments = json.dumps({"path": "two", "content": "y"})
    edited = CallDecision(call_id="c1_0", approved=True, arguments=arguments)
    events, _ = await collect(session.decide([edited], record_only=True))
    (place / "two").write_text("somebody's\n")
    session = await open_real(reopen(store), ScriptedModel("end"), place, mode="interactive")
    events, end = await collect(session.carry_on())
    assert (end.exit_code, outcomes(events)) == (3, {})
    assert "two exists now" in waiting(session)[0][1]
    assert (place / "two").read_text() == "somebody's\n"


async def test_the_new_question_outlives_the_process_with_its_reason(store: Store, place: Path) -> None:
    session = await open_real(store, ScriptedModel([write("new", "x")]), place, mode="interactive")
    await collect(session.send("go"))
    (place / "new").write_text("somebody's\n")
    await collect(session.decide(yes("c1_0")))
    session = await open_real(reopen(store), ScriptedModel(), place, mode="interactive")
    _, end = await collect(session.carry_on())
    assert end.status == "needs_approval"
    assert "new exists now" in end.pending[0].reason


async def test_a_folder_swapped_for_another_asks_again(store: Store, place: Path) -> None:
    outside = place.parent / "docs"
    outside.mkdir()
    (outside / "x").write_text("x")
    look = "list_directory", {"path": str(outside)}
    session = await open_real(store, ScriptedModel([look]), place, mode="interactive")
    await collect(session.send("go"))
    outside.rename(place.parent / "away")
    outside.mkdir()
    _, end = await collect(session.decide(yes("c1_0")))
    assert end.exit_code == 3
    assert "was replaced by another file" in waiting(session)[0][1]


RUNS = {
    "./run.sh": "run.sh",
    "bash run.sh": "run.sh",
    "cd . && sh -x run.sh": "run.sh",
    "FAST=1 env python3 -u tool.py": "tool.py",
    "make -s": "Makefile",
    ". ./run.sh": "run.sh",
}


@pytest.mark.parametrize("command", RUNS)
async def test_a_command_asks_again_when_the_script_that_it_runs_has_changed(
    store: Store, place: Path, command: str
) -> None:
    script = place / RUNS[command]
    script.write_text("all:\n\ttrue\n" if command == "make -s" else "#!/bin/sh\n")
    script.chmod(0o755)
    session = await open_real(store, ScriptedModel([shell(command)]), place, mode="interactive")
    await collect(session.send("go"))
    with script.open("a") as file:
        file.write("\techo > made\n" if command == "make -s" else "open('made', 'w')\n")
    _, end = await collect(session.decide(yes("c1_0")))
    assert end.exit_code == 3
    assert f"{RUNS[command]} has changed" in waiting(session)[0][1]
    assert not (place / "made").exists()


async def test_a_script_that_was_approved_with_the_command_that_runs_it_runs(
    store: Store, place: Path
) -> None:
    calls = [write("run.sh", "echo ran > made\n"), shell("sh run.sh")]
    session = await open_real(store, ScriptedModel(calls, "end"), place, mode="interactive")
    await collect(session.send("go"))
    events, _ = await collect(session.decide(yes("c1_0", "c1_1")))
    assert outcomes(events) == {"c1_0": "ok", "c1_1": "ok"}
    assert (place / "made").read_text() == "ran\n"


async def test_a_script_that_is_as_it_was_runs(store: Store, place: Path) -> None:
    (place / "run.sh").write_text("echo ran > made\n")
    session = await open_real(store, ScriptedModel([shell("sh run.sh")], "end"), place, mode="interactive")
    await collect(session.send("go"))
    session = await open_real(reopen(store), ScriptedModel("end"), place, mode="interactive")
    events, _ = await collect(session.decide(yes("c1_0")))
    assert outcomes(events) == {"c1_0": "ok"}
    assert (place / "made").exists()


async def tampered(store: Store, place: Path) -> Session:
    """Open a session in which a waiting call was replaced by another one, with a chain that fits."""
    session = await open_real(store, ScriptedModel([shell("touch a")]), place, mode="interactive")
    await collect(session.send("go"))
    [(log, idx, body)] = store.database.query(
        "SELECT log, idx, body FROM messages WHERE session_id = ? AND body LIKE ?", ("s1", "%touch a%")
    )
    update = "UPDATE messages SET body = ? WHERE session_id = ? AND log = ? AND idx = ?"
    store.database.commit([(update, (body.replace("touch a", "touch b"), "s1", log, idx))])
    chain_again(store)
    return await open_real(reopen(store), ScriptedModel("end"), place, mode="interactive")


async def test_a_call_that_was_changed_in_the_store_after_it_was_proposed_is_refused(
    store: Store, place: Path
) -> None:
    session = await tampered(store, place)
    assert "touch b" in session.state.pending_tool_calls[0].arguments
    session.change_mode("yolo")
    events, _ = await collect(session.carry_on())
    [refusal] = [event for event in events if isinstance(event, ToolFinished)]
    assert refusal.outcome == "error"
    assert "not those that were proposed" in refusal.content
    assert not (place / "b").exists()


async def test_a_call_that_was_changed_in_the_store_after_it_was_approved_is_refused(
    store: Store, place: Path
) -> None:
    session = await open_real(store, ScriptedModel([shell("touch a")]), place, mode="interactive")
    await collect(session.send("go"))
    edit = CallDecision(call_id="c1_0", approved=True, arguments=json.dumps({"command": "touch c"}))
    await collect(session.decide([edit], record_only=True))
    rows = store.database.query(
        "SELECT seq, fields FROM steps WHERE session_id = ? AND fields LIKE ?", ("s1", "%touch c%")
    )
    assert rows
    update = "UPDATE steps SET fields = ? WHERE session_id = ? AND seq = ?"
    store.database.commit([(update, (text.replace("touch c", "touch b"), "s1", seq)) for seq, text in rows])
    chain_again(store)
    session = await open_real(reopen(store), ScriptedModel("end"), place, mode="interactive")
    events, _ = await collect(session.carry_on())
    assert outcomes(events) == {"c1_0": "error"}
    assert not (place / "b").exists()


async def test_write_file_does_not_replace_what_has_changed_since_the_model_read_it(
    store: Store, place: Path
) -> None:
    file = place / "src" / "a.txt"
    first = await open_real(store, ScriptedModel([read("src/a.txt")], "end"), place)
    await collect(first.send("go"))
    file.write_text("somebody's\n")
    model = ScriptedModel(
        [write("src/a.txt", "mine\n")], [read("src/a.txt")], [write("src/a.txt", "mine\n")], "end"
    )
    session = await open_real(reopen(store), model, place)
    events, _ = await collect(session.send("go"))
    contents = [event.content for event in events if isinstance(event, ToolFinished)]
    assert contents[0] == "src/a.txt has changed since you read it: nothing was written. Read it again."
    assert file.read_text() == "mine\n"


async def test_write_file_goes_on_from_what_the_model_itself_wrote_or_read_before(
    store: Store, place: Path
) -> None:
    edit = "edit_file", {"path": "src/a.txt", "old": "inside", "new": "edited"}
    calls = [edit, write("src/a.txt", "two\n"), write("new", "x"), write("new", "y")]
    first = await open_real(store, ScriptedModel(calls, "end"), place)
    events, _ = await collect(first.send("go"))
    assert set(outcomes(events).values()) == {"ok"}
    session = await open_real(reopen(store), ScriptedModel([write("new", "z")], "end"), place)
    events, _ = await collect(session.send("go"))
    assert set(outcomes(events).values()) == {"ok"}
