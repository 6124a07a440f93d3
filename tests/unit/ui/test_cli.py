"""The command as a process: help, errors, and the commands that only look."""

import json
import stat
import subprocess
import sys

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur.ui.cli.grammar import COMMANDS

LONG = "a" * 300
"""A name that no file can have, so that even looking for the file fails."""


def test_help_names_every_command_and_leaves_at_once(command: Command) -> None:
    ended = command.run("--help")
    assert ended.code == 0
    for word in (
        "sessions",
        "approve",
        "deny",
        "settle",
        "resume",
        "worker",
        "fork",
        "graph",
        "doctor",
        "demo",
        "--max-budget-usd",
    ):
        assert word in ended.out
    assert "--record-only" in command.run("approve", "--help").out


def test_version_is_one_line(command: Command) -> None:
    ended = command.run("--version")
    assert (ended.code, ended.out) == (0, "sandbur 0.1.0\n")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--help", "--version", *(f"{name} --help" for name in COMMANDS)])
def test_help_and_version_import_nothing_heavy(command: Command, flag: str) -> None:
    program = (
        "import sys; from sandbur.ui.cli.main import main; main(sys.argv[1].split());"
        "print(*[m for m in ('asyncio', 'pydantic', 'burr', 'rich', 'prompt_toolkit', 'sqlite3', 'openai',"
        " 'anthropic', 'importlib.metadata', 'ssl') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, flag], env=command.env, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_slow_module_of_the_standard_library(command: Command, flag: str) -> None:
    slow = ("dataclasses", "logging", "traceback", "pathlib", "datetime", "uuid", "shutil", "urllib.parse")
    # -S: what the environment imports into every interpreter is not ours.
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r});"
        "from sandbur.ui.cli.main import main; main(sys.argv[1:]);"
        f"print(*[m for m in {slow} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, flag], env=command.env, capture_output=True, text=True
    )
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("words", ["list", "list --json", "list --store sqlite:///other.db"])
def test_a_list_of_sessions_makes_no_model_and_starts_no_loop(command: Command, words: str) -> None:
    assert command.run("-p", "hello", "-m", "demo", "-q").code == 0
    user = command.folder / "config" / "sandbur"
    user.mkdir(parents=True)
    (user / "config.toml").write_text('model = "demo"\nmode = "plan"\ntheme = "light"\nmax_turns = 9\n')
    program = (
        "import sys; from sandbur.ui.cli.main import main; code = main(['sessions', *sys.argv[1].split()]);"
        "print(*[m for m in ('asyncio', 'ssl', 'pydantic', 'burr', 'rich', 'logging', 'openai', 'psycopg')"
        " if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    env = {**command.env, "XDG_CONFIG_HOME": str(user.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program, words], env=env, cwd=command.folder, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr.replace("There is no session yet. Start one: sandbur", "").strip() == ""
    assert ("hello" in done.stdout) is ("other" not in words)


@pytest.mark.parametrize("receives", ["main", "other"])
def test_an_interrupt_while_the_event_loop_is_made_prints_nothing(command: Command, receives: str) -> None:
    """The system may give the signal to any thread that does not block it."""
    program = """
import asyncio, os, signal, sys, threading, warnings
from sandbur.ui.cli.main import main

warnings.simplefilter("ignore", DeprecationWarning)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it

class HalfMade(asyncio.SelectorEventLoop):
    def set_debug(self, enabled):
        super().set_debug(enabled)
        if sys.argv[1] == "main":
            signal.raise_signal(signal.SIGINT)  # to this thread, whichever the system would choose
            return
        reader, writer = os.pipe2(os.O_NONBLOCK)
        os.set_blocking(reader, True)
        signal.set_wakeup_fd(writer)
        signal.pthread_kill(other.ident, signal.SIGINT)
        os.read(reader, 1)
        signal.set_wakeup_fd(-1)

class Interrupted(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        return HalfMade()

end = threading.Event()
other = threading.Thread(target=end.wait, daemon=True)
other.start()
asyncio.set_event_loop_policy(Interrupted())
sys.exit(main(["-p", "hello", "-m", "demo"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, receives],
        env=command.env,
        cwd=command.folder,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--moed", "yolo"], "Did you mean --mode?"),
        (["-p", ""], "The prompt is empty."),
        (["replay", "x"], "There is no session 'x'."),
        (["diff", "x", "y"], "There is no session 'x'."),
        (["-C", "/no/such/folder", "-p", "x"], "/no/such/folder does not exist"),
        (["--add-dir", "/no/such", "-p", "x"], "/no/such does not exist"),
        (["--add-dir", LONG, "-p", "x"], "cannot be entered: File name too long"),
        (["replay", LONG], "There is no session"),
        (["eval", LONG, "-m", "demo"], "There is no folder"),
        (["index", "add", LONG], "cannot be read: the name is too long"),
        (["-p", "-r", "nothing"], "There is no session 'nothing'."),
        (["-p", "-r"], "-r needs the ID of a session"),
        (["-p", "-c"], "This folder has no session"),
        (["-p", "x", "--allow", "nonsense((", "-m", "demo"], "rule"),
        (["-p", "x", "-m", "nobody/none"], "nobody"),
        (["-p", "x", "--store", "ftp://x"], "store"),
        (["sessions", "show", "nothing"], "There is no session 'nothing'."),
        (["sessions", "delete", "nothing"], "There is no session 'nothing'."),
        (["approve", "nothing", "--all"], "There is no session 'nothing'."),
        (["approve", "x", "--edit", "/no/such"], "/no/such cannot be read"),
        (["fork", "nothing"], "There is no session 'nothing'."),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_sentence_and_exit_2(
    command: Command, words: list[str], problem: str
) -> None:
    ended = command.run(*words)
    assert ended.code == 2, ended.err
    assert problem in ended.err
    assert ended.out == ""
    assert len(ended.err.strip().splitlines()) == 1
    assert ended.err.startswith("sandbur: ")


def test_a_command_line_with_hostile_words_cannot_steer_the_terminal(command: Command) -> None:
    ended = command.run("-p", "-r", "\x1b]52;c;eA==\x07\x1b[2J")
    assert ended.code == 2
    assert "\x1b" not in ended.err


def test_no_terminal_and_no_prompt_is_a_clear_error(command: Command) -> None:
    ended = command.run()
    assert ended.code == 2
    assert "The prompt is empty." in ended.err


def test_doctor_finds_a_fresh_installation_in_order(command: Command) -> None:
    ended = command.run("doctor", OPENAI_API_KEY="sk-secret-value")
    assert ended.code == 0, ended.out
    assert "OPENAI_API_KEY" in ended.out
    assert "sk-secret-value" not in ended.out + ended.err
    assert "apache-burr" in ended.out
    assert str(command.folder / "data" / "sandbur.db") in ended.out


def test_doctor_fails_on_a_broken_configuration(command: Command) -> None:
    folder = command.folder / ".config" / "sandbur"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("model = [")
    ended = command.run("doctor")
    assert ended.code == 1
    assert "config.toml" in ended.out
    assert "Traceback" not in ended.err


def test_doctor_fails_on_a_store_that_is_none(command: Command) -> None:
    (command.folder / "junk.db").write_text("this is no database" * 100)
    ended = command.run("doctor", "--store", "sqlite:///junk.db")
    assert ended.code == 1
    assert "junk.db" in ended.out


@pytest.mark.parametrize(("format", "start"), [("mermaid", "stateDiagram"), ("dot", "digraph")])
def test_the_graph_can_be_drawn(command: Command, format: str, start: str) -> None:
    ended = command.run("graph", "--format", format)
    assert ended.code == 0
    assert ended.out.startswith(start)
    assert "human_confirm" in ended.out


def test_sessions_are_listed_shown_exported_and_deleted(command: Command) -> None:
    assert command.run("sessions").out == ""
    session_id = command.run("-p", "hello there", "-m", "demo", "--output-format", "json").result[
        "session_id"
    ]
    listed = command.run("sessions", "list", "--json").lines
    assert [(s["id"], s["title"], s["status"]) for s in listed] == [(session_id, "hello there", "done")]
    assert session_id in command.run("sessions").out
    shown = command.run("sessions", "show", session_id[:8])
    assert "hello there" in shown.out
    assert "next: prompt" in shown.out
    whole = json.loads(command.run("sessions", "show", "hello there", "--json").out)
    assert whole["id"] == session_id
    assert whole["messages"][0]["origin"] == "person"
    exported = command.run("sessions", "export", session_id).lines
    assert exported[0]["kind"] == "export"
    assert {"session", "step", "message"} <= {record["kind"] for record in exported}
    assert command.run("sessions", "delete", session_id).code == 0
    assert command.run("sessions", "show", session_id).code == 2


def test_a_fork_is_a_session_of_its_own(command: Command) -> None:
    session_id = command.run("-p", "hello", "-m", "demo", "--output-format", "json").result["session_id"]
    forked = command.run("fork", session_id).out.strip()
    assert forked != session_id
    assert command.run("-p", "-r", forked, "and again").code == 0
    ended = command.run("-p", "-r", session_id, "--fork-session", "more", "--output-format", "json")
    assert ended.result["session_id"] not in (session_id, forked)
    before = json.loads(command.run("sessions", "show", session_id, "--json").out)
    assert len(before["messages"]) == 2


def test_a_session_can_be_given_its_id_once(command: Command) -> None:
    session_id = "11111111-2222-4333-8444-555555555555"
    words = ("-p", "hello", "-m", "demo", "--session-id", session_id, "--output-format", "json")
    assert command.run(*words).result["session_id"] == session_id
    again = command.run(*words)
    assert again.code == 2
    assert "exists already" in again.err


def test_everything_written_is_private(command: Command) -> None:
    command.run("-p", "hello", "-m", "demo")
    data = command.folder / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    inside = list(data.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in inside if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in inside if path.is_dir()} == {0o700}


def test_a_bug_is_one_sentence_and_its_traceback_is_kept(command: Command) -> None:
    program = "import sys; from sandbur.ui.cli.failure_reports import report_bug;"
    program += "sys.exit(report_bug(ValueError('odd'), None))"
    done = subprocess.run([sys.executable, "-c", program], env=command.env, capture_output=True, text=True)
    log = command.folder / "data" / "crash.log"
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert str(log) in done.stderr
    assert "ValueError: odd" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_reader_that_leaves_early_is_no_error(command: Command) -> None:
    for number in range(3):
        command.run("-p", f"hello {number}", "-m", "demo")
    for words in ("--help", "sessions list --json", "graph"):
        line = " ".join(command.line(*words.split())) + " | head -c 1; echo ${PIPESTATUS[0]} >&2"
        done = subprocess.run(["bash", "-c", line], env=command.env, capture_output=True, text=True)
        assert done.stderr == "0\n"


def shell(command: Command, line: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["bash", "-c", line], env=command.env, cwd=command.folder, capture_output=True,
                          text=True, timeout=120)  # fmt: skip


FULL = "The output cannot be written: No space left on device."


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(
    ("to", "problem"), [("> /dev/full", FULL), (">&-", "The output cannot be written: Bad file descriptor.")]
)
def test_an_answer_that_cannot_be_written_is_an_error_and_not_lost(
    command: Command, format: str, to: str, problem: str
) -> None:
    done = shell(
        command, f"{' '.join(command.line('-qp', 'hello', '-m', 'demo'))} --output-format {format} {to}"
    )
    (session,) = command.run("sessions", "list", "--json").lines
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"sandbur: {problem}", f"Resume with: sandbur -r {session['id']}"]
    assert not (command.folder / "data" / "crash.log").exists()
    assert command.run("-p", "-r", session["id"]).code == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "--version", "graph", "doctor", "sessions list --json"])
def test_a_list_that_cannot_be_written_is_one_sentence(command: Command, words: str, unbuffered: str) -> None:
    command.run("-p", "hello", "-m", "demo")
    line = " ".join(command.line(*words.split()))
    done = shell(command, f"PYTHONUNBUFFERED={unbuffered} {line} > /dev/full")
    assert (done.returncode, done.stderr) == (1, f"sandbur: {FULL}\n")


def test_a_failure_without_a_session_keeps_its_code_on_a_full_disk(command: Command) -> None:
    words = command.line("-p", "x", "-m", "openai/x", "--output-format", "json")
    done = shell(command, f"{' '.join(words)} > /dev/full")
    assert done.returncode == 41
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("closed", "code"), [("0<&-", 0), ("2>&-", 0), ("0<&- 1>&- 2>&-", 1)])
def test_closed_streams_stop_no_run(command: Command, closed: str, code: int) -> None:
    done = shell(command, f"{' '.join(command.line('-p', 'hello', '-m', 'demo'))} {closed}")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    listed = command.run("sessions", "list", "--json").lines
    assert [session["status"] for session in listed] == ["done"]


def test_a_folder_that_is_gone_is_a_clear_error(command: Command) -> None:
    gone = command.folder / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && {' '.join(command.line('-p', 'x', '-m', 'demo'))}"
    done = subprocess.run(["bash", "-c", line], env=command.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no longer exists" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_folder_that_cannot_be_written_is_a_clear_error(command: Command) -> None:
    (command.folder / "file").write_text("")
    ended = command.run("-p", "x", "-m", "demo", SANDBUR_HOME=str(command.folder / "file"))
    assert ended.code == 1
    assert ended.err.startswith("sandbur: ")
    assert len(ended.err.strip().splitlines()) == 1
    assert [file.name for file in command.folder.iterdir()] == ["file"]
