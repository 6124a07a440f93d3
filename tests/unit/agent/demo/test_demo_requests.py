"""What the demo makes of single requests and results."""

import pytest
from support.models.demo_walk import answer_message, ask, call, shell

from sandbur.actions.ports import Reply
from sandbur.actions.turn.plan.decision_tools import DECISION_TOOLS, PLAN_FINISHED
from sandbur.agent.models.demo.diagnosis import FOLDERS, LOAD
from sandbur.state.conversation.messages import Outcome, person_message, runtime_message
from sandbur.state.conversation.transcript import Transcript


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("!ls -la", "run_shell_command", {"command": "ls -la"}),
        ("run uname -a", "run_shell_command", {"command": "uname -a"}),
        ("please run the command `df -h`", "run_shell_command", {"command": "df -h"}),
        ("read README.md", "read_file", {"path": "README.md"}),
        ("show me the file Makefile", "read_file", {"path": "Makefile"}),
        ("cat src/a.py", "read_file", {"path": "src/a.py"}),
        ("create file a.txt with hello world", "write_file", {"path": "a.txt", "content": "hello world\n"}),
        ('create a file "a.txt" with "x y"', "write_file", {"path": "a.txt", "content": "x y\n"}),
        ("create file empty.txt", "write_file", {"path": "empty.txt", "content": ""}),
        ("write hello to a.txt", "write_file", {"path": "a.txt", "content": "hello\n"}),
        ("replace old with new in a.txt", "edit_file", {"path": "a.txt", "old": "old", "new": "new"}),
        ("search for TODO (x)", "grep", {"pattern": "TODO\\ \\(x\\)"}),
        ("what is in this folder?", "list_directory", {"path": "."}),
        ("What's in this project", "list_directory", {"path": "."}),
        ("list the files", "list_directory", {"path": "."}),
        ("My web site is slow, find out why", "start_plan", {"goal": "My web site is slow, find out why"}),
    ],
)
async def test_a_request_becomes_the_call_it_asks_for(
    text: str, tool: str, arguments: dict[str, str]
) -> None:
    assert call(await ask(Transcript.of(person_message(text)))) == (tool, arguments)


@pytest.mark.parametrize(
    "text", ["hello", "help", "what can you do?", "", "write me a poem", "?", "x" * 5000]
)
async def test_anything_else_gets_told_what_the_demo_can_do(text: str) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert not reply.message.tool_uses
    assert "no language model" in reply.message.text
    assert "my web site is slow" in reply.message.text


async def after(text: str, outcome: Outcome, content: str) -> Reply:
    history = Transcript.of(person_message(text))
    reply = await ask(history)
    return await ask(
        history.append(reply.message, *answer_message(reply.message, lambda use: (outcome, content)))
    )


async def test_a_result_is_told_as_it_is() -> None:
    reply = await after("run echo hi", "ok", "hi\n[exit code 0]")
    assert reply.message.text == "`echo hi` gave:\n\n    hi\n    [exit code 0]"
    reply = await after("run false", "error", "[exit code 1]")
    assert reply.message.text.startswith("`false` failed.")
    reply = await after("run seq 99", "ok", "\n".join(map(str, range(99))))
    assert reply.message.text.endswith("... 59 more lines")


async def test_a_denied_or_unknown_result_is_told_as_such() -> None:
    denied = await after("run make", "denied", "Denied by the user: no. It did not run.")
    assert denied.message.text == "`make` was not run. Denied by the user: no. It did not run."
    unknown = await after("run make", "unknown", "x")
    assert "may or may not have taken effect" in unknown.message.text
    assert not unknown.message.tool_uses


async def test_a_listing_with_a_readme_leads_to_reading_it() -> None:
    history = Transcript.of(person_message("what is in this project?"))
    listing = await ask(history)
    history = history.append(
        listing.message, *answer_message(listing.message, lambda use: ("ok", "README.md\nsrc/"))
    )
    reading = await ask(history)
    assert call(reading) == ("read_file", {"path": "README.md", "limit": 20})
    history = history.append(
        reading.message, *answer_message(reading.message, lambda use: ("ok", "1: # Title"))
    )
    said = (await ask(history)).message.text
    assert "src/" in said
    assert "# Title" in said


async def test_only_the_newest_request_counts() -> None:
    history = Transcript.of(person_message("run echo a"))
    first = await ask(history)
    history = history.append(first.message, *answer_message(first.message, shell))
    history = history.append((await ask(history)).message, person_message("read b.txt"))
    assert call(await ask(history)) == ("read_file", {"path": "b.txt"})


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    history = Transcript.of(person_message("run ls"))
    reply = await ask(history, specs=DECISION_TOOLS)
    assert not reply.message.tool_uses
    assert "run_shell_command" in reply.message.text
    child = Transcript.of(runtime_message(f"Step 1 of 2: {LOAD.title}"))
    tool, arguments = call(await ask(history, child, specs=DECISION_TOOLS))
    assert (tool, arguments["status"]) == ("finish_step", "failed")


async def test_a_step_it_does_not_know_is_refused_plainly() -> None:
    child = Transcript.of(runtime_message("Step 1 of 1: Paint the house\n\nGoal: x"))
    tool, arguments = call(await ask(Transcript.of(person_message("x")), child))
    assert tool == "finish_step"
    assert arguments == {"status": "failed", "summary": "The demo has no program for: Paint the house"}


async def test_a_summary_keeps_what_was_said_and_how_steps_ended() -> None:
    kept = "user: my site is slow\nassistant: Step 1 completed: Load: fine."
    older = f"{kept}\nresult (ok): noise\nassistant: noise"
    asked = f"Below is the older part of this session. Summarize it.\n\n{older}"
    reply = await ask(Transcript.of(runtime_message(asked)))
    assert reply.message.text == kept


async def test_it_goes_on_after_a_compression() -> None:
    pinned = "The user's last message: the disk is full\nMode: yolo\nGoal: the disk is full"
    summary = f"{pinned}\n\nSummary of what came before:\nassistant: Step 1 completed: Disk: fullest at 12 %."
    history = Transcript.of(runtime_message(summary))
    tool, arguments = call(await ask(history, forced="submit_plan"))
    assert (tool, arguments) == ("submit_plan", {"steps": [{"description": FOLDERS.title}]})
    report = await ask(history.append(runtime_message(PLAN_FINISHED)))
    assert "Disk: fullest at 12 %." in report.message.text
