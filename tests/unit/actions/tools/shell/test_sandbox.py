"""What a command in a real sandbox can and cannot do to files, and that it works as usual otherwise."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from support.required import require
from support.tools.sandboxes import KINDS, open_sandbox, run

from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, SandboxKind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]

PYTHON = os.path.realpath(sys.executable)


class Site(NamedTuple):
    workspace: Path
    home: Path
    outside: Path


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder outside of `/tmp`, of which commands see nothing anyway."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture
def site(place: Path) -> Site:
    """A repository, a home with secrets, and a folder that is neither."""
    site = Site(place / "ws", place / "home", place / "outside")
    for folder in (*site, site.home / ".ssh", site.workspace / ".vscode", site.workspace / "nested"):
        folder.mkdir()
    site.home.joinpath(".ssh/id").write_text("private key")
    site.home.joinpath(".netrc").write_text("password")
    site.home.joinpath("notes").write_text("anybody may read this")
    site.outside.joinpath("kept").write_text("kept")
    site.workspace.joinpath(".mcp.json").write_text("{}")
    for repository in (site.workspace, site.workspace / "nested"):
        subprocess.run(["git", "init", "-q", repository], check=True)
    return site


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest, site: Site) -> Iterator[Sandbox]:
    kind: SandboxKind = request.param
    with open_sandbox(kind, [site.workspace], site.home, private=(site.home / "data",)) as sandbox:
        yield sandbox


async def test_the_workspace_and_a_temporary_folder_can_be_written(site: Site, sandbox: Sandbox):
    name = f"/tmp/sandbur-{os.getpid()}-temporary"
    outcome = await run(
        sandbox, site.workspace, f"echo a > a; mkdir d; mv a d/b; echo t > {name}; cat d/b {name}"
    )
    assert (outcome.outcome, outcome.content) == ("ok", "a\nt\nexit code: 0")
    assert site.workspace.joinpath("d/b").read_text() == "a\n"
    assert not Path(name).exists()


async def test_what_is_in_the_temporary_folder_is_there_for_the_next_command(site: Site, sandbox: Sandbox):
    await run(sandbox, site.workspace, 'echo t > "$TMPDIR/t"')
    assert (await run(sandbox, site.workspace, "cat /tmp/t")).content == "t\nexit code: 0"


WRITES = (
    "echo x > {outside}/new",
    "echo x >> {outside}/kept",
    "rm {outside}/kept",
    "mv {outside}/kept {workspace}/kept",
    "ln {outside}/kept {workspace}/link && echo x >> {workspace}/link",
    "ln -s {outside}/kept {workspace}/link && echo x >> {workspace}/link",
    "chmod 777 {outside}/kept",
    "touch {outside}/kept",
    "mkdir {outside}/new",
    "echo x > {home}/.bashrc",
    "mount -o remount,rw / && echo x > {outside}/new",
    "umount {outside}; umount {workspace}; echo x > {outside}/new",
    "unshare -Urm sh -c 'mount -o remount,rw,bind / / && echo x > {outside}/new'",
    "echo x > /proc/1/root{outside}/new",
    "echo x > /proc/{agent}/root{outside}/new",
    "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness",
    "echo 0 > /proc/sysrq-trigger",
)


@pytest.mark.parametrize("command", WRITES)
async def test_nothing_outside_of_the_workspace_changes(site: Site, sandbox: Sandbox, command: str):
    before = site.outside.joinpath("kept").stat()
    places = {**site._asdict(), "agent": os.getpid()}
    assert (await run(sandbox, site.workspace, command.format(**places))).outcome == "error"
    after = site.outside.joinpath("kept").stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_size) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_size,
    )
    assert [path.name for path in site.outside.iterdir()] == ["kept"]
    assert not site.home.joinpath(".bashrc").exists()


PLANTS = (
    "echo x > .git/hooks/pre-commit",
    "echo x >> .git/config",
    "rm .git/config",
    "mv .git/config c",
    "mv .git g",
    "mv .git/hooks h; mkdir .git/hooks && echo x > .git/hooks/pre-commit",
    "git config core.fsmonitor ./evil",
    "echo x > nested/.git/hooks/pre-commit",
    "mv nested n",
    "echo x > .vscode/tasks.json",
    "mv .vscode v",
    "rm -f .mcp.json",
    "ln -f a .mcp.json",
)


@pytest.mark.parametrize("command", PLANTS)
async def test_protected_places_in_the_workspace_stay_as_they_are(site: Site, sandbox: Sandbox, command: str):
    def seen() -> dict[str, bytes | None]:
        files = sorted(path for path in site.workspace.rglob("*") if "objects" not in path.parts)
        return {str(path): path.read_bytes() if path.is_file() else None for path in files}

    before = seen()
    assert (await run(sandbox, site.workspace, command)).outcome == "error"
    assert {name: seen().get(name) for name in before} == before


@pytest.mark.parametrize("made", [".idea", ".envrc", ".git/commondir", ".github/workflows"])
async def test_a_protected_place_that_a_command_makes_is_renamed_and_told(
    site: Site, sandbox: Sandbox, made: str
):
    outcome = await run(sandbox, site.workspace, f"mkdir -p {made} && echo made")
    assert not site.workspace.joinpath(made).exists()
    assert len(list(site.workspace.glob(f"{made}.from-sandbox-*"))) == 1
    assert "made\n[a command in the sandbox may not make these, so they were renamed: " in outcome.content


@pytest.mark.parametrize(
    "command", ["cat {home}/.ssh/id", "ls {home}/.ssh/id", "cat /proc/{agent}/root{home}/.ssh/id"]
)
async def test_secrets_in_the_home_folder_are_not_seen(site: Site, sandbox: Sandbox, command: str):
    outcome = await run(sandbox, site.workspace, command.format(home=site.home, agent=os.getpid()))
    assert outcome.outcome == "error"
    assert "private key" not in outcome.content


async def test_a_secret_file_is_empty_and_the_rest_can_be_read(site: Site, sandbox: Sandbox):
    outcome = await run(
        sandbox, site.workspace, f"cat {site.home}/.netrc {site.home}/notes {site.outside}/kept"
    )
    assert "anybody may read this" in outcome.content
    assert "kept\n" in outcome.content
    assert "password" not in outcome.content


async def test_our_own_data_is_hidden_even_in_the_workspace(place: Path):

    for kind in KINDS:
        data = place / "data"
        data.mkdir(exist_ok=True)
        data.joinpath("sandbur.db").write_text("the journal")
        with open_sandbox(kind, [place], place / "home", private=(data, data / "sandbur.db")) as sandbox:
            outcome = await run(sandbox, place, "cat data/sandbur.db; ls data; echo x > data/y")
        assert "journal" not in outcome.content
        assert [path.name for path in data.iterdir()] == ["sandbur.db"]


async def test_a_workspace_below_a_hidden_folder_is_there(site: Site):
    workspace = site.home / ".aws" / "ws"
    workspace.mkdir(parents=True)
    site.home.joinpath(".aws/credentials").write_text("secret")
    for kind in KINDS:
        with open_sandbox(kind, [workspace], site.home) as sandbox:
            outcome = await run(sandbox, workspace, "echo a > a; cat a; ls ..")
        assert outcome.content == "a\nws\nexit code: 0"


async def test_the_environment_of_the_agent_cannot_be_read(site: Site, sandbox: Sandbox):
    outcome = await run(
        sandbox, site.workspace, f"cat /proc/{os.getpid()}/environ | tr '\\0' '\\n' | grep -c ="
    )
    assert outcome.content.splitlines()[-2:][0].startswith(("0", "[commands run in a sandbox"))


async def test_the_agent_cannot_be_killed_or_traced(site: Site, sandbox: Sandbox):
    bystander = await asyncio.create_subprocess_exec("sleep", "600")
    outcome = await run(sandbox, site.workspace, f"kill -9 {bystander.pid}")
    assert outcome.outcome == "error"
    bystander.terminate()
    assert await bystander.wait() == -signal.SIGTERM


PROGRAMS = {
    "git": "git add file && git -c user.name=n -c user.email=e@x commit -qm m && git log --format=%s",
    "python": f"{PYTHON} -c 'import multiprocessing as m; print(*m.Pool(2).map(str, \"m\"))'",
    "python with a socket pair": f"{PYTHON} -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print(\"m\")'",
    "node": 'node -e \'console.log(require("child_process").execSync("echo m").toString().trim())\'',
    "a server of its own": (
        f'{PYTHON} -c \'import socket as s; a = s.create_server(("127.0.0.1", 0));'
        ' s.create_connection(a.getsockname()).send(b"m"); print(a.accept()[0].recv(1).decode())\''
    ),
    "shared memory": f"{PYTHON} -c 'import multiprocessing as m; m.Lock(); print(\"m\")'",
    "a here-document and a substitution": "cat <(cat <<< m)",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
async def test_programs_work_as_usual(site: Site, sandbox: Sandbox, program: str):
    if program.startswith("node"):
        require("node")
    site.workspace.joinpath("file").write_text("content")
    outcome = await run(sandbox, site.workspace, program)
    assert (outcome.outcome, outcome.content) == ("ok", "m\nexit code: 0")


async def test_a_refusal_is_explained(site: Site, sandbox: Sandbox):
    outcome = await run(sandbox, site.workspace, f"echo x > {site.outside}/new")
    assert f"[commands run in a sandbox here ({sandbox.kind}, network off)" in outcome.content


async def test_a_command_that_cannot_be_confined_is_not_run(site: Site):
    for kind in KINDS:
        with open_sandbox(kind, [site.workspace], site.home) as sandbox:
            sandbox.close()
            outcome = await run(sandbox, site.workspace, "touch ran")
        assert outcome.outcome == "error"
        assert not site.workspace.joinpath("ran").exists()
