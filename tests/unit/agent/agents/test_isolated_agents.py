"""A sub-agent with `isolation: copy` changes only its copy; its parent gets the difference."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, Request, Turn, call, say
from support.models.talk import environment
from support.samples.trial_folders import list_files

from sandbur.agent.review.trials.trial import TrialPlace, list_trials


@pytest.fixture
def workspace(command: Command) -> Path:
    folder = command.folder / "ws"
    folder.mkdir()
    (folder / "one.txt").write_text("one\n")
    place = command.folder / ".config" / "sandbur" / "agents"
    place.mkdir(parents=True)
    (place / "x.md").write_text("---\nname: x\ndescription: Does x.\nisolation: copy\n---\nDo it.\n")
    return folder


def results_of(request: Request) -> list[str]:
    return [message["content"] for message in request.body["messages"] if message["role"] == "tool"]


def is_child(request: Request) -> bool:
    return "Do it." in json.dumps(request.body["messages"][0])


def run(command: Command, reply: Any, *words: str) -> Ended:
    with ModelServer(reply) as server:
        line = ("-m", "openai-chat/gpt-test", "--output-format", "json", *words)
        ended = command.run(*line, **environment(server))
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    return ended


def write_in_child(parent: Any) -> Any:
    """Return a script in which the sub-agent writes two files, and `parent` answers the requests above it."""

    def reply(request: Request) -> Turn:
        if not is_child(request):
            return parent(request)
        done = results_of(request)
        if not done:
            return call("write_file", path="one.txt", content="ONE\n")
        if len(done) == 1:
            return call("write_file", path="new/two.txt", content="two\n")
        return say("I did it")

    return reply


def start_and_answer(request: Request) -> Turn:
    done = results_of(request)
    return say(done[-1]) if done else call("task", description="do", prompt="go", agent="x")


def start_and_apply(request: Request) -> Turn:
    done = results_of(request)
    if len(done) == 2:
        return say(done[-1])
    if done:
        return call("apply_trial", trial=done[0].partition("(trial ")[2].partition(")")[0])
    return call("task", description="do", prompt="go", agent="x")


def test_the_parent_gets_the_difference_and_the_folder_stays(command: Command, workspace: Path) -> None:
    ended = run(command, write_in_child(start_and_answer), "-p", "go", "-C", str(workspace), "-y")
    text = ended.result["result"]
    assert text.startswith("I did it")
    assert "it changed 2 files" in text
    assert "-one" in text
    assert "+ONE" in text
    assert list_files(workspace) == {"one.txt": "one\n"}
    [trial] = command.run("try", "list", "--json").lines
    assert trial["state"] == "ended"
    assert f"sandbur try apply {trial['id']}" in text
    applied = command.run("try", "apply", trial["id"], "--yes", "-C", str(workspace), "-m", "demo")
    assert applied.code == 0, applied.err
    assert list_files(workspace) == {"new/two.txt": "two\n", "one.txt": "ONE\n"}


@pytest.mark.parametrize(("mode", "code"), [("auto-edit", 0), ("yolo", 0)])
def test_the_model_of_the_parent_applies_it_by_a_call(
    command: Command, workspace: Path, mode: str, code: int
) -> None:
    ended = run(command, write_in_child(start_and_apply), "-p", "go", "-C", str(workspace), "--mode", mode)
    assert (ended.code, ended.result["status"]) == (code, "done")
    assert "1 file added, 1 file changed" in ended.result["result"]
    assert list_files(workspace) == {"new/two.txt": "two\n", "one.txt": "ONE\n"}


def test_the_question_about_the_call_of_a_model_shows_the_difference(
    command: Command, workspace: Path
) -> None:
    script = write_in_child(start_and_apply)
    ended = run(command, script, "-p", "go", "-C", str(workspace), "-y", "--ask", "apply_trial")
    assert ended.code == 3
    [waiting] = ended.result["pending"]
    assert "-one\n+ONE" in waiting["changes"]
    session = ended.result["session_id"]
    assert "+ONE" in command.run("sessions", "show", session).out
    with ModelServer(script) as server:
        approved = command.run("approve", session, "--all", **environment(server))
    assert approved.code == 0, approved.err
    assert list_files(workspace) == {"new/two.txt": "two\n", "one.txt": "ONE\n"}
    replayed = command.run("replay", session)
    assert replayed.code == 0, replayed.out + replayed.err


def test_a_deny_rule_for_the_call_keeps_the_model_from_applying(command: Command, workspace: Path) -> None:
    allowed = ("--allow", "write_file(one.txt)", "--allow", "write_file(new/*)")
    script = write_in_child(start_and_apply)
    ended = run(command, script, "-p", "go", "-C", str(workspace), *allowed, "--deny", "apply_trial")
    assert "Denied by" in ended.result["result"]
    assert list_files(workspace) == {"one.txt": "one\n"}


def test_a_deny_rule_with_a_path_of_the_folder_holds_in_the_copy(command: Command, workspace: Path) -> None:
    rule = f"write_file({workspace}/new/**)"
    ended = run(
        command, write_in_child(start_and_answer), "-p", "go", "-C", str(workspace), "-y", "--deny", rule
    )
    text = ended.result["result"]
    assert "it changed 1 file," in text
    assert "new/two.txt" not in text.partition("it changed")[2]


def test_a_copy_that_cannot_be_made_is_an_error_and_the_agent_does_not_start(
    command: Command, workspace: Path
) -> None:
    # The data of Sandbur is in this folder.
    ended = run(command, write_in_child(start_and_answer), "-p", "go", "-y")
    text = ended.result["result"]
    assert text.startswith("The sub-agent could not start: ")
    assert "a copy of this folder would take the records of Sandbur along" in text


def test_the_copy_survives_a_kill_and_the_sub_agent_goes_on_in_it(command: Command, workspace: Path) -> None:
    script = write_in_child(start_and_answer)
    with ModelServer(script) as server:
        line = ("-m", "openai-chat/gpt-test", "--output-format", "json", "-y")
        died = command.run(
            *line, "-p", "go", "-C", str(workspace), SANDBUR_CRASH_AT="tool_ran:2", **environment(server)
        )
        assert died.code == -9, died.err
        [session] = command.run("sessions", "list", "--json").lines
        resumed = command.run(*line, "-p", "-r", session["id"], **environment(server))
    assert "it changed 2 files" in resumed.result["result"]
    assert list_files(workspace) == {"one.txt": "one\n"}


def test_no_other_process_works_in_the_copy_while_the_sub_agent_runs(
    command: Command, workspace: Path
) -> None:
    script, home = write_in_child(start_and_answer), command.folder / "data"
    seen: list[bool] = []

    def reply(request: Request) -> Turn:
        if is_child(request):
            seen.extend(TrialPlace(home, trial.id).is_in_use for trial in list_trials(home))
        return script(request)

    run(command, reply, "-p", "go", "-C", str(workspace), "-y")
    assert seen == [True, True, True]
    [trial] = list_trials(home)
    assert not TrialPlace(home, trial.id).is_in_use
