"""Every way in which a configuration file can be wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands.machine import Machine

from sandbur.agent.config.trust import trust
from sandbur.state.errors import ConfigError


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


BAD_FILES: list[tuple[bytes, str]] = [
    (b"model = ", "line 1, column 9"),
    (b'\n\nmodel = "x', "line 3"),
    (b'model = "a"\nmodel = "b"', "line 2"),
    (b'modle = "x"', "Did you mean `mode` or `model`?"),
    (b"zzzzzz = 1", "The keys are: model,"),
    (b"max_turns = '3'", "`max_turns`"),
    (b"max_turns = 0", "`max_turns`"),
    (b"max_turns = true", "`max_turns`"),
    (b"timeout_s = -1", "`timeout_s`"),
    (b"timeout_s = nan", "`timeout_s`"),
    (b"max_budget_usd = inf", "`max_budget_usd`"),
    (b"compress_at = 2", "`compress_at`"),
    (b'mode = "yes"', "`mode`"),
    (b'durability = "none"', "`durability`"),
    (b'allow = "read_file"', "`allow`"),
    (b"allow = [1]", "`allow.0`"),
    (b'allow = ["read_file("]', "`read_file(`"),
    (b'deny = ["(x)"]', "`(x)`"),
    (b'add_dirs = ["/no/such/folder"]', "/no/such/folder"),
    (b'model = ""', "`model`"),
    (b'model = "a\\u0007"', "`model`"),
    (b'store = "oracle://u:hunter2@h/d"', "oracle"),
    (b'[prices."a/b"]\ninput = 1', "`prices.a/b.output` is missing"),
    (b'[prices."a/b"]\ninput = 1\noutput = 1\ncache = 1', "Did you mean `cache_read` or `cache_write`?"),
    (b'[prices."a/b"]\ninput = -1\noutput = 1', "`prices.a/b.input`"),
    (b'[providers.x]\nbase_url = "ftp://x"', "`providers.x.base_url`"),
    (b'[providers.x]\nbase_ulr = "http://x"', "`base_url`"),
    (b'[providers.x]\nbase_url = "http://x"\nwire = "smoke"', "`providers.x.wire`"),
    (b'[providers.x]\nbase_url = "http://x"\ntransport = "pigeon"', "`providers.x.transport`"),
    (b'transport = "pigeon"', "`transport`"),
    (b'[providers.x]\nbase_url = "http://x"\napi_key_env = "not a name"', "`providers.x.api_key_env`"),
    (b'[context_windows]\n"a/b" = 1', "`context_windows.a/b`"),
    (b"\xef\xbb\xbfmax_turns = 1", "byte order mark"),
    (b"# caf\xe9\n", "line 1, column 6"),
    (b"# ok\n#\x00", "line 2"),
    (b"x = " + b"[" * 100_000, ""),
    (b"x = " + b"1" * 5000, "digits"),
    (b"#" * (1 << 20) + b"\n", "1,048,577 bytes"),
]


@pytest.mark.parametrize(("content", "said"), BAD_FILES)
@pytest.mark.parametrize("place", ["user", "project"])
def test_a_bad_file_is_one_clear_sentence_about_the_place(
    machine: Machine, place: str, content: bytes, said: str
) -> None:
    path = machine.write(machine.user_config if place == "user" else machine.project_config, content)
    if place == "project" and len(content) <= 1 << 20:
        trust(machine.project, machine.env)
    problem = machine.problem()
    assert isinstance(problem, ConfigError)
    assert problem.exit_code == 52
    assert str(path) in problem.message
    assert said in str(problem)
    assert "hunter2" not in str(problem)


def test_an_empty_file_says_nothing(machine: Machine) -> None:
    machine.write(machine.user_config, "")
    assert machine.load().model is None


def test_a_file_that_is_no_file_is_refused(machine: Machine) -> None:
    machine.user_config.mkdir(parents=True)
    assert "is a folder" in machine.problem().message
    machine.user_config.rmdir()
    os.mkfifo(machine.user_config)
    assert "no regular file" in machine.problem().message
    machine.user_config.unlink()
    machine.user_config.symlink_to("nowhere")
    assert "link to a file that does not exist" in machine.problem().message
    machine.user_config.unlink()
    machine.user_config.symlink_to(machine.user_config)
    assert "cannot be read" in machine.problem().message


def test_a_file_that_everybody_can_change_is_refused(machine: Machine) -> None:
    machine.write(machine.user_config, "").chmod(0o666)
    problem = machine.problem()
    assert "every user" in problem.message
    assert problem.hint.startswith("Run: chmod")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_file_without_read_permission_is_refused(machine: Machine) -> None:
    machine.write(machine.user_config, "").chmod(0o600)
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from sandbur.agent.config.load import load_settings
from sandbur.state.errors import ConfigError
os.chmod({str(machine.home.parent.parent)!r}, 0o755)
os.setuid(65534)
try:
    load_settings({{"cwd": Path("/")}}, {machine.env!r})
except ConfigError as error:
    print(error)
"""
    for parent in [machine.home, *machine.home.parents][:-1]:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith(("pytest", "test_", "home")):
            parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout, done.stderr
