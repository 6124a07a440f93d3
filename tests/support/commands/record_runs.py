"""Records a run of every workflow into tests/recordings, for test_recordings.py to replay.

Usage, in tests/: python -m support.commands.record_runs [NAME...]. Run it after an intended change of the
program's behaviour.
"""

import json
import signal
import sys
from collections.abc import Sequence

from support.commands.run_recorder import PLACE, RunRecorder
from support.models.server import Answer, ToolCall, call, calls, fail, say, stall


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", json.dumps({"path": path, "content": content}))


def chat() -> None:
    script = [say("Paris.", reasoning="Easy."), fail(503, "busy"), say("About two million people.")]
    with RunRecorder.make("chat", script) as run:
        run.start("What is the capital of France?")
        run.on("How many people live there?")
        run.keep("chat")


def tools() -> None:
    """Every built-in tool, several calls at once, calls that fail, and one that is no call at all."""
    edit = {"path": "notes.txt", "old": "two", "new": "three"}
    script: list[Answer] = [
        calls(write("notes.txt", "one\ntwo\n"), write("sub/other.txt", "other\n")),
        calls(
            ToolCall("read_file", '{"path": "notes.txt"}'),
            ToolCall("list_directory", '{"path": "."}'),
            ToolCall("glob", '{"pattern": "**/*.txt"}'),
            ToolCall("grep", '{"pattern": "two"}'),
        ),
        calls(ToolCall("edit_file", json.dumps(edit)), ToolCall("edit_file", json.dumps(edit))),
        call("run_shell_command", command="cat notes.txt | sort; rm -r sub; exit 3"),
        calls(ToolCall("read_file", '{"path": '), ToolCall("no_such_tool", "{}")),
        call("read_file", path="missing.txt"),
        say("notes.txt holds one and three."),
    ]
    for provider, name in (("openai-chat", "tools"), ("anthropic", "tools_anthropic"),
                           ("openai-responses", "tools_responses")):  # fmt: skip
        with RunRecorder.make(name, script, provider) as run:
            run.start("Try every tool.", "--yolo", model=f"{provider}/demo")
            run.keep(name)


def plan() -> None:
    """A plan whose second step fails, and is made good by another one."""
    script: list[Answer] = [
        call("start_plan", goal="count the lines"),
        call("submit_plan", steps=[{"description": "write a list"}, {"description": "count it"}]),
        calls(write("list.txt", "a\nb\nc\n")),
        call("finish_step", status="completed", summary="list.txt has lines"),
        call("run_shell_command", command="wc -l < lists.txt"),
        call("finish_step", status="failed", summary="there is no lists.txt"),
        call("submit_plan", steps=[{"description": "count list.txt"}]),
        call("run_shell_command", command="wc -l < list.txt"),
        say("There are 3 lines."),
        say("list.txt has 3 lines."),
    ]
    with RunRecorder.make("plan", script) as run:
        run.start("Write a list, then count its lines.", "--yolo")
        run.keep("plan")


def goal_not_reached() -> None:
    failing = call("finish_step", status="failed", summary="no way")
    script: list[Answer] = [
        call("start_plan", goal="the impossible"),
        *[call("submit_plan", steps=[{"description": "try"}]), failing] * 4,
        say("It cannot be done."),
    ]
    with RunRecorder.make("goal_not_reached", script) as run:
        run.start("Do the impossible.", "--yolo")
        run.keep("goal_not_reached")


def approvals() -> None:
    """Approved, edited, denied by a person with a reason, denied by a rule, allowed by a rule."""
    script: list[Answer] = [
        calls(write("a.txt", "one\n"), write("b.txt", "two\n"), write("c.txt", "three\n")),
        call("run_shell_command", command="rm -rf /srv/demo/site/x"),
        call("run_shell_command", command="touch done"),
        say("a.txt and b.txt are written; c.txt is not."),
    ]
    rules = ("--deny", "run_shell_command(rm *)", "--allow", "run_shell_command(touch *)")
    with RunRecorder.make("approvals", script) as run:
        run.start("Write three files.", *rules)
        first, second, third = run.pending()
        run.run("approve", run.id, first, "--record-only")
        edit = PLACE / "edit.json"
        edit.write_text(json.dumps({"path": "b.txt", "content": "other\n"}))
        run.run("approve", run.id, second, "--edit", str(edit), "--record-only")
        run.run("deny", run.id, third, "--reason", "two are enough")
        run.keep("approvals")


def settled() -> None:
    """The process dies while a command runs; a person settles the call."""
    command = "echo x >> effects; sleep 600"
    script: list[Answer] = [
        call("run_shell_command", command=command),
        call("run_shell_command", command=command),
        call("run_shell_command", command="cat effects"),
        say("It took effect twice."),
    ]
    effects = PLACE / "site/effects"
    allow = ("--allow", "run_shell_command(*)")
    with RunRecorder.make("settled", script) as run:
        begin = ("-p", "Do it.", "-m", "openai-chat/demo", "--session-id", run.id, *allow)
        run.stop_when(effects.exists, signal.SIGKILL, *begin)
        run.resume()
        (first,) = run.pending()
        settle = ("settle", run.id, first, "--as", "done", "--result", "I looked.")
        run.stop_when(lambda: effects.read_text() == "x\nx\n", signal.SIGKILL, *settle)
        run.resume()
        (second,) = run.pending()
        run.run("settle", run.id, second, "--as", "failed")
        run.keep("settled")


def carried_on() -> None:
    """The process dies in the middle of a turn; finished calls do not run again."""
    script: list[Answer] = [
        calls(
            write("a.txt", "one\n"), ToolCall("run_shell_command", '{"command": "touch began; sleep 600"}')
        ),
        say("Written."),
    ]
    with RunRecorder.make("carried_on", script) as run:
        begin = ("-p", "Write, then wait.", "-m", "openai-chat/demo", "--session-id", run.id, "--yolo")
        run.stop_when((PLACE / "site/began").exists, signal.SIGKILL, *begin)
        run.resume()
        run.keep("carried_on")


def interrupted() -> None:
    """Ctrl-C while the model speaks, and while a command runs; a message in between."""
    script: list[Answer] = [
        stall(say("This takes long")),
        call("run_shell_command", command="touch began; sleep 600"),
        say("It was stopped."),
        say("Fine."),
    ]
    began = PLACE / "site/began"
    with RunRecorder.make("interrupted", script) as run:
        first = ("-p", "Wait.", "-m", "openai-chat/demo", "--session-id", run.id, "--yolo")
        run.stop_when(lambda: run.server.served > 0, signal.SIGINT, *first)
        run.stop_when(began.exists, signal.SIGINT, "-p", "-r", run.id)
        run.resume()
        run.on("Never mind.")
        run.keep("interrupted")


def compressed() -> None:
    """The window is small, so that earlier messages are replaced by a summary."""
    script: list[Answer] = [
        call("run_shell_command", command="seq 1 2500"),
        call("run_shell_command", command="seq 2500 5000"),
        say("The person wants to see numbers; they were shown up to 5000."),
        say("There are many numbers."),
        say("5000."),
    ]
    with RunRecorder.make("compressed", script) as run:
        run.start("Show me many numbers.", "--yolo", model="openai-chat/small")
        run.on("What was the last one?")
        run.keep("compressed")


def fork() -> None:
    """A fork from a middle step with another question, and with the files as of that step."""
    script: list[Answer] = [
        calls(write("a.txt", "one\n")),
        say("Written."),
        calls(write("a.txt", "two\n")),
        say("Written again."),
        calls(write("a.txt", "three\n")),
        say("Three now."),
    ]
    with RunRecorder.make("fork", script) as run:
        run.start("Write one.", "--yolo")
        run.on("Write two.")
        edit = ("--set", "user_input=Write three.")
        forked = run.run("fork", run.id, "--at", "4", "--files", "--yes", *edit).out.strip()
        run.run("-p", "-r", forked)
        run.keep("fork", forked)


def mode() -> None:
    """A call waits, a message is sent instead of a decision, and `/mode` lets the next call run unasked."""
    script: list[Answer] = [
        calls(write("a.txt", "one\n")),
        say("As you like."),
        calls(write("a.txt", "two\n")),
        say("Written."),
    ]
    with RunRecorder.make("mode", script) as run:
        run.start("Write one.")
        run.on("Not that.")
        run.on("/mode auto-edit")
        run.on("Write two.")
        run.keep("mode")


ALL = (
    chat,
    tools,
    plan,
    goal_not_reached,
    approvals,
    settled,
    carried_on,
    interrupted,
    compressed,
    fork,
    mode,
)


def main(names: Sequence[str]) -> None:
    for record in ALL:
        if not names or record.__name__ in names:
            print(record.__name__, flush=True)
            record()


if __name__ == "__main__":
    main(sys.argv[1:])
