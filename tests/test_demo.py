"""The demo model, driven by the real output of the commands it asks for."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from actions.decisions import DECISION_TOOLS, PLAN_FINISHED
from actions.events import TextDelta
from actions.ports import ModelRequest, Reply, ToolSpec
from agent.models import demo_readings as read
from agent.models.demo import DemoModel
from agent.models.demo_probes import DISK, FOLDERS, LOAD, WEB
from state.messages import (
    Message,
    Outcome,
    ToolResult,
    ToolUse,
    assistant_said,
    person_said,
    runtime_said,
    tool_answered,
)
from state.transcript import Transcript

WORKING_TOOLS = ("run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "grep")
SPECS = (*(ToolSpec(name, "", {"type": "object"}) for name in WORKING_TOOLS), *DECISION_TOOLS)
Runner = Callable[[ToolUse], tuple[Outcome, str]]


def shell(use: ToolUse) -> tuple[Outcome, str]:
    """Run the command for real and answer as a tool would."""
    command = json.loads(use.arguments)["command"]
    done = subprocess.run(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return (
        "ok" if done.returncode == 0 else "error",
        f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]",
    )


async def ask(*histories: Transcript, forced: str | None = None, specs: Sequence[ToolSpec] = SPECS) -> Reply:
    """Ask the model once and check that its stream is a proper one."""
    request = ModelRequest("system", tuple(specs), histories, forced)
    items = [item async for item in DemoModel().stream(request)]
    reply = items[-1]
    assert isinstance(reply, Reply)
    deltas = [item for item in items[:-1] if isinstance(item, TextDelta)]
    assert len(deltas) == len(items) - 1
    assert "".join(delta.delta for delta in deltas) == reply.message.text
    assert reply.finish == ("tool_calls" if reply.message.tool_uses else "stop")
    assert reply.usage.llm_calls == 1
    assert reply.usage.cost_usd == 0
    assert reply.usage.input_tokens
    assert reply.usage.output_tokens
    assert reply.message.blocks
    return reply


def answered(message: Message, run: Runner) -> list[Message]:
    messages: list[Message] = []
    for use in message.tool_uses:
        outcome, content = run(use)
        result = ToolResult(call_id=use.call_id, tool=use.tool, outcome=outcome, content=content)
        messages.append(tool_answered(result))
    return messages


def call(reply: Reply) -> tuple[str, dict[str, Any]]:
    (use,) = reply.message.tool_uses
    return use.tool, json.loads(use.arguments)


@dataclass
class Walk:
    """A whole plan, walked as the graph does."""

    run: Runner
    outputs: list[str] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    plans: list[list[str]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""

    async def of(self, request: str) -> "Walk":
        history = Transcript.of(person_said(request))
        reply = await ask(history)
        tool, arguments = call(reply)
        assert (tool, arguments) == ("start_plan", {"goal": request})
        history = history.append(reply.message, *answered(reply.message, lambda use: ("ok", "Plan first.")))
        history, pending = await self._plan(history)
        number = 0
        while pending:
            number += 1
            title = pending.pop(0)
            status, summary = await self._step(history, number, number + len(pending), title)
            self.steps.append((status, summary))
            history = history.append(assistant_said(f"Step {number} {status}: {summary}", "runtime"))
            if status == "failed":
                history = history.append(runtime_said(f"Step {number} failed. Revise the plan."))
                history, pending = await self._plan(history)
        reply = await ask(history.append(runtime_said(PLAN_FINISHED)))
        assert not reply.message.tool_uses
        self.answer = reply.message.text
        return self

    async def _plan(self, history: Transcript) -> tuple[Transcript, list[str]]:
        reply = await ask(history, forced="submit_plan")
        tool, arguments = call(reply)
        assert tool == "submit_plan"
        titles = [step["description"] for step in arguments["steps"]]
        self.plans.append(titles)
        return history.append(reply.message, *answered(reply.message, lambda use: ("ok", "Accepted."))), list(
            titles
        )

    async def _step(self, history: Transcript, number: int, count: int, title: str) -> tuple[str, str]:
        child = Transcript.of(
            runtime_said(f"Step {number} of {count}: {title}\n\nGoal: x\nWork on this step only.")
        )
        for _ in range(6):
            reply = await ask(history, child)
            tool, arguments = call(reply)
            self.call_ids += [use.call_id for use in reply.message.tool_uses]
            if tool == "finish_step":
                return arguments["status"], arguments["summary"]
            results = answered(reply.message, self.run)
            self.outputs += [
                block.content for m in results for block in m.blocks if isinstance(block, ToolResult)
            ]
            child = child.append(reply.message, *results)
        raise AssertionError("the step does not end")


class Site(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@asynccontextmanager
async def serving(answer: int) -> AsyncIterator[str]:
    class Mine(Site):
        status = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    thread.join()


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async with serving(200) as url:
        yield url


async def test_a_slow_site_is_looked_into_with_numbers_from_the_real_output(site: str) -> None:
    walk = await Walk(shell).of(f"my web site {site} is slow, find out why")
    assert len(walk.plans) == 1
    assert len(walk.plans[0]) >= 2
    assert [status for status, _ in walk.steps] == ["completed"] * 3
    load_output, web_output, timing_output, disk_output = walk.outputs
    load, web, disk = (summary for _, summary in walk.steps)

    parts = read.sections(load_output)
    average, cores = float(parts["load"].split()[0]), int(parts["cores"].split()[0])
    assert (
        f"load {average:.2f} over the last minute on {cores} cores ({average / cores:.2f} per core)" in load
    )
    assert cores == len(os.sched_getaffinity(0))
    available = int(re.findall(r"MemAvailable:\s+(\d+)", load_output)[0]) // 1024
    total = int(re.findall(r"MemTotal:\s+(\d+)", load_output)[0]) // 1024
    assert f"{available} of {total} MB memory available" in load
    assert re.search(r"busiest process \S.* \(pid \d+\)", load)

    port = site.rpartition(":")[2].strip("/")
    assert f":{port} " in web_output
    assert port in web.partition("listening TCP ports: ")[2].partition(";")[0].split(", ")
    code, *seconds = re.findall(rf"== {re.escape(site)} (\d+) (\S+) (\S+) (\S+) (\S+)", timing_output)[0]
    assert code == "200"
    assert f"{site} answered 200 in {float(seconds[3]):.3f} s" in web

    used = max(
        int(percent) for percent in re.findall(r"^/dev/(?!loop).* (\d+)% /", disk_output, re.MULTILINE)
    )
    assert f"at {used} %" in disk

    for _, summary in walk.steps:
        assert summary.partition(" Problem: ")[0] in walk.answer
    assert "no language model" in walk.answer
    assert "export OPENAI_API_KEY=" in walk.answer
    assert len(set(walk.call_ids)) == len(walk.call_ids)


async def test_a_failing_site_is_the_verdict() -> None:
    async with serving(503) as url:
        walk = await Walk(shell).of(f"{url} is slow")
    assert "Problem:" in walk.steps[1][1]
    assert walk.answer.startswith("Most likely the cause: ")
    assert f"{url} fails with 503" in walk.answer.split("\n\n")[0]


@pytest.mark.parametrize(
    ("request_text", "topics"),
    [
        ("the disk is full", ["Disk", "Folders"]),
        ("this machine is slow", ["Load", "Disk"]),
        ("how much memory is left?", ["Load", "Disk"]),
        ("my shop is down", ["Load", "Web", "Disk"]),
    ],
)
async def test_each_goal_has_its_measurements(request_text: str, topics: list[str], tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "file").write_bytes(b"x" * 3_000_000)
    with contextlib.chdir(tmp_path):
        walk = await Walk(shell).of(request_text)
    assert [summary.partition(":")[0] for _, summary in walk.steps] == topics
    if "Folders" in topics:
        assert "./big 2 MB" in walk.answer


async def test_the_same_request_gets_the_same_reply() -> None:
    history = Transcript.of(person_said("my web site is slow"))
    assert await ask(history) == await ask(history)


async def test_a_denied_step_fails_honestly_and_is_not_planned_again() -> None:
    def deny_the_disk(use: ToolUse) -> tuple[Outcome, str]:
        return (
            ("denied", "Denied by the user: not now. It did not run.")
            if "df -Pk" in use.arguments
            else shell(use)
        )

    walk = await Walk(deny_the_disk).of("the disk is full")
    assert walk.plans == [[DISK.title, FOLDERS.title], [FOLDERS.title]]
    status, summary = walk.steps[0]
    assert status == "failed"
    assert "Denied by the user: not now." in summary
    assert "Disk: not measured." in walk.answer
    assert "(failed)" in walk.answer


async def test_a_plan_that_is_denied_altogether_ends_without_a_verdict() -> None:
    walk = await Walk(lambda use: ("denied", "Denied by policy. It did not run.")).of("this machine is slow")
    assert walk.plans[-1] == []
    assert {status for status, _ in walk.steps} == {"failed"}
    assert "could not measure anything" in walk.answer


async def test_a_denied_second_command_leaves_what_the_first_one_showed(site: str) -> None:
    def deny_curl(use: ToolUse) -> tuple[Outcome, str]:
        return ("denied", "Denied by the user.") if "curl -sS" in use.arguments else shell(use)

    walk = await Walk(deny_curl).of(f"the site {site} is slow")
    status, summary = walk.steps[1]
    assert status == "completed"
    assert "listening TCP ports: " in summary
    assert "A command was denied: Denied by the user." in summary
    assert "answered" not in summary


async def test_an_unknown_outcome_is_run_again_once_because_it_only_reads() -> None:
    seen: list[str] = []

    def unknown_at_first(use: ToolUse) -> tuple[Outcome, str]:
        seen.append(use.arguments)
        return ("unknown", "It may or may not have taken effect.") if len(seen) == 1 else shell(use)

    walk = await Walk(unknown_at_first).of("this machine is slow")
    assert seen[0] == seen[1]
    assert [status for status, _ in walk.steps] == ["completed", "completed"]
    assert "Whether a command ran is unknown." in walk.steps[0][1]
    assert len(set(walk.call_ids)) == len(walk.call_ids)


@pytest.mark.parametrize("outcome", ["unknown", "interrupted", "timeout", "error"])
async def test_a_step_without_results_fails_after_at_most_two_tries(outcome: Outcome) -> None:
    calls: list[str] = []

    def never(use: ToolUse) -> tuple[Outcome, str]:
        calls.append(use.arguments)
        return outcome, "nothing of use"

    walk = await Walk(never).of("this machine is slow")
    assert {status for status, _ in walk.steps} == {"failed"}
    assert len(calls) <= 4


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
        (
            'create a file called "a.txt" with the text "x y"',
            "write_file",
            {"path": "a.txt", "content": "x y\n"},
        ),
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
    assert call(await ask(Transcript.of(person_said(text)))) == (tool, arguments)


@pytest.mark.parametrize(
    "text", ["hello", "help", "what can you do?", "", "write me a poem", "?", "x" * 5000]
)
async def test_anything_else_gets_told_what_the_demo_can_do(text: str) -> None:
    reply = await ask(Transcript.of(person_said(text)))
    assert not reply.message.tool_uses
    assert "no language model" in reply.message.text
    assert "my web site is slow" in reply.message.text


async def after(text: str, outcome: Outcome, content: str) -> Reply:
    history = Transcript.of(person_said(text))
    reply = await ask(history)
    return await ask(history.append(reply.message, *answered(reply.message, lambda use: (outcome, content))))


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
    history = Transcript.of(person_said("what is in this project?"))
    listing = await ask(history)
    history = history.append(
        listing.message, *answered(listing.message, lambda use: ("ok", "README.md\nsrc/"))
    )
    reading = await ask(history)
    assert call(reading) == ("read_file", {"path": "README.md", "limit": 20})
    history = history.append(reading.message, *answered(reading.message, lambda use: ("ok", "1: # Title")))
    said = (await ask(history)).message.text
    assert "src/" in said
    assert "# Title" in said


async def test_only_the_newest_request_counts() -> None:
    history = Transcript.of(person_said("run echo a"))
    first = await ask(history)
    history = history.append(first.message, *answered(first.message, shell))
    history = history.append((await ask(history)).message, person_said("read b.txt"))
    assert call(await ask(history)) == ("read_file", {"path": "b.txt"})


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    history = Transcript.of(person_said("run ls"))
    reply = await ask(history, specs=DECISION_TOOLS)
    assert not reply.message.tool_uses
    assert "run_shell_command" in reply.message.text
    child = Transcript.of(runtime_said(f"Step 1 of 2: {LOAD.title}"))
    tool, arguments = call(await ask(history, child, specs=DECISION_TOOLS))
    assert (tool, arguments["status"]) == ("finish_step", "failed")


async def test_a_step_it_does_not_know_is_refused_plainly() -> None:
    child = Transcript.of(runtime_said("Step 1 of 1: Paint the house\n\nGoal: x"))
    tool, arguments = call(await ask(Transcript.of(person_said("x")), child))
    assert tool == "finish_step"
    assert arguments == {"status": "failed", "summary": "The demo has no program for: Paint the house"}


async def test_a_summary_keeps_what_was_said_and_how_steps_ended() -> None:
    kept = "user: my site is slow\nassistant: Step 1 completed: Load: fine."
    older = f"{kept}\nresult (ok): noise\nassistant: noise"
    asked = f"Below is the older part of this session. Summarize it.\n\n{older}"
    reply = await ask(Transcript.of(runtime_said(asked)))
    assert reply.message.text == kept


async def test_it_goes_on_after_a_compression() -> None:
    pinned = "The user's last message: the disk is full\nMode: yolo\nGoal: the disk is full"
    summary = f"{pinned}\n\nSummary of what came before:\nassistant: Step 1 completed: Disk: fullest at 12 %."
    history = Transcript.of(runtime_said(summary))
    tool, arguments = call(await ask(history, forced="submit_plan"))
    assert (tool, arguments) == ("submit_plan", {"steps": [{"description": FOLDERS.title}]})
    report = await ask(history.append(runtime_said(PLAN_FINISHED)))
    assert "Disk: fullest at 12 %." in report.message.text


def test_an_address_cannot_smuggle_a_command_into_the_shell() -> None:
    url = "http://127.0.0.1:1/$(touch${IFS}x);id/a"
    listing = "== listeners\n== servers\n== curl\n/usr/bin/curl\n"
    command = WEB.follow_up(f"{WEB.title}: {url}", listing)
    assert command is not None
    echoed = command.replace("curl ", "printf '%s\\n' ")
    done = subprocess.run(["bash", "-c", echoed], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == url


def test_commands_only_look() -> None:
    for probe in (LOAD, WEB, DISK, FOLDERS):
        assert not re.search(r"\b(rm|mv|cp|tee|kill|touch|dd|mkfs|chmod|chown|sudo|install)\b", probe.command)
        assert set(re.findall(r">+\s*([^\s;]+)", probe.command)) <= {"/dev/null"}
