"""`sandbur resume --due` carries on what waits for nobody, and leaves the rest alone."""

import time

from support.commands.command import Command
from support.commands.killed import effects, kill_in_command
from support.models.server import Answer, ModelServer, call, fail, say

JSON = ("--output-format", "json")


def keys(server: ModelServer) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}


def overloaded(command: Command, server: ModelServer, prompt: str = "hello", wait_s: int = 120) -> str:
    """Leave a run that the provider has turned away for `wait_s`; return the session's id."""
    ended = command.run("-p", prompt, "-m", "anthropic/claude-test", *JSON, **keys(server))
    assert (ended.code, ended.result["status"]) == (75, "rate_limited")
    return ended.result["session_id"]


def past(command: Command, session_id: str) -> None:
    """Let the time of a run have come."""
    import sqlite3

    with sqlite3.connect(command.folder / "data" / "sandbur.db") as database:
        database.execute(
            "UPDATE heads SET wake_at = '2020-01-01T00:00:00.000+00:00' WHERE session_id = ?", (session_id,)
        )
    database.close()


def busy() -> Answer:
    return fail(529, "overloaded", retry_after=3600)


def test_nothing_is_due_in_an_empty_store(command: Command) -> None:
    assert command.run("resume", "--due").code == 0
    assert command.run("resume", "--due", *JSON).result == {
        "type": "due", "exit_code": 0, "runs": [], "skipped": [],
    }  # fmt: skip


def test_a_run_that_was_turned_away_goes_on_when_its_time_has_come(command: Command) -> None:
    with ModelServer([busy(), say("better now")]) as server:
        session_id = overloaded(command, server)
        early = command.run("resume", "--due", **keys(server))
        assert (early.code, early.out) == (0, "")
        past(command, session_id)
        ended = command.run("resume", "--due", **keys(server))
        assert (ended.code, ended.out.split()) == (0, [session_id, "done", "hello"])
        assert command.run("resume", "--due").out == ""


def test_a_dry_run_only_says_which(command: Command) -> None:
    session_id = kill_in_command(command)
    dry = command.run("resume", "--due", "--dry-run")
    assert dry.out.startswith(session_id)
    assert "its process died" in dry.out
    found = command.run("resume", "--due", "--dry-run", *JSON).result["runs"]
    assert [run["session_id"] for run in found] == [session_id]
    assert command.run("resume", "--due", "--dry-run").out == dry.out


def test_a_run_whose_process_died_goes_on_until_it_needs_a_person(command: Command) -> None:
    session_id = kill_in_command(command)
    ended = command.run("resume", "--due")
    assert (ended.code, ended.out.split()[:2]) == (3, [session_id, "needs_decision"])
    assert f"sandbur settle {session_id}" in ended.err
    assert effects(command) == 1
    again = command.run("resume", "--due")
    assert (again.code, again.out) == (0, "")


def test_what_a_person_stopped_or_finished_is_not_due(command: Command) -> None:
    command.run("-p", "hello", "-m", "demo")
    command.run("-p", "run touch made", "-m", "demo")
    assert command.run("resume", "--due", "--dry-run").out == ""


def test_every_run_keeps_its_own_folder_model_and_mode(command: Command) -> None:
    words = ("-m", "anthropic/claude-test", "--yolo", *JSON)
    answers = [
        busy(), call("run_shell_command", command="pwd; touch here"), say("one"), busy(),
        call("run_shell_command", command="touch here"), say("two"),
    ]  # fmt: skip
    with ModelServer([answers[0], answers[3], *answers[1:3], *answers[4:]]) as server:
        for name in ("first", "second"):
            (command.folder / name).mkdir()
            ended = command.run("-p", name, "-C", name, *words, **keys(server))
            past(command, ended.result["session_id"])
        ended = command.run("resume", "--due", *JSON, **keys(server))
    assert [run["result"] for run in ended.result["runs"]] == ["one", "two"]
    assert (command.folder / "first" / "here").exists()
    assert (command.folder / "second" / "here").exists()
    assert not (command.folder / "here").exists()


def test_the_first_that_ends_badly_gives_the_exit_code_and_the_others_still_run(command: Command) -> None:
    with ModelServer([busy(), busy(), fail(401, "no such key"), say("fine")]) as server:
        for prompt in ("first", "second"):
            past(command, overloaded(command, server, prompt))
        ended = command.run("resume", "--due", **keys(server))
    assert ended.code == 41
    assert [line.split()[1:] for line in ended.out.splitlines()] == [["error", "first"], ["done", "second"]]


def test_a_run_that_cannot_be_opened_does_not_stop_the_others(command: Command) -> None:
    (command.folder / "gone").mkdir()
    with ModelServer([busy(), busy(), say("fine")]) as server:
        ended = command.run("-p", "first", "-C", "gone", "-m", "anthropic/claude-test", *JSON, **keys(server))
        past(command, ended.result["session_id"])
        past(command, overloaded(command, server, "second"))
        (command.folder / "gone").rmdir()
        ended = command.run("resume", "--due", **keys(server))
    assert ended.code == 2
    assert [line.split()[1:] for line in ended.out.splitlines()] == [["error", "first"], ["done", "second"]]
    assert "gone, is gone" in ended.err


def test_a_limit_leaves_the_rest_for_later(command: Command) -> None:
    with ModelServer([busy(), busy(), say("one"), say("two")]) as server:
        for prompt in ("first", "second"):
            past(command, overloaded(command, server, prompt))
        one = command.run("resume", "--due", "--limit", "1", **keys(server))
        assert [line.split()[2] for line in one.out.splitlines()] == ["first"]
        rest = command.run("resume", "--due", **keys(server))
        assert [line.split()[2] for line in rest.out.splitlines()] == ["second"]


def test_a_run_of_another_process_is_skipped_and_named(command: Command) -> None:
    process = command.start("-p", "run touch begun; sleep 600", "-m", "demo", "--yolo")
    try:
        end = time.monotonic() + 120
        while not (command.folder / "begun").exists():
            assert time.monotonic() < end, "the command did not start"
            time.sleep(0.02)
        ended = command.run("resume", "--due")
        assert (ended.code, ended.out) == (0, "")
        assert f"is running in process {process.pid}" in ended.err
        assert command.run("resume", "--due", "-q").err == ""
    finally:
        process.terminate()
        process.communicate()


def test_the_stream_holds_the_events_of_every_run(command: Command) -> None:
    with ModelServer([busy(), busy(), say("one"), say("two")]) as server:
        ids = [overloaded(command, server, prompt) for prompt in ("first", "second")]
        for session_id in ids:
            past(command, session_id)
        lines = command.run("resume", "--due", "--output-format", "stream-json", **keys(server)).lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    ends = [(line["session_id"], line["result"]) for line in lines if line["type"] == "result"]
    assert ends == list(zip(ids, ["one", "two"], strict=True))


def test_resume_without_due_names_the_way_to_resume_one(command: Command) -> None:
    ended = command.run("resume")
    assert ended.code == 2
    assert "sandbur -r ID" in ended.err
