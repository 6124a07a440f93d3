"""Every program in `examples/`, run as a newcomer runs it: a process of its own, warnings are errors."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from support.commands.command import Command
from support.places import ROOT

EXAMPLES = ROOT / "examples"
PRINTED = {
    "served_openai_client": [
        "`echo one` gave:",
        "`echo two` gave:",
        "sessions: 1",
        "`echo left` gave:",
        "`echo right` gave:",
        "stored: completed",
    ],
    "own_tool": [
        "convert: error: convert: to must be 'EUR', 'USD' or 'JPY', got a string. Expected: .*",
        "convert: ok: 54.5",
        "book: ok: Done.",
        "note: ok: 2 entries",
        "50 euros are 54.50 dollars; it is in the ledger.",
        r"ledger: \['54.50 lunch', 'note: with Ada'\]",
    ],
    "plan_contract": [
        "# Refund the broken order",
        "- budget: 50,000 tokens",
        r"## 1\. Refund order 17",
        "- tools: refund",
        r"## 2\. Write it down",
        "- writes: ledger/",
        "",
        "close_account asks: outside the plan: .*",
        r"Order 17 is refunded\. I did not close an account\.",
        "ledger: refunded",
    ],
    "evaluation": [
        r"first \{'careful': 6, 'hasty': 3\}",
        r"again \{'careful': 6, 'hasty': 3\}",
        r"hasty pass@1: 0\.50",
        r"hasty pass\^3: 0\.50",
        "careful against hasty: better at 1 of 2 tasks",
    ],
    "trial": [
        r"The anvil has a currency now\. In the folder: anvil 90",
        r"changed: prices\.txt",
        r"--- a/prices\.txt",
        r"\+\+\+ b/prices\.txt",
        "@@ -1,2 [+]1,2 @@",
        "-anvil 90",
        r"\+anvil 90 EUR",
        " rope 12",
        r"prices\.txt: it was changed since the trial began",
        r"Merged: \['anvil 90 EUR', 'rope 12', 'hammer 20', ''\]",
        "Dropped: anvil 90 EUR",
    ],
    "tool_groups": [r"It is about 42 euros\. \('billing',\)", r"You are welcome\. \(\)"],
    "compaction": [
        r"summary of \d+ messages, shorter: True",
        r"summary of \d+ messages, shorter: True",
        "They travel.",
    ],
    "injection": [
        "database opened",
        "database closed",
        r'the model was given \["anvil","rope"\] 3',
        "You have ordered an anvil and a rope.",
    ],
    "support_desk": [
        r"Decision\(order='17', cents=500\)",
        "Order 17 came broken done",
        "scripted/model",
    ],
    "structured_output": ["damage of A-17, urgency 4"],
    "middleware": [
        r"look_up took 0\.\d s",
        r"ring took 0\.\d s",
        "Ada has 555-0100, and can be called tomorrow.",
    ],
    "user_input": [
        r"choose_table: Which table for 2 guests\? by the window or by the door\?",
        "Your table is by the window.",
        "Your table is by the door.",
    ],
    "agent_hooks": [
        r"to approve: {'order': '17', 'cents': 5000}",
        r"Refunded 5000 cents of order 17, receipt \S+\. Yours, the shop\.",
        r"\['The parcel of order 17 was damaged\.', 'Order 17 came broken\. \(customer 12\)'\]",
    ],
    "python_code": [
        r'approved: refund \{"number": 4, "cents": 80\}',
        "3 of 4 are late",
        "value: order 4: 80 back",
        "The dearest late order is paid back.",
    ],
    "agent_file": [
        line
        for suffix in ("json", "yaml", "toml")
        for line in (
            rf'the shop got \{{"email": "ada@example.org", "dialogId": "dialog-{suffix}"\}} with the key',
            r"It is saved. Demos are on Monday.  2 model calls",
            r"We open at nine.  0 model calls",
            r"You have leave for 5 days. \[Check that 5 days are left., Ask the manager.\] 3 model calls",
        )
    ],
    "mcp_tools": [
        r"How far apart are the clocks of Asia/Kolkata and Asia/Tokyo\?",
        "mcp__clock__difference: 3.5 hours",
        "Tokyo is 3.5 hours ahead of Kolkata.",
    ],
    "images": [
        "The third quarter is too low.",
        "Now it is right.",
        r"\[image/png, 126 bytes\] 126 bytes",
        r"\[targets.txt, text/plain, 25 bytes\] 25 bytes",
        r"\[image/png, 128 bytes\] 128 bytes",
    ],
    "attachments": [
        "It is the note A, at 440 Hz.",
        r"\[audio/wav, 8.0 kB\]",
        r"\[notes.csv, text/csv, 17 bytes\]",
        r"\[image/png, at https://example.org/notes.png\]",
    ],
    "resume_after_kill": [
        "killed",
        "killed",
        "send_mail: outcome_unknown, so it is not run again by itself.",
        "Paid, and told so.",
        "ended by itself",
        "1 payment, 1 mail",
    ],
    "support_router": [
        r"We open at nine\. \(the flow hours, by the text .*; 0 model calls\)",
        r"Order 4711 is on its way, by ship\. \(the flow order, .*; 0 model calls\)",
        r"There is no order 12\. \(the flow order, .*; 0 model calls\)",
        r"Granted\. \(the flow leave, .*; 0 model calls\)",
        r"You are welcome\. \(the flow thanks, .*; 0 model calls\)",
        r"Three anvils are 90 euros\. Shall we\? \(the flow offer, .*, and the agent seller; 1 model calls\)",
        r"Invoice 88 has two anvils .*\(the skill invoices, .*, and the agent skill:invoices; 1 .*\)",
        r"I am sorry\. Which order is it\? \(the skill complaints, by the regex .*; 1 model calls\)",
    ],
    "docs_with_citations": [
        r"indexed: \d+ pages",
        r"Use the URL `memory:` \[docs/\S+:\d+-\d+\]\.",
        "the cited lines are there: True",
    ],
    "review_and_vote": [
        r"Verdict\(merge=False, reason='It has no test\.'\)",
        r"reviews done \[.*\]",
        r"verdict done \{.*\}",
    ],
    "loop_until_green": [
        r"1\. I wrote price\.py\. Tests: red",
        r"2\. I padded the cents\. Tests: green",
        "done 2 attempts",
    ],
    "research": [
        *[r"reader for the density of \w+ is done"] * 5,
        r"The densities are: gold: 19\.3 g/cm3, .*, zinc: 7\.1 g/cm3",
        "5 sub-agents, 12 model calls",
    ],
    "support_memory": [
        r"Monday: Bitte schalten Sie den P-100 aus und wieder ein\.",
        "proposed: The customer Ada has the printer P-100 and wants answers in German",
        r"Tuesday: Es geht um Ihren P-100: bitte legen Sie Papier nach\.",
    ],
    "memory_correction": [
        r"Monday: The port is 8080\.",
        r"Tuesday: I corrected it\.",
        r"Wednesday: The port is 9090\.",
        r"superseded: The port of the shop is 8080",
        r"valid: The port of the shop is 9090",
    ],
    "memory_mem0": [
        r"mem0ai is missing; this memory is a dict\.",
        r"Ich merke es mir\.",
        "Guten Tag!",
        r"- \[[0-9a-f]{8}\] \(source: a dict\): Ada wants answers in German",
    ],
    "plan_notebook": [
        r"The shop is closed, so I stopped\. goal_not_reached",
        "Paint the hall: abandoned",
        r"  completed: Measure the hall The hall has 12 square metres\.",
        r"  abandoned: Choose a colour The shop is closed\.",
        "  abandoned: Order the paint",
        r"The paint is ordered\. done",
        "Paint the hall: done",
        r"  completed: Measure the hall The hall has 12 square metres\.",
        r"  completed: Choose a colour It is white\.",
        r"  completed: Order the paint Receipt 12\.",
    ],
    "handoff": [r"billing: Order 17 is paid back\.", r"desk: We open at nine\."],
    "werewolf": [
        "The wolves took ben.",
        "  ana: Rex is so quiet today.",
        "  cid: I heard a howl from the house of Rex.",
        "  rex: I slept all night.",
        "  vera: Poor Ben.",
        "You voted rex out.",
        "The wolves took cid.",
        "  ana: Vera, it is you.",
        "  vera: No, it is Ana.",
        "You voted vera out.",
        "The villagers win.",
    ],
    "burr_graph": [
        r'write: Dear Ada, you have ordered \["anvil","rope"\].',
        "review: shorter",
        "write: Dear Ada, two things.",
        "review: good",
    ],
}
SERVERS = ("fastapi_app", "approval_by_web")
ELSEWHERE = ("own_model", "own_store", "scripted_test", "mcp_clock_server", "tool_server")
"""What other tests run, or other examples."""


def line(name: str, *words: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *words]


def run(command: Command, name: str, *words: str) -> list[str]:
    """Run an example in the test's folder; return what it printed."""
    done = subprocess.run(
        line(name, *words), cwd=command.folder, env=command.env, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


@contextmanager
def served(command: Command, name: str) -> Iterator[httpx2.Client]:
    """Start an example that is a web server; lend a client of it. It has to end without a complaint."""
    log = command.folder / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            line(name), cwd=command.folder, env={**command.env, "PORT": "0"}, stdin=subprocess.DEVNULL,
            stdout=file, stderr=file,
        )  # fmt: skip
    try:
        with httpx2.Client(base_url=address(server, log), timeout=60) as client:
            yield client
        server.terminate()
        server.wait(30)
        assert not re.search("Error|Traceback|Warning", log.read_text()), log.read_text()
    finally:
        server.kill()
        server.wait()


def address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the server says where it listens."""
    while not (found := re.search(r"running on (http://[\d.:]+)", log.read_text())):
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
    return found[1]


def test_every_example_is_run_by_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTED, *SERVERS, *ELSEWHERE}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_it_shows(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) <= (150 if path.stem == "own_model" else 100)


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_is_about(command: Command, name: str) -> None:
    printed = run(command, name)
    assert len(printed) == len(PRINTED[name]), printed
    for said, expected in zip(printed, PRINTED[name], strict=True):
        assert re.fullmatch(expected, said), said


def test_a_person_talks_to_the_agent_that_has_the_conversation(command: Command) -> None:
    shutil.copy(EXAMPLES / "handoff.py", command.folder)
    agent = ("--agent", "handoff:desk", "--output-format", "json")
    first = json.loads(command.run("-p", *agent, "I was charged twice.").out)
    assert (first["result"], first["agent"]) == ("Order 17 is paid back.", "billing")
    again = command.run("-p", "-r", first["session_id"], *agent[:2], "Once more.")
    assert again.out.strip() == "Order 17 is paid back."
    assert "Agent billing: it has the conversation." in again.err
    last = json.loads(command.run("-p", "-r", first["session_id"], *agent, "When do you open?").out)
    assert last["result"] == "We open at nine."
    assert "agent" not in last


def test_a_game_that_is_killed_goes_on_where_it_stopped(command: Command) -> None:
    killed = subprocess.run(
        line("werewolf", "ours"), cwd=command.folder, capture_output=True, check=False,
        env={**command.env, "SANDBUR_CRASH_AT": "hub_before_record:12"},
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    # The program says again what it had printed; no model is asked again for it.
    assert run(command, "werewolf", "ours") == [re.sub(r"\\", "", line) for line in PRINTED["werewolf"]]


def test_an_application_that_is_done_does_nothing_again(command: Command) -> None:
    assert len(run(command, "burr_graph", "letters.db")) == 4
    assert run(command, "burr_graph", "letters.db") == []


def test_a_named_model_takes_the_place_of_the_scripted_one(command: Command) -> None:
    command.env |= {"SANDBUR_MODEL": "demo"}
    run(command, "own_tool")
    (session,) = command.run("sessions", "list", "--json").lines
    assert session["model"] == "demo"


@pytest.mark.parametrize(("name", "passed"), [("scripted_test.py", 4), ("own_store.py", 8)])
def test_the_examples_of_tests_pass(command: Command, name: str, passed: int) -> None:
    # Beside no configuration of ours.
    shutil.copy(EXAMPLES / name, command.folder)
    words = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", name]
    done = subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr


def events_of(answer: str) -> list[tuple[str, dict[str, object]]]:
    """Return the server-sent events of a whole answer: name and data."""
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", answer)
    return [(name, json.loads(data)) for name, data in found]


def test_the_web_app_answers_many_chats_at_once_and_remembers_each(command: Command) -> None:
    with served(command, "fastapi_app") as client, ThreadPoolExecutor(12) as pool:

        def ask(chat: int) -> str:
            return client.post(f"/chats/chat-{chat}", json={"text": f"What is twice {chat}?"}).text

        for chat, answer in enumerate(pool.map(ask, range(12))):
            events = events_of(answer)
            assert [name for name, _ in events] == ["ToolFinished", "TextDelta", "RunFinished"]
            assert events[-1][1]["result"] == f"It is {2 * chat}."
        again = client.post("/chats/chat-3", json={"text": "And then?"}).text
        assert events_of(again)[-1][1]["result"] == "Which number?"
        said = [one["text"] for one in client.get("/chats/chat-3").json()]
        assert said == ["What is twice 3?", "It is 6.", "And then?", "Which number?"]
        assert client.get("/chats/nobody").status_code == 404


def test_the_web_app_streams_and_refuses_a_second_answer_to_one_chat(command: Command) -> None:
    with served(command, "fastapi_app") as client:
        with client.stream("POST", "/chats/7", json={"text": "What is twice 21?"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            second = client.post("/chats/7", json={"text": "What is twice 4?"}).text
            first = "".join(answer.iter_text())
        ((name, error),) = events_of(second)
        assert (name, error["code"]) == ("Error", "session_held")
        assert events_of(first)[-1][1]["result"] == "It is 42."


def test_a_refund_waits_for_the_web_page_over_a_restart(command: Command) -> None:
    with served(command, "approval_by_web") as client:
        page = client.get("/refunds/17").text
    (call,) = re.findall(r"name=call value='([^']+)'", page)
    with served(command, "approval_by_web") as client:
        assert call in client.get("/refunds/17").text
        approved = client.post("/refunds/17", data={"call": call, "verdict": "approve"}).text
        assert "5.00 refunded for order 17" in approved
        assert "Nothing waits." in approved
        late = client.post("/refunds/17", data={"call": call, "verdict": "deny"}).text
        assert late == approved


def test_a_refund_may_be_denied_with_a_reason(command: Command) -> None:
    with served(command, "approval_by_web") as client:
        (call,) = re.findall(r"name=call value='([^']+)'", client.get("/refunds/18").text)
        form = {"call": call, "verdict": "deny", "reason": "<b>too late"}
        denied = client.post("/refunds/18", data=form).text
    assert "&lt;b&gt;too late" in denied
    assert "<b>" not in denied
