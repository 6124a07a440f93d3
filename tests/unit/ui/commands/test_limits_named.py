"""A limit of the shell that stops Sandbur is named, with the command that raises it."""

import json
import subprocess
from pathlib import Path

import pytest
from support.commands.command import TIMEOUT_S, Command
from support.samples.trial_folders import make_ended_trial

WORDS = " ".join(f"word{number}" for number in range(2000))


def run_limited(command: Command, limit: str, *words: str) -> tuple[int, str, str]:
    """Run a command under a limit such as `-f 100`; return its code, stdout and stderr."""
    line = ["bash", "-c", f'ulimit {limit}; exec "$@"', "-", *command.line(*words)]
    ended = subprocess.run(
        line, cwd=command.folder, env=command.env, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def write_much(folder: Path) -> None:
    (folder / "much.txt").write_text(WORDS * 40)


@pytest.fixture
def used(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / f"docs/{number}.md").write_text(f"# {number}\n{WORDS}")
    (tmp_path / "ws").mkdir()
    assert command.run("-p", "hello", "-m", "demo").code == 0
    make_ended_trial(tmp_path / "data", tmp_path / "ws", write_much)
    return command


CASES = {
    "a run": ("-p", WORDS * 5, "-m", "demo", "--output-format", "json"),
    "an index": ("index", "add", "docs"),
    "a server": ("serve", "--port", "0"),
    "an apply": ("try", "apply", "--yes", "-C", "ws"),
}


@pytest.mark.parametrize(("name", "limit"), [(name, "-n 20") for name in CASES] + [
    ("a run", "-f 100"), ("an index", "-f 600"), ("an apply", "-f 300"),
])  # fmt: skip
def test_the_sentence_names_the_limit(used: Command, name: str, limit: str) -> None:
    code, out, err = run_limited(used, limit, *CASES[name])
    assert code not in (0, 124), out
    assert "internal error" not in err
    assert f"ulimit {limit[:2]}" in out + err, out + err
    if name == "a run" and out:
        assert f"ulimit {limit[:2]}" in str(json.loads(out)["error"])


def test_a_command_that_a_limit_ends_says_which_one(used: Command) -> None:
    words = ("-p", "!head -c 9000000 /dev/zero > big", "-y", "-m", "demo")
    _, out, _ = run_limited(used, "-f 700", *words)
    assert "SIGXFSZ: `ulimit -f` allows no larger file" in out
