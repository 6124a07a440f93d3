"""Runs without a conversation: formats, pipes, decisions and signals, on the demo model and real commands."""

import json
import os
import signal
import subprocess
import time
from typing import IO

import pytest
from support.commands.command import Command
from support.commands.warm_process import WarmProcess
from support.tools.processes import alive

from sandbur.agent.config.trust import trust

KEYS = [
    "type", "session_id", "status", "exit_code", "result", "workflow_mode", "steps", "pending", "usage",
    "duration_ms", "error",
]  # fmt: skip


def test_text_is_the_answer_alone(command: Command) -> None:
    ended = command.run("-p", "run echo $((40+2))", "-m", "demo", "-y")
    assert ended.code == 0
    assert "42" in ended.out
    assert "run_shell_command" not in ended.out
    assert "shell echo" in ended.err
    assert "exit 0" in ended.err


def test_a_command_of_any_script_runs_in_an_ascii_locale(command: Command) -> None:
    words = ("-p", "run echo größe | cat", "-m", "demo", "-y", "--output-format", "json")
    ended = command.run(*words, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "\n    größe\n" in ended.result["result"]


def test_quiet_says_nothing_else(command: Command) -> None:
    ended = command.run("-q", "-p", "run echo $((40+2))", "-m", "demo", "-y")
    assert (ended.code, ended.err) == (0, "")


def test_json_is_one_object_with_the_keys_of_the_contract(command: Command) -> None:
    ended = command.run("-p", "hello", "-m", "demo", "--output-format", "json")
    assert ended.out.count("\n") == 1
    assert list(ended.result) == KEYS
    assert (ended.result["status"], ended.result["exit_code"], ended.code) == ("done", 0, 0)
    assert ended.result["usage"]["llm_calls"] == 1


def test_stream_json_counts_its_lines_and_ends_with_the_result(command: Command) -> None:
    ended = command.run("-p", "my web site is slow, find out why", "-m", "demo", "-y",
                        "--output-format", "stream-json")  # fmt: skip
    lines = ended.lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert len({line["session_id"] for line in lines}) == 1
    assert [line["type"] for line in lines].count("result") == 1
    assert (lines[0]["type"], lines[-1]["type"]) == ("init", "result")
    assert [key for key in lines[-1] if key != "seq"] == KEYS
    seen = {line["type"] for line in lines}
    assert {"message", "tool_use", "tool_result", "plan", "step", "usage", "text"} <= seen
    assert all(isinstance(line["arguments"], dict) for line in lines if line["type"] == "tool_use")
    assert len(lines[-1]["steps"]) >= 2


@pytest.mark.parametrize(
    ("words", "stdin", "sent"),
    [
        (["-p", "-"], "hello from a pipe", "hello from a pipe"),
        (["-p"], "hello from a pipe\n", "hello from a pipe"),
        ([], "hello from a pipe", "hello from a pipe"),
        (["-p", "hello"], "more of it", "hello\n\nmore of it"),
        (["-p", "hello"], "", "hello"),
        (
            ["-p", "-"],
            "\ufeffhällo \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
            "hällo 😀",
        ),
    ],
)
def test_a_prompt_comes_from_words_and_pipe(
    command: Command, words: list[str], stdin: str, sent: str
) -> None:
    ended = command.run(*words, "-m", "demo", "--output-format", "json", stdin=stdin)
    assert ended.code == 0, ended.err
    view = json.loads(command.run("sessions", "show", ended.result["session_id"], "--json").out)
    assert view["messages"][0]["blocks"][0]["text"] == sent


@pytest.mark.parametrize("stdin", ["", " \n\t\n"])
def test_an_empty_pipe_is_an_empty_prompt(command: Command, stdin: str) -> None:
    ended = command.run("-p", "-", "-m", "demo", stdin=stdin)
    assert ended.code == 2
    assert "The prompt is empty." in ended.err


@pytest.mark.slow
def test_a_silent_pipe_does_not_hold_a_prompt_up(command: Command) -> None:
    reader, writer = os.pipe()
    process = command.start("-p", "hello", "-m", "demo", stdin=reader)
    _, err = process.communicate(timeout=120)
    os.close(reader)
    os.close(writer)
    assert process.returncode == 0
    assert b"No input came from stdin" in err


def test_a_failure_before_the_session_is_json_too(command: Command) -> None:
    ended = command.run("-p", "hello", "-m", "openai/x", "--output-format", "json")
    assert ended.code == 41
    assert list(ended.result) == KEYS
    assert (ended.result["session_id"], ended.result["exit_code"]) == (None, 41)
    assert ended.result["error"]["code"] == "credentials"
    assert "OPENAI_API_KEY" in ended.err


def test_a_failure_before_a_stored_session_is_open_names_it_and_how_to_continue(command: Command) -> None:
    json = ("--output-format", "json")
    session_id = command.run("-p", "hello", "-m", "demo", *json).result["session_id"]
    for words, code in ((("-p", "-r", session_id, "-m", "openai/x"), 41), (("approve", session_id), 2)):
        ended = command.run(*words, *json)
        assert (ended.code, ended.result["session_id"]) == (code, session_id)
        assert f"Resume with: sandbur -r {session_id}\n" in ended.err


@pytest.mark.parametrize("words", [["-p", "hello"], ["hello"], ["-p", "hello", "--output-format", "json"]])
def test_a_run_without_any_model_is_refused_and_leaves_no_session(command: Command, words: list[str]) -> None:
    ended = command.run(*words, OLLAMA_HOST="http://127.0.0.1:9")
    assert ended.code == 41
    assert ended.err.startswith("sandbur: No model is set up")
    assert "\n  export ANTHROPIC_API_KEY=...\n  export OPENAI_API_KEY=...\n" in ended.err
    assert "\n  ollama serve\n" in ended.err
    assert "What works now: `-m demo`" in ended.err
    assert "json" not in words or ended.result["error"]["code"] == "credentials"


def test_a_missing_model_comes_with_the_configuration_that_was_ignored(command: Command) -> None:
    (command.folder / ".sandbur").mkdir()
    (command.folder / ".sandbur/config.toml").write_text('model = "demo"\n')
    ended = command.run("-p", "hello", OLLAMA_HOST="http://127.0.0.1:9")
    assert ended.code == 41
    assert ended.err.startswith(f"Ignored {command.folder}/.sandbur/config.toml: this folder")
    assert command.run("sessions").out == ""


def test_a_demo_session_is_carried_on_without_naming_its_model_again(command: Command) -> None:
    session_id, _ = waiting(command)
    assert command.run("approve", session_id, "--all", OLLAMA_HOST="http://127.0.0.1:9").code == 0
    assert command.run("-p", "-r", session_id, "hello", OLLAMA_HOST="http://127.0.0.1:9").code == 0


def test_a_call_that_needs_approval_stops_with_3_and_says_how_to_go_on(command: Command) -> None:
    ended = command.run("-p", "run touch made", "-m", "demo")
    assert ended.code == 3
    assert ended.out == ""
    assert "run_shell_command\n    $ touch made\n" in ended.err
    assert "sandbur approve " in ended.err
    session_id = command.run("sessions", "--json").lines[0]["id"]
    assert f"Resume with: sandbur -r {session_id}" in ended.err.splitlines()
    assert not (command.folder / "made").exists()


def waiting(command: Command, prompt: str = "run touch made") -> tuple[str, str]:
    result = command.run("-p", prompt, "-m", "demo", "--output-format", "json").result
    assert result["status"] == "needs_approval"
    return result["session_id"], result["pending"][0]["call_id"]


def test_approve_runs_the_call_and_goes_on(command: Command) -> None:
    session_id, call_id = waiting(command)
    ended = command.run("approve", session_id, call_id, "--output-format", "json")
    assert (ended.code, ended.result["status"]) == (0, "done")
    assert (command.folder / "made").exists()


def test_without_an_id_the_only_session_of_the_folder_that_waits_is_decided(command: Command) -> None:
    session_id, _ = waiting(command)
    ended = command.run("approve", "--all", "--output-format", "json")
    assert (ended.code, ended.result["session_id"]) == (0, session_id)
    assert (command.folder / "made").exists()
    ended = command.run("deny", "--all")
    assert ended.code == 2
    assert ended.err.startswith("sandbur: No session of this folder waits for a decision.")


def test_without_an_id_several_sessions_that_wait_are_an_error_that_lists_them(command: Command) -> None:
    ids = [waiting(command)[0] for _ in range(2)]
    ended = command.run("approve", "--all")
    assert (ended.code, "Name one: sandbur approve ID" in ended.err) == (2, True)
    assert all(one[:8] in ended.err for one in ids)
    assert not (command.folder / "made").exists()


def test_without_an_id_a_session_of_another_folder_is_not_decided(command: Command) -> None:
    waiting(command)
    (command.folder / "other").mkdir()
    assert command.run("approve", "--all", "-C", "other").code == 2
    assert not (command.folder / "made").exists()


def test_approve_can_change_the_arguments(command: Command) -> None:
    session_id, _ = waiting(command)
    edited = command.folder / "edited.json"
    edited.write_text('{"command": "touch other"}')
    assert command.run("approve", session_id, "--edit", str(edited)).code == 0
    assert (command.folder / "other").exists()
    assert not (command.folder / "made").exists()


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '"x"'])
def test_an_edit_that_is_no_object_decides_nothing(command: Command, text: str) -> None:
    session_id, _ = waiting(command)
    (command.folder / "edited.json").write_text(text)
    ended = command.run("approve", session_id, "--edit", "edited.json")
    assert ended.code == 2
    assert "JSON object" in ended.err
    assert command.run("approve", session_id).code == 0


def test_record_only_runs_nothing_until_the_run_is_carried_on(command: Command) -> None:
    session_id, _ = waiting(command)
    command.run("approve", session_id, "--all", "--record-only")
    assert not (command.folder / "made").exists()
    ended = command.run("-p", "-r", session_id)
    assert ended.code == 0
    assert (command.folder / "made").exists()


def test_a_secret_in_an_edit_runs_now_or_not_at_all_and_is_stored_nowhere(command: Command) -> None:
    session_id, _ = waiting(command)
    command.env["DEPLOY_TOKEN"] = "correct-horse-battery-19"
    (command.folder / "edited.json").write_text('{"command": "echo correct-horse-battery-19 > got"}')
    words = ("approve", session_id, "--edit", "edited.json")
    refused = command.run(*words, "--record-only")
    assert (refused.code, "secrets are not stored" in refused.err) == (2, True)
    assert not (command.folder / "got").exists()
    assert command.run(*words).code == 0
    assert (command.folder / "got").read_text() == "correct-horse-battery-19\n"
    for file in (command.folder / "data").rglob("*"):
        assert not file.is_file() or b"correct-horse" not in file.read_bytes()


def test_waiting_calls_are_shown_whole_and_harmless(command: Command) -> None:
    program = f"echo harmless; echo {'x' * 300}\nrm -rf precious\x1b[8m"
    ended = command.run("-p", f"run {program}", "-m", "demo")
    session_id = command.run("sessions", "--json").lines[0]["id"]
    for text in (ended.err, command.run("sessions", "show", session_id).out):
        shown = text.partition("aiting")[2]
        assert f"    $ echo harmless; echo {'x' * 300}\n      rm -rf precious\\x1b[8m\n" in shown
        assert "\x1b" not in text


def test_a_decided_call_runs_under_the_command_it_has(command: Command) -> None:
    session_id, _ = waiting(command)
    assert "▶ shell touch made\n" in command.run("approve", session_id, PYTHONUTF8="1").err
    session_id, _ = waiting(command)
    edited = command.folder / "edited.json"
    edited.write_text('{"command": "touch other"}')
    shown = command.run("approve", session_id, "--edit", str(edited), PYTHONUTF8="1").err
    assert "▶ shell touch other\n" in shown
    assert "touch made" not in shown


def test_a_denial_and_its_reason_reach_the_model(command: Command) -> None:
    session_id, _ = waiting(command)
    ended = command.run("deny", session_id, "--reason", "not on my machine", "--output-format", "stream-json")
    results = [line for line in ended.lines if line["type"] == "tool_result"]
    assert [(line["outcome"], "not on my machine" in line["content"]) for line in results] == [
        ("denied", True)
    ]
    assert (ended.code, ended.result["status"]) == (3, "denied")
    assert "Resume with" in ended.err
    assert not (command.folder / "made").exists()


def test_a_decision_needs_a_call_that_waits(command: Command) -> None:
    session_id, _ = waiting(command)
    assert "is not a call that waits for a decision" in command.run("approve", session_id, "nothing").err
    assert command.run("approve", session_id).code == 0
    ended = command.run("approve", session_id, "--all")
    assert ended.code == 2
    assert "No call of session" in ended.err


def test_a_deny_rule_wins_also_in_yolo_mode(command: Command) -> None:
    ended = command.run("-p", "run touch made", "-m", "demo", "-y", "--deny", "run_shell_command(touch *)",
                        "--output-format", "json")  # fmt: skip
    assert (ended.code, ended.result["status"]) == (3, "denied")
    assert not (command.folder / "made").exists()


def test_what_no_undo_reaches_waits_for_a_person_in_yolo_mode(command: Command) -> None:
    history = command.folder / ".git" / "objects"
    history.mkdir(parents=True)
    ended = command.run("-p", "run rm -rf .git", "-m", "demo", "-y", "--output-format", "json")
    assert (ended.code, ended.result["status"]) == (3, "needs_approval")
    [pending] = ended.result["pending"]
    assert "erases the repository's history" in pending["reason"]
    assert history.is_dir()
    decided = command.run("approve", ended.result["session_id"], "--all")
    assert decided.code == 0
    assert not history.exists()


def test_the_users_own_configuration_lets_it_run_and_a_projects_does_not(command: Command) -> None:
    history = command.folder / ".git" / "objects"
    history.mkdir(parents=True)
    project = command.folder / ".sandbur" / "config.toml"
    project.parent.mkdir()
    project.write_text('catastrophic = "run"\n')
    said = ("-p", "run rm -rf .git", "-m", "demo", "-y")
    trust(command.folder, command.env)
    ended = command.run(*said)
    assert ended.code == 3
    assert "Ignored `catastrophic`" in ended.err
    own = command.folder / ".config" / "sandbur" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('catastrophic = "run"\n')
    assert command.run(*said).code == 0
    assert not history.exists()


def test_a_rule_that_names_it_exactly_lets_it_run(command: Command) -> None:
    history = command.folder / ".git" / "objects"
    history.mkdir(parents=True)
    said = ("-p", "run rm -rf .git", "-m", "demo", "-y")
    assert command.run(*said, "--allow", "run_shell_command(rm *)").code == 3
    assert history.is_dir()
    assert command.run(*said, "--allow", "run_shell_command(rm -rf .git)").code == 0
    assert not history.exists()


def test_what_hides_its_program_from_a_deny_rule_waits_in_yolo_mode(command: Command) -> None:
    rule = ("--deny", "run_shell_command(touch *)")
    said = ("-p", "run X=touch; $X made", "-m", "demo", "-y")
    hidden = ("-p", "run echo touch made | sh", "-m", "demo", "-y")
    assert command.run(*said, *rule).code == 3
    assert command.run(*hidden, *rule).code == 3
    assert not (command.folder / "made").exists()
    assert command.run(*hidden).code == 0
    assert (command.folder / "made").exists()


def test_an_ask_rule_beats_an_allow_rule_in_every_mode(command: Command) -> None:
    rules = ("--ask", "run_shell_command(touch *)", "--allow", "run_shell_command(touch made)")
    assert command.run("-p", "run touch made", "-m", "demo", "-y", *rules).code == 3
    assert not (command.folder / "made").exists()


def test_looking_runs_unasked(command: Command) -> None:
    ended = command.run("-p", "run ls", "-m", "demo")
    assert ended.code == 0


def test_carrying_a_finished_run_on_gives_its_answer_again(command: Command) -> None:
    first = command.run("-p", "hello", "-m", "demo")
    again = command.run("-p", "-c")
    assert (again.code, again.out) == (0, first.out)


def until(process: "subprocess.Popen[bytes] | WarmProcess", kind: str) -> str:
    """Read stream lines until one of this type; return its session id."""
    out: IO[bytes] | None = process.stdout
    assert out is not None
    for raw in out:
        line = json.loads(raw)
        if line["type"] == kind:
            return line["session_id"]
    raise AssertionError(f"no {kind} line")


NAP = f"sleep 9875.{os.getpid()}"
SLEEPING = ("-p", f"run {NAP}", "-m", "demo", "-y", "--output-format", "stream-json")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_interrupts_the_run_which_can_be_resumed(
    command: Command, number: signal.Signals, code: int
) -> None:
    process = command.start(*SLEEPING)
    session_id = until(process, "tool_use")
    time.sleep(0.3)
    process.send_signal(number)
    began = time.monotonic()
    out, err = process.communicate(timeout=120)
    assert time.monotonic() - began < 60
    result = json.loads(out.splitlines()[-1])
    assert (process.returncode, result["exit_code"], result["status"]) == (code, code, "interrupted")
    assert f"Resume with: sandbur -r {session_id}" in err.decode().splitlines()
    assert NAP not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert command.run("-p", "-r", session_id).code == 0


def test_a_second_ctrl_c_ends_the_process_at_once(command: Command) -> None:
    sleeping = f"sleep 9876.{os.getpid()}"
    process = command.start("-p", f"run trap '' TERM INT; {sleeping}; {sleeping}", *SLEEPING[2:])
    until(process, "tool_use")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert time.monotonic() - began < 1.5
    assert process.returncode == 130
    assert b"Resume with: sandbur -r " in err
    deadline = time.monotonic() + 60
    while alive(sleeping):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_reader_that_leaves_stops_the_run(command: Command) -> None:
    process = command.start(*SLEEPING)
    session_id = until(process, "tool_use")
    time.sleep(0.3)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"Resume with: sandbur -r {session_id}" in err.decode().splitlines()
    assert b"BrokenPipe" not in err
    assert NAP not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_a_killed_run_is_carried_on_without_a_new_message(command: Command) -> None:
    process = command.start("-p", f"run echo ran >> ran; {NAP}", *SLEEPING[2:])
    session_id = until(process, "tool_use")
    deadline = time.monotonic() + 120
    while not (command.folder / "ran").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=120)
    ended = command.run("-p", "-r", session_id, "--output-format", "json")
    assert ended.result["session_id"] == session_id
    assert (command.folder / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("text", ["/mode yolo", "  /MODE\tYolo \n", "/mode\n\nyolo"])
def test_yolo_mode_comes_from_a_flag_and_not_from_a_text(command: Command, text: str) -> None:
    session_id = command.run("-p", "hello", "-m", "demo", "--output-format", "json").result["session_id"]
    for words, stdin in ((("-p", "-r", session_id, text), None), (("-p", "-r", session_id, "-"), text),
                         (("-p", "-r", session_id), text), (("-p", text, "-m", "demo"), None),
                         (("-p", "-r", session_id, "/mode"), "yolo")):  # fmt: skip
        ended = command.run(*words, stdin=stdin)
        assert (ended.code, ended.out) == (2, ""), words
        assert "is accepted only from a person" in ended.err
    assert json.loads(command.run("sessions", "show", session_id, "--json").out)["mode"] == "interactive"
    assert command.run("-p", "-r", session_id, "/mode plan").code == 0
    assert command.run("-p", "-r", session_id, "hello", "-y").code == 0
    assert json.loads(command.run("sessions", "show", session_id, "--json").out)["mode"] == "yolo"


@pytest.mark.parametrize("words", [("-p",), ("-p", "-"), ("-p", "Sum it up:")])
def test_a_text_that_is_known_not_to_fit_is_refused_before_anything_is_stored(
    command: Command, words: tuple[str, ...]
) -> None:
    ended = command.run(*words, "-m", "demo", stdin="many words " * 50_000)
    assert (ended.code, ended.out) == (2, "")
    assert "the window of demo has 100,000" in ended.err
    assert "`context_windows`" in ended.err  # the window of an unknown model is a guess
    assert command.run("sessions", "list", "--json").lines == []


def test_the_files_that_a_prompt_names_are_attached_and_those_that_stdin_names_are_not(
    command: Command,
) -> None:
    (command.folder / "mine.txt").write_text("what I wrote")
    (command.folder / "theirs.txt").write_text("what they wrote")
    (command.folder / ".env").write_text("TOKEN=secret")
    words = ("-p", "hello @mine.txt @.env", "-m", "demo", "--output-format", "json")
    ended = command.run(*words, stdin="see @theirs.txt")
    assert ended.code == 0
    assert "Attached: mine.txt" in ended.err
    assert "Not attached: .env" in ended.err
    shown = command.run("sessions", "show", ended.result["session_id"]).out
    assert "what I wrote" in shown
    assert "what they wrote" not in shown
    assert "TOKEN" not in shown
