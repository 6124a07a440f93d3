"""The core without an extension: its folders are deleted from a copy of the product, and the rest works."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.agent.extensions.registry import list_shipped

pytestmark = pytest.mark.slow

LAYERS = ("state", "actions", "agent", "ui")
FOLDERS = {extension.name: extension.folders for extension in list_shipped()}
SETTINGS = {
    "mcp": ("mcp_servers = {}", "`mcp_servers`"),
    "telemetry": ("otel = true", "`otel`"),
    "hooks": ("hooks = {}", "`hooks`"),
    "flows": ("flows = {}", "`flows`"),
    "python_code": ("execute_python = true", "`execute_python`"),
    "agents": ("agent_depth = 0", "`agent_depth`"),
}
"""Extension -> a line of a `config.toml` that sets one of its settings, and how an error names the key."""
COMMANDS = {
    "flows": "flows", "mcp": "mcp", "acp": "acp", "replay": "replay", "tracking": "ui", "agents": "agents",
}  # fmt: skip
"""Extension -> one of its commands."""


class Product:
    """A copy of the product without one extension."""

    def __init__(self, place: Path, name: str) -> None:
        self.sources, self.home, self.project = place / "product", place / "home", place / "project"
        for folder in (self.sources, self.home, self.project):
            folder.mkdir()
        ignored = shutil.ignore_patterns("__pycache__")
        for layer in LAYERS:
            shutil.copytree(ROOT / layer, self.sources / layer, ignore=ignored)
        shutil.copy(ROOT / "sandbur.py", self.sources)
        for folder in FOLDERS[name]:
            gone = self.sources / folder
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(self.sources),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "sandbur", *words],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Return the exit code and the output of a command line."""
        process = self.start(*words)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output


@pytest.fixture(
    scope="module",
    params=[
        "mcp",
        "telemetry",
        "replay",
        "acp",
        "tracking",
        "hooks",
        "skills",
        "python_code",
        "agent_files",
        "agents",
    ],
)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def product(name: str, tmp_path_factory: pytest.TempPathFactory) -> Product:
    return Product(tmp_path_factory.mktemp(name), name)


def test_it_is_this_copy_that_runs(product: Product) -> None:
    code = "import sandbur; print(sandbur.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], env=product.env, cwd=product.project, capture_output=True, text=True
    )
    assert found.stdout.strip() == str(product.sources / "sandbur.py")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["config", "list"], ["sessions", "list"]])
def test_commands_that_look_work(product: Product, words: list[str]) -> None:
    code, output = product.run(*words)
    assert (code, "Traceback" in output) == (0, False), output


def test_the_doctor_checks_the_rest(product: Product) -> None:
    _, output = product.run("doctor")
    assert "configuration" in output
    assert "Traceback" not in output
    assert "internal error" not in output


def test_a_turn_with_a_shell_call_works(product: Product) -> None:
    code, output = product.run("-p", "run echo it-works", "-m", "demo", "-y")
    assert (code, "it-works" in output) == (0, True), output


def test_a_killed_run_is_resumed(product: Product) -> None:
    marker = product.project / "ran"
    with product.start("-p", f"run touch {marker} && sleep 60", "-m", "demo", "-y") as process:
        while not marker.exists() and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert marker.exists()
    code, output = product.run("-p", "-c", "-y")
    assert "internal error" not in output, (code, output)
    assert code in (0, 3), (code, output)


@pytest.mark.parametrize("name", SETTINGS, indirect=True, scope="module")
def test_its_settings_are_unknown_in_one_clear_sentence(product: Product, name: str) -> None:
    line, key = SETTINGS[name]
    config = product.home / ".config/sandbur/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"{line}\n")
    code, output = product.run("config", "list")
    config.unlink()
    assert code == 52
    assert f"there is no key {key}" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("name", COMMANDS, indirect=True, scope="module")
def test_its_commands_are_not_there(product: Product, name: str) -> None:
    _, output = product.run("--help")
    assert f"\n  {COMMANDS[name]} " not in output
