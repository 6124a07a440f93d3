"""What a command sees that runs unasked because it only reads: both kinds of wall, tried from inside."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from support.required import lacks
from support.samples.guarded_files import OF_A_HOME

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.sandbox.wall import WallKind, why_no_wall
from sandbur.actions.tools.shell.tool import RunShellCommand
from sandbur.actions.workspace.safe_open import PathScope

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
KINDS: tuple[WallKind, ...] = ("landlock", "bubblewrap")
PYTHON = os.path.realpath(sys.executable)
PLANTED = "planted-words"


class Site(NamedTuple):
    workspace: Path
    added: Path
    home: Path
    outside: Path
    tool: RunShellCommand

    async def run(self, command: str, is_walled: bool = True, **options: object) -> ToolOutcome:
        reach = PathScope.of((self.workspace, self.added))
        private = (self.home / "data",)
        context = ToolContext(
            "c1", self.workspace, lambda text: None, reach=reach, private=private, is_walled=is_walled
        )
        return await self.tool.run(self.tool.parse(json.dumps({"command": command, **options})), context)


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    kind: WallKind = request.param
    if trouble := why_no_wall(kind):
        lacks(f"a wall of {kind} does not stand on this machine: {trouble}")
    with TemporaryDirectory(dir="/var/tmp") as name:
        place = Path(name)
        folders = [place / one for one in ("home/ws", "added", "home", "outside")]
        site = Site(*folders, RunShellCommand(wall=kind))
        for folder in (*folders, site.home / "data"):
            folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("HOME", str(site.home))
        site.workspace.joinpath("a.txt").write_text("inside\n")
        site.added.joinpath("b.txt").write_text("added\n")
        for secret in (site.outside / "notes", site.home / "notes", site.home / "data/sandbur.db"):
            secret.write_text(PLANTED)
        yield site


async def test_the_workspace_added_folders_and_programs_are_there(site: Site):
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", site.workspace], check=True)
    outcome = await site.run(
        f"cat a.txt {site.added}/b.txt; ls; git status --short; grep -rn inside . | wc -l"
    )
    assert outcome.content == "inside\nadded\na.txt\n?? a.txt\n1\nexit code: 0"


@pytest.mark.parametrize(
    "command",
    [
        "cat {outside}/notes",
        "cat {home}/notes",
        "cat {home}/data/sandbur.db",
        "ls {home}",
        "cat link",
        "column -t {home}/notes",
        "wc --fi={home}/notes",
        "cat /proc/1/root{home}/notes",
        "cat /proc/{agent}/root{home}/notes",
        "cat /proc/{agent}/cwd/../notes",
        "tr '\\0' '\\n' < /proc/{agent}/environ",
        "find {home} -name notes",
        "head -c 5 /etc/shadow",
    ],
)
async def test_nothing_of_the_home_or_of_elsewhere_is_shown(site: Site, command: str):
    site.workspace.joinpath("link").symlink_to(site.home / "notes")
    outcome = await site.run(command.format(**site._asdict(), agent=os.getpid()))
    shown = "\n".join(line for line in outcome.content.splitlines() if ": " not in line)
    assert not any(word in outcome.content for word in (PLANTED, "SANDBUR_", "root:"))
    assert not any(word in shown for word in ("notes", "data"))


async def test_no_file_of_secrets_of_the_workspace_is_read(site: Site):
    names = [*OF_A_HOME, "sub/.env", "sub/deeper/server.pem"]
    for name in names:
        site.workspace.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        site.workspace.joinpath(name).write_text(PLANTED)
    outcome = await site.run(f"grep -rlF {PLANTED} . 2>/dev/null; cat a.txt")
    assert outcome.content == "inside\nexit code: 0"


async def test_a_file_of_secrets_that_came_a_moment_ago_is_not_read(site: Site):
    assert (await site.run("cat a.txt")).outcome == "ok"
    site.workspace.joinpath(".env").write_text(PLANTED)
    assert PLANTED not in (await site.run("cat .env")).content
    # A file that took the place of another one can be read.
    site.workspace.joinpath("new").write_text("exchanged\n")
    site.workspace.joinpath("new").rename(site.workspace / "a.txt")
    assert (await site.run("cat a.txt")).content == "exchanged\nexit code: 0"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > new",
        "echo x >> a.txt",
        ": > a.txt",
        "rm a.txt",
        "mv a.txt b",
        "ln a.txt b",
        "ln -s a.txt b",
        "mkdir d",
        "chmod 777 a.txt",
        "touch a.txt",
        "touch -d 2001-01-01 a.txt",
        "truncate -s 0 a.txt",
        "chown 1:1 a.txt",
        "chattr +A a.txt",
        "cp a.txt {outside}/new",
        "echo x > {added}/new",
        "echo x > /tmp/{agent}-of-the-wall && cat /nothing",
        "mount -o remount,rw / || mount -t tmpfs none {added}",
        "unshare -Urm sh -c 'echo x > a.txt'",
        "kill -9 {agent}",
        "kill -0 {agent}",
        '{python} -c \'import os; os.setxattr("a.txt", "user.a", b"1")\'',
        "{python} -c 'import os; os.utime(\"a.txt\", (1, 1))'",
        "{python} -c 'import os; os.truncate(\"a.txt\", 0)'",
        "{python} -c 'import os; os.close(os.open(\"a.txt\", os.O_RDONLY | os.O_TRUNC))'",
        "{python} -c 'import os; os.mkfifo(\"pipe\")'",
    ],
)
async def test_nothing_is_changed(site: Site, command: str):
    def looks() -> list[object]:
        found = [path for folder in site[:4] for path in sorted(folder.rglob("*"))]
        return [
            (path, path.lstat()[:7], path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in found
        ]

    before = looks()
    outcome = await site.run(command.format(**site._asdict(), agent=os.getpid(), python=PYTHON))
    assert outcome.outcome == "error"
    assert [one[:1] for one in before] == [one[:1] for one in looks()]
    assert before == looks()
    assert not Path(f"/tmp/{os.getpid()}-of-the-wall").exists()


@pytest.mark.parametrize("site", ["landlock"], indirect=True)
async def test_a_program_of_the_workspace_is_not_run(site: Site):
    site.workspace.joinpath("evil").write_text(f"#!/bin/sh\necho {PLANTED}\n")
    site.workspace.joinpath("evil").chmod(0o755)
    outcome = await site.run("./evil")
    assert (outcome.outcome, "Permission denied" in outcome.asks) == ("error", True)


CONNECT = """
import socket, sys
kind, where = sys.argv[1:]
families = {"tcp": (socket.AF_INET, socket.SOCK_STREAM), "udp": (socket.AF_INET, socket.SOCK_DGRAM),
            "unix": (socket.AF_UNIX, socket.SOCK_STREAM)}
s = socket.socket(*families[kind])
s.connect(where if kind == "unix" else ("127.0.0.1", int(where)))
s.send(b"planted"); print("sent")
"""


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix"])
async def test_nobody_can_be_reached(site: Site, kind: str):
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as listening:
        where = str(site.workspace / "s") if kind == "unix" else ("127.0.0.1", 0)
        listening.bind(where)
        if kind != "udp":
            listening.listen()
        name = where if kind == "unix" else listening.getsockname()[1]
        site.workspace.joinpath("connect.py").write_text(CONNECT)
        outcome = await site.run(f"{PYTHON} connect.py {kind} {name}")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(10) if kind == "udp" else listening.accept()
    assert kind == "udp" or outcome.outcome == "error"


async def test_the_git_configuration_of_the_person_counts(site: Site):
    site.home.joinpath("more").write_text("[alias]\n\tgreet = config user.name\n")
    site.home.joinpath(".gitconfig").write_text("[user]\n\tname = Ada\n[include]\n\tpath = ~/more\n")
    assert (await site.run("git config user.name && git config alias.greet")).content.startswith(
        "Ada\nconfig"
    )


async def test_programs_below_the_home_are_found(site: Site, monkeypatch: pytest.MonkeyPatch):
    tools = site.home / ".tools/v1"
    for name, text in (("bin/hello", "#!/bin/sh\ncat $(dirname $0)/../lib/word\n"), ("lib/word", "hello\n")):
        tools.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        tools.joinpath(name).write_text(text)
        tools.joinpath(name).chmod(0o755)
    links = site.home / ".local/bin"
    links.mkdir(parents=True)
    links.joinpath("greet").symlink_to(tools / "bin/hello")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tools}/bin:{links}")
    assert (await site.run("hello")).content == "hello\nexit code: 0"


async def test_pip_does_not_complain_about_a_cache_that_it_cannot_write(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PIP_NO_CACHE_DIR", raising=False)
    outcome = await site.run(f"{PYTHON} -m pip list")
    assert outcome.outcome == "ok", outcome.content
    assert "WARNING" not in outcome.content


async def test_a_failure_of_its_own_asks_nothing(site: Site):
    for command in ("cat missing", "grep -q nothing a.txt", "no-such-program", "ls missing/x", "git log"):
        outcome = await site.run(command)
        assert (outcome.outcome, outcome.asks) == ("error", ""), command


async def test_a_failure_that_the_wall_makes_says_so(site: Site):
    outcome = await site.run(f"cat {site.outside}/notes")
    assert "without that view" in outcome.asks
    assert f"{site.outside}/notes" in outcome.asks
    unhindered = await site.run(f"cat {site.outside}/notes", is_walled=False)
    assert unhindered.content == f"{PLANTED}\nexit code: 0"
