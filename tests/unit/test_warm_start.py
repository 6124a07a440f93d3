"""A command from the warm server does what one from the command line does."""

import re
import subprocess
from pathlib import Path

import pytest
from support.commands.command import TIMEOUT_S, Command, Ended
from support.commands.warm_start import warm_start

pytestmark = pytest.mark.slow
MOST_LATER = 4
"""So few modules of ours that a command imports cost it nothing; more come if a list has become old."""


def from_cold(command: Command, words: tuple[str, ...], stdin: str | None) -> Ended:
    done = subprocess.run(
        command.line(*words), cwd=command.folder, env=command.env, input=(stdin or "").encode(),
        capture_output=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("--version",), None),
        (("sessions", "list", "--json"), None),
        (("--nonsense",), None),
        (("-p", "-", "-m", "demo", "--mode", "nothing"), "hello"),
        (("-qp", "-", "-m", "demo"), "run echo h\u00e9"),
        (("-p", "run echo hi", "-m", "demo", "-q"), None),
        (("-qp", "where are you", "-m", "openai-chat/m"), None),
    ],
)
def test_code_and_words_are_the_same(tmp_path: Path, words: tuple[str, ...], stdin: str | None) -> None:
    ends: list[Ended] = []
    for name in ("cold", "warm"):
        (tmp_path / name).mkdir()
        command = Command(tmp_path / name)
        ended = from_cold(command, words, stdin) if name == "cold" else command.run(*words, stdin=stdin)
        ends.append(Ended(ended.code, _neutral(ended.out, name), _neutral(ended.err, name)))
    assert ends[0] == ends[1]


def test_a_command_of_another_interpreter_start_is_not_warm(tmp_path: Path) -> None:
    env = Command(tmp_path).env
    assert warm_start().fits({**env, "SANDBUR_MODE": "yolo", "SANDBUR_LEASE_S": "60"})
    assert not warm_start().fits({**env, "LC_ALL": "POSIX"})


@pytest.mark.parametrize(
    ("point", "code"), [("started_after_commit:1", -9), ("started_after_commit:9", 0), ("", 0)]
)
def test_a_command_dies_at_the_crash_point_of_its_own_environment(
    tmp_path: Path, point: str, code: int
) -> None:
    command = Command(tmp_path)
    ended = command.run("-p", "run echo hi", "-m", "demo", "-y", SANDBUR_CRASH_AT=point)
    assert ended.code == code


LATER = """
import sys
from sandbur.ui.cli.main import main
before = set(sys.modules)
code = main()
later = sorted(name for name in set(sys.modules) - before if name.startswith("sandbur."))
print("LATER", *later, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "run echo hi; cat notes", "-m", "demo", "-y"),
        ("-p", "run rm -rf notes", "-m", "demo"),
        ("-p", "hello", "-m", "demo", "--output-format", "stream-json"),
        ("sessions", "list", "--json"),
        ("acp",),
        ("mcp", "serve"),
    ],
)
def test_nearly_all_that_a_common_command_imports_is_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = Command(tmp_path)
    (tmp_path / "program.py").write_text(LATER)
    env = {**command.env, "SANDBUR_MODEL": "demo"}
    running = warm_start().start(words, tmp_path, env, "", program=tmp_path / "program.py")
    _, _, err = running.wait_for_end(TIMEOUT_S)
    (found,) = (line for line in err.decode().splitlines() if line.startswith("LATER"))
    assert len(found.split()) <= 1 + MOST_LATER, found


def _neutral(text: str, folder: str) -> str:
    return re.sub(r"[0-9a-f-]{16,}", "*", text).replace(folder, "*")
