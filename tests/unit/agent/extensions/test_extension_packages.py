"""An extension in a package of its own: the one in `examples/`, installed into a folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

pytestmark = pytest.mark.slow

SOURCE = ROOT / "examples/extension_package"


def install(into: Path, name: str, entry: str) -> None:
    """Write what an installer writes for a package: its files, and a `.dist-info` with the entry point."""
    info = into / f"sandbur_{name}-1.0.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: sandbur-{name}\nVersion: 1.0.0\n")
    info.joinpath("entry_points.txt").write_text(f"[sandbur.extensions]\n{name} = {entry}\n")


class Installed:
    def __init__(self, place: Path) -> None:
        self.packages, self.home, self.project = place / "packages", place / "home", place / "project"
        for folder in (self.packages, self.home, self.project):
            folder.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": f"{self.packages}{os.pathsep}{ROOT}",
        }

    def run(self, *words: str, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "sandbur", *words],
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    def configure(self, text: str) -> None:
        path = self.home / ".config/sandbur/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    place = Installed(tmp_path)
    shutil.copytree(SOURCE / "sandbur_greeter", place.packages / "sandbur_greeter")
    install(place.packages, "greeter", "sandbur_greeter:EXTENSION")
    return place


def test_its_command_runs_with_its_setting(installed: Installed) -> None:
    assert installed.run("greet", "Ada") == (0, "Hello, Ada!\n")
    assert installed.run("greet", "Ada", GREETER_GREETING="Good day") == (0, "Good day, Ada!\n")
    installed.configure('greeting = "Servus"\n')
    assert installed.run("greet", "Ada") == (0, "Servus, Ada!\n")


def test_its_setting_is_listed_with_its_source(installed: Installed) -> None:
    installed.configure('greeting = "Servus"\n')
    code, output = installed.run("config", "get", "greeting")
    assert (code, output) == (0, "Servus\n")
    assert "greeting" in installed.run("config", "list")[1]


def test_an_unknown_setting_is_still_unknown(installed: Installed) -> None:
    installed.configure('greting = "Servus"\n')
    code, output = installed.run("config", "list")
    assert (code, "there is no key `greting`" in output, "`greeting`" in output) == (52, True, True)


PROGRAM = """
import asyncio, sys
from sandbur.agent.runtime.runtime import Runtime

async def main():
    runtime = Runtime.open({"model": "demo", "mode": "yolo"})
    session = await runtime.create()
    events = [event async for event in session.send("run echo hi")]
    print(*(type(event).__name__ + ":" + getattr(event, "message", "") for event in events), sep="\\n")
    print("own:", *session.settings.own_tools)
    await runtime.aclose()

asyncio.run(main())
"""


def test_its_tool_and_its_observer_are_in_a_session(installed: Installed) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=installed.project,
        env=installed.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "own: task propose_plan memory greet" in done.stdout
    assert "Notice:The run made 1 calls." in done.stdout


PROBE = """
import os
from pathlib import Path
from sandbur import Extension, ExtensionRuntime, Setting, tool

EXTENSION = Extension(
    name="probe", about="probes", settings=(Setting("probed", "yes", "line", about="probes"),),
    runtime="probe:Probe",
)

def note(word):
    with Path(os.environ["PROBE_LOG"]).open("a") as log:
        log.write(word + "\\n")

class Source:
    def __init__(self, name):
        self.name = name

    async def tools(self):
        note(f"{self.name} opened")
        if os.environ.get("PROBE_FAILS") == "tools":
            raise OSError("no such place")

        @tool(name="probe" if os.environ.get("PROBE_FAILS") == "names" else self.name, effect="read")
        def probe() -> str:
            "Probe."
            return "probed"

        return [probe]

    def notices(self):
        return ()

    async def aclose(self):
        note(f"{self.name} closed")
        raise OSError("it does not close")

SHARED = Source("shared")

class Probe(ExtensionRuntime):
    def tool_sources(self, session, definition, needs_model):
        return (Source("own"), SHARED)
"""
PROBING = """
import asyncio
from sandbur.agent.runtime.runtime import Runtime
from probe import note

async def main():
    runtime = Runtime.open({"model": "demo", "mode": "yolo"})
    try:
        first, second = await runtime.create(), await runtime.create()
        first = await runtime.reopen(first)
        note("reopened")
        await runtime.let_go(first)
        note("let go")
        async for event in second.send("run echo hi"):
            pass
    finally:
        await runtime.aclose()
        note("ended")

asyncio.run(main())
"""


@pytest.mark.parametrize("fails", ["", "tools", "names"])
def test_a_tool_source_is_closed_once_no_session_uses_it_also_after_errors(
    tmp_path: Path, fails: str
) -> None:
    place, log = Installed(tmp_path), tmp_path / "log"
    place.packages.joinpath("probe.py").write_text(PROBE)
    install(place.packages, "probe", "probe:EXTENSION")
    done = subprocess.run(
        [sys.executable, "-c", PROBING],
        cwd=place.project,
        env={**place.env, "PROBE_LOG": str(log), "PROBE_FAILS": fails},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert log.exists(), done.stderr
    words = log.read_text().splitlines()
    if fails:
        assert ("no such place" if fails == "tools" else "two tools called probe") in done.stderr
        assert words.count("own closed") == words.count("own opened") == 1
        assert words[-1] == "ended"
        assert "shared opened" not in words or "shared closed" in words
        return
    assert done.returncode == 0, done.stderr
    opened = ["own opened", "shared opened"]
    assert words[:4] == opened * 2
    assert words[4:8] == [*opened, "own closed", "reopened"]
    assert words[8:10] == ["own closed", "let go"]
    assert sorted(words[10:12]) == ["own closed", "shared closed"]
    assert words[12:] == ["ended"]


def test_its_slash_command_is_one_of_the_chat(installed: Installed) -> None:
    code = (
        "import os; from pathlib import Path; from sandbur.agent.config.settings import load_extensions;"
        "load_extensions(); from sandbur.ui.chat.slash.extras import more_commands;"
        "print(*(one.typed for one in more_commands(Path.cwd(), os.environ)[0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed.project, env=installed.env, capture_output=True, text=True
    )
    assert done.stdout == "/greet\n", done.stderr


def test_its_slash_command_is_one_of_editors(installed: Installed) -> None:
    code = (
        "from sandbur.agent.config.settings import load_extensions; load_extensions();"
        "from sandbur.ui.chat.slash.table import editor_entries; print(editor_entries()[-1].editor)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed.project, env=installed.env, capture_output=True, text=True
    )
    assert done.stdout == "sandbur_greeter.slash:greet_in_editor\n", done.stderr


def test_what_a_project_sets_of_it_is_disclosed(installed: Installed) -> None:
    code = (
        "from pathlib import Path; from sandbur.agent.config.trust_summary import summarize_settings;"
        "print(*summarize_settings(b'greeting = \"Hi\"', Path('x/.sandbur/config.toml')).dangerous)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed.project, env=installed.env, capture_output=True, text=True
    )
    assert done.stdout == "greeting = Hi\n", done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("EXTENSION = 1", "1 is not an `Extension`"),
        ("from sandbur import Extension\nEXTENSION = Extension(name='mcp')", "has the name mcp"),
    ],
)
def test_a_broken_one_is_left_out_in_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    place = Installed(tmp_path)
    place.packages.joinpath("broken.py").write_text(f"{text}\n")
    install(place.packages, "broken", "broken:EXTENSION")
    code, output = place.run("-p", "run echo it-works", "-m", "demo", "-y")
    assert (code, "it-works" in output) == (0, True), output
    _, listed = place.run("config", "list")
    assert "The extension broken (broken:EXTENSION) is left out" in listed
    assert why in listed
    assert "Traceback" not in listed
