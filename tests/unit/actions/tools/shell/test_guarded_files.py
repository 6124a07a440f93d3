"""What a real sandbox keeps: every credential file unseen, every protected place as it is, at any depth."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.samples.guarded_files import OF_A_HOME, RUN_LATER
from support.tools.sandboxes import KINDS, open_sandbox, run

from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox
from sandbur.actions.workspace.protected.place_finder import read_link_version
from sandbur.actions.workspace.protected.protected_places import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
)
from sandbur.actions.workspace.protected.secret_files import SECRET_FILES, SECRET_FOLDERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
PYTHON = os.path.realpath(sys.executable)
PLANTED = "planted-in-a-file-of-secrets"
SECRETS = [*OF_A_HOME, *SECRET_FILES, *(f"{folder}/inside" for folder in SECRET_FOLDERS)]
GIT_WRITES = (".git/inside", ".git")
"""The sandbox leaves the rest of a repository to git."""
PLACES = sorted(
    {*RUN_LATER, *PROTECTED_FILES, *(f"{one}/inside" for one in (*PROTECTED_FOLDERS, *PROTECTED_PATHS))}
    - {*GIT_WRITES, *(place for place in RUN_LATER if f"{place}/inside" in PROTECTED_PATHS)}
)
CHANGE_ALL = """
import json, os, sys
changed = []
for path in json.load(open("places.json")):
    for way in (lambda: open(path, "a").write("x"), lambda: os.rename(path, path + ".old"),
                lambda: os.unlink(path),
                lambda: os.rename(os.path.dirname(path), os.path.dirname(path) + "2")):
        try:
            way()
        except OSError:
            continue
        changed.append(path)
print(json.dumps(changed))
"""
MAKE_ALL = """
import json, os
for path in json.load(open("places.json")):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").close()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest, place: Path) -> Iterator[Sandbox]:
    place.joinpath("ws").mkdir()
    with open_sandbox(request.param, [place / "ws"], place / "home") as sandbox:
        yield sandbox


def in_folders(workspace: Path, prefix: str) -> list[Path]:
    """Return each place in a folder of its own, so that none is found because of another one."""
    return [workspace / prefix / str(number) / name for number, name in enumerate(PLACES)]


def written(paths: list[Path], content: str = "before") -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


async def changed_by(sandbox: Sandbox, workspace: Path, script: str, paths: list[Path]) -> str:
    workspace.joinpath("places.json").write_text(json.dumps([str(path) for path in paths]))
    workspace.joinpath("script.py").write_text(script)
    outcome = await run(sandbox, workspace, f"{PYTHON} script.py", timeout_s=60)
    assert outcome.outcome == "ok", outcome.content
    return outcome.content


async def test_no_credential_file_of_a_home_is_seen(place: Path, sandbox: Sandbox):
    written([place / "home" / name for name in SECRETS], PLANTED)
    outcome = await run(
        sandbox, place / "ws", f"grep -rlF {PLANTED} {place / 'home'} 2>/dev/null; echo searched"
    )
    assert outcome.content == "searched\nexit code: 0"


async def test_no_protected_place_is_changed(place: Path, sandbox: Sandbox):
    paths = in_folders(place / "ws", "sub/deeper")
    written(paths)
    content = await changed_by(sandbox, place / "ws", CHANGE_ALL, paths)
    assert json.loads(content.splitlines()[0]) == []
    assert [path for path in paths if path.read_text() != "before"] == []


async def test_a_protected_place_that_is_made_at_any_depth_does_not_stay(place: Path, sandbox: Sandbox):
    paths = [path for path in in_folders(place / "ws", "new/deeper") if ".git/" not in str(path)]
    content = await changed_by(sandbox, place / "ws", MAKE_ALL, paths)
    assert [path for path in paths if path.exists()] == []
    assert "may not make these, so they were renamed" in content


async def test_a_repository_that_a_command_makes_stays(place: Path, sandbox: Sandbox):
    outcome = await run(sandbox, place / "ws", "git init -q a/b && git -C a/b status --short && echo made")
    assert outcome.content == "made\nexit code: 0"
    assert place.joinpath("ws/a/b/.git/config").exists()


async def test_a_link_in_a_protected_place_cannot_be_exchanged(place: Path, sandbox: Sandbox):
    written([place / "ws/kept/tasks.json", place / "ws/other/tasks.json"])
    place.joinpath("ws/.vscode").symlink_to("kept")
    outcome = await run(sandbox, place / "ws", "rm .vscode && ln -s other .vscode")
    assert "they were renamed" in outcome.content
    assert not os.path.lexists(place / "ws/.vscode")


@pytest.mark.parametrize("name", ["node_modules/.bin/tsc", ".venv/bin/python", ".env"])
async def test_what_an_approved_command_writes_of_installed_places_and_secrets_stays(
    place: Path, sandbox: Sandbox, name: str
):
    command = f"mkdir -p $(dirname {name}) && echo x >> {name}; echo done"
    for number in range(2):
        approved = await run(sandbox, place / "ws", command, allowed_by="person")
        assert approved.content == "done\nexit code: 0"
        assert place.joinpath("ws", name).read_text() == "x\n" * (number + 1)
    await run(sandbox, place / "ws", command)
    assert place.joinpath("ws", name).read_text() == "x\n" * 2


def test_a_place_that_is_gone_has_the_version_of_no_link(tmp_path: Path) -> None:
    link = tmp_path / ".bashrc"
    link.symlink_to("elsewhere")
    assert read_link_version(str(link)) != 0
    link.unlink()
    assert read_link_version(str(link)) == 0
