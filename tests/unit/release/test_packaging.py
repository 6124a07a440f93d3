"""What is installed is one package, `sandbur`, beside whatever folders the person's project has."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.network.otlp_receiver import OtlpReceiver
from support.places import ROOT
from support.stores.databases import ON_POSTGRESQL, fresh_place
from support.tool_servers import counted

OWN = "class Agent:\n    mine = True\n"
USES = """
import importlib
import agent, actions, state, ui
from burr.core import State
assert agent.__file__.startswith(FOLDER), agent
import sandbur
from sandbur import SandburPersister
assert sandbur.__file__.startswith(VENV), sandbur.__file__
assert not hasattr(sandbur, "Nothing")
import sandbur.testing
from sandbur.testing import ScriptedModel
assert sandbur.testing.__file__ == sandbur.__file__.replace("__init__", "testing")
assert ScriptedModel is importlib.import_module("sandbur.agent.sdk.testing.scripted_model").ScriptedModel
assert set(sandbur.__all__) <= set(dir(sandbur))
with SandburPersister.from_url("sqlite:///runs.db") as persister:
    persister.initialize()
    persister.save(None, "one", 0, "answer", State({"n": 1}), "completed")
    assert persister.load(None, "one", None)["state"]["n"] == 1
"""
REPLAYS = """
def test_a_recording(sandbur_replay):
    import agent, state
    sandbur_replay("recordings/hi.jsonl")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A person's project that has the very names of our folders."""
    for name in ("agent", "actions", "state", "ui"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(OWN)
    (tmp_path / "agent.py").write_text(OWN)
    return tmp_path


def run(installed: Path, project: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBUR_", "PYTHON"))}
    env |= {"HOME": str(project), "SANDBUR_HOME": str(project / "data"), "PYTHONPATH": str(project)}
    done = subprocess.run(
        [str(installed / "bin" / words[0]), *words[1:]],
        cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_brings_one_package_and_its_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        scripts = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"sandbur"}
    assert {"sandbur/__init__.py", "sandbur/__main__.py", "sandbur/py.typed", "sandbur/testing.py"} <= set(
        names
    )
    assert not [name for name in names if "/public/" in name]
    assert "sandbur = sandbur.ui.cli.main:main" in scripts
    assert "sandbur-replay = sandbur.ui.pytest_plugin" in scripts


def test_command_persister_fixture_and_import_work_beside_folders_of_the_same_names(
    installed: Path, project: Path
) -> None:
    hello = run(installed, project, "sandbur", "-m", "demo", "-y", "-p", "run echo hi")
    assert "hi" in hello
    assert run(installed, project, "python", "-m", "sandbur", "--version").startswith("sandbur ")
    uses = USES.replace("FOLDER", repr(str(project))).replace("VENV", repr(str(installed)))
    run(installed, project, "python", "-c", uses)
    listed = run(installed, project, "sandbur", "sessions", "list", "--json")
    session_id = json.loads(listed.splitlines()[0])["id"]
    run(installed, project, "sandbur", "test", "add", session_id, "--name", "hi")
    (project / "tests" / "test_ours.py").write_text(REPLAYS)
    tested = run(installed, project, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert "2 passed" in tested


def test_the_sources_themselves_have_every_public_module(project: Path) -> None:
    """As an editable install has them: `sandbur.py` lies at the root, and nothing beside it is public."""
    code = "import sandbur.testing as it; assert set(it.__all__) <= set(dir(it)); print(it.__file__)"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=project, env=env, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(ROOT / "agent")


TYPED = """
from own_model import OllamaModel
from sandbur import Model
from sandbur.testing import ScriptedModel, ToolCall

models: list[Model] = [ScriptedModel([]), OllamaModel("m")]
model = ScriptedModel(["a", [ToolCall("b", c=1)], lambda request: request.system])
reveal_type(model)
reveal_type(model.requests)
"""


@pytest.mark.slow
def test_the_types_of_public_names_are_known_to_a_checker(installed: Path, project: Path) -> None:
    (project / "typed.py").write_text(TYPED)
    (project / "own_model.py").write_bytes((ROOT / "examples" / "own_model.py").read_bytes())
    (project / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["typed.py"]}')
    said = run(installed, project, "python", "-m", "pyright", "--pythonpath", str(installed / "bin/python"))
    assert 'Type of "model" is "ScriptedModel"' in said
    assert 'Type of "model.requests" is "list[ModelRequest]"' in said
    assert "0 errors" in said


@pytest.mark.slow
def test_the_examples_are_typed(installed: Path, project: Path) -> None:
    shutil.copytree(ROOT / "examples", project / "examples")
    (project / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "include": ["examples/*.py"]}'
    )
    said = run(installed, project, "python", "-m", "pyright", "--pythonpath", str(installed / "bin/python"))
    assert "0 errors" in said


def test_a_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    code = (
        "import hatchling.build, tarfile, os, sys\n"
        f"name = hatchling.build.build_sdist({str(tmp_path)!r})\n"
        f"tarfile.open(os.path.join({str(tmp_path)!r}, name)).extractall({str(tmp_path)!r}, filter='data')\n"
        f"os.chdir(os.path.join({str(tmp_path)!r}, name.removesuffix('.tar.gz')))\n"
        f"hatchling.build.build_wheel({str(tmp_path)!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(tmp_path / wheel.name) as theirs:
        assert set(theirs.namelist()) == set(ours.namelist())


HOST = """
import logging, os, signal, sys
def host():
    kept = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)]
    loggers = {name: getattr(log, "level", 0) for name, log in logging.root.manager.loggerDict.items()}
    return dict(os.environ), kept, loggers, logging.root.level, logging.root.handlers[:], sys.excepthook
before = host()
import sandbur
assert host() == before, [(a, b) for a, b in zip(host(), before) if a != b]
foreign = {name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__", "sandbur"}
assert not {name for name in foreign if not name.startswith(("_", "sitecustomize", "distutils"))}, foreign
"""


def test_importing_sandbur_touches_nothing_of_the_host() -> None:
    subprocess.run([sys.executable, "-c", HOST], cwd=ROOT, check=True)


SESSION = """
import asyncio, importlib, logging, os, signal, sys, threading
from pathlib import Path
from sandbur.agent.runtime.runtime import Runtime

def host():
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    logs = [logging.root, *(log for log in logging.root.manager.loggerDict.values() if hasattr(log, "level"))]
    changed = {
        log.name: (log.level, log.handlers[:], log.filters[:], log.propagate, log.disabled)
        for log in logs
        if log.level or log.handlers or log.filters or not log.propagate or log.disabled
    }
    return dict(os.environ), os.getcwd(), os.umask(0o022), signals, changed, sys.excepthook, sys.stdout

class Heard(logging.Handler):
    def emit(self, record):
        sys.exit(f"{record.name}: {record.getMessage()}")

async def run(text):
    runtime = Runtime.open({"model": "demo", "mode": "yolo", "cwd": Path.cwd()})
    session = await runtime.create()
    last = [event async for event in session.send(text)][-1]
    await runtime.aclose()
    return last.status

for library in sys.argv[1:]:  # what it does to its loggers itself is no matter of ours
    importlib.import_module(library)
logging.root.addHandler(Heard(logging.WARNING))
before = host()
assert asyncio.run(run("run echo hi; false")) == "done"
assert asyncio.run(run("/nonsense")) == "done"
assert host() == before, [(a, b) for a, b in zip(host(), before) if a != b]
assert threading.active_count() == 1, threading.enumerate()
"""


def test_a_session_touches_nothing_of_the_host(tmp_path: Path) -> None:
    _host_of_a_session(tmp_path)


def test_a_session_with_telemetry_and_a_tool_server_touches_nothing_of_the_host(tmp_path: Path) -> None:
    table = (
        f"[mcp_servers.notes]\ncommand = '{sys.executable}'\nargs = ['{counted.__file__}', '{tmp_path}']\n"
    )
    (tmp_path / "sandbur").mkdir()
    (tmp_path / "sandbur" / "config.toml").write_text(table)
    libraries = ("mcp", "requests", "opentelemetry.sdk.trace.export")
    with OtlpReceiver() as receiver:
        telemetry = {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        _host_of_a_session(tmp_path, *libraries, XDG_CONFIG_HOME=str(tmp_path), **telemetry)
    assert {path for path, _ in receiver.requests} == {"/v1/metrics", "/v1/traces"}
    assert (tmp_path / "data" / "mcp" / "notes.log").exists()


@ON_POSTGRESQL
def test_a_session_on_postgresql_touches_nothing_of_the_host(tmp_path: Path) -> None:
    with fresh_place("postgresql") as place:
        _host_of_a_session(tmp_path, "psycopg", SANDBUR_STORE=place.url)


def _host_of_a_session(folder: Path, *libraries: str, **env: str) -> None:
    env = {**os.environ, "SANDBUR_HOME": str(folder / "data"), "PYTHONPATH": str(ROOT), **env}
    subprocess.run([sys.executable, "-c", SESSION, *libraries], cwd=folder, env=env, check=True)
