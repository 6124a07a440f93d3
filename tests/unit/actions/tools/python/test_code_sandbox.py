"""What a model's code can reach from inside, in both kinds of sandbox."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from support.required import lacks
from support.tools.processes import alive
from support.waiting import wait_for

from sandbur.actions.tools.python.code_process import CodeEnd, CodeProcess
from sandbur.actions.tools.python.confinement import CodeLimits
from sandbur.actions.tools.shell.sandbox.wall import WallKind, why_no_wall
from sandbur.state.conversation.messages import ToolResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
KINDS: tuple[WallKind, ...] = ("landlock", "bubblewrap")
REFUSED = ("PermissionError", "FileNotFoundError", "OSError")
_TRY = "try:\n    {}\n    name = ''\nexcept Exception as e:\n    name = type(e).__name__\nname"


class Site(NamedTuple):
    """A folder for the call, beside one with a secret."""

    place: Path
    kind: WallKind
    requests: list[tuple[str, Any]]

    def run(self, code: str, answer: str = "fine", **limits: Any) -> CodeEnd:
        async def request(function: str, arguments: str) -> ToolResult:
            self.requests.append((function, json.loads(arguments)))
            return ToolResult(call_id="c1/1", tool=function, outcome="ok", content=answer)

        folder = self.place / f"call-{len(list(self.place.iterdir()))}"
        process = CodeProcess(self.kind, folder, CodeLimits(**limits))
        return asyncio.run(process.run(code, {"ask": ("question",)}, request, lambda text: None))

    def value(self, code: str, **limits: Any) -> Any:
        """Return the value of the code's last expression."""
        end = self.run(code, **limits)
        assert end.frame is not None, end.problem
        assert not end.frame.error, end.frame.error
        return None if end.frame.value is None else json.loads(end.frame.value)

    def refusal(self, statement: str) -> str:
        """Return the name of the error that a statement raises."""
        return self.value(_TRY.format(statement))


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    kind: WallKind = request.param
    if trouble := why_no_wall(kind):
        lacks(f"a sandbox of {kind} does not work on this machine: {trouble}")
    with TemporaryDirectory(dir="/var/tmp") as name:
        place = Path(name)
        place.joinpath("secret.txt").write_text("planted-words\n")
        yield Site(place, kind, [])


def test_code_computes_with_the_standard_library(site: Site) -> None:
    assert site.value("import statistics, re, datetime\nstatistics.mean([1, 2, 6])") == 3


def test_code_calls_functions_and_gets_their_text(site: Site) -> None:
    assert site.value("[ask('a'), ask(question='b')]") == ["fine", "fine"]
    assert site.requests == [("ask", {"question": "a"}), ("ask", {"question": "b"})]


def test_code_writes_in_its_folder_and_nowhere_else(site: Site) -> None:
    assert site.value("open('a.txt', 'w').write('x')\nopen('a.txt').read()") == "x"
    outside = site.place / "new.txt"
    for path in (outside, site.place / "secret.txt", "/tmp/new", "/var/tmp/new", "/usr/lib/new", "/dev/new"):
        assert site.refusal(f"open({str(path)!r}, 'w')") in REFUSED
    assert not outside.exists()
    assert site.place.joinpath("secret.txt").read_text() == "planted-words\n"


def test_code_reads_no_file_of_the_user(site: Site) -> None:
    for path in (
        site.place / "secret.txt",
        "/etc/passwd",
        "/etc/shadow",
        Path(__file__),
        Path.home() / ".bashrc",
    ):
        assert site.refusal(f"open({str(path)!r}).read()") in REFUSED, path
    listing = f"    names = os.listdir({str(site.place)!r})\n"
    code = f"import os\ntry:\n{listing}except OSError:\n    names = []\nnames"
    assert "secret.txt" not in site.value(code)


def test_code_sees_nothing_of_the_agents_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "planted-words")
    assert "planted-words" not in json.dumps(site.value("import os\ndict(os.environ)"))
    agent = f"/proc/{os.getpid()}/environ"
    assert site.refusal(f"open({agent!r}, 'rb').read()") in REFUSED


def test_code_has_no_network(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
        assert site.refusal(code) in ("PermissionError", "ConnectionRefusedError", "OSError")
    path = str(site.place / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r})"
        assert site.refusal(code) == "PermissionError"


def test_code_starts_no_process_thread_or_program(site: Site) -> None:
    assert site.refusal("import os; os.fork()") == "PermissionError"
    assert site.refusal("import os; os.execv('/bin/sh', ['sh'])") in REFUSED
    assert site.refusal("import subprocess; subprocess.run(['/bin/true'])") in REFUSED
    assert site.refusal("import os; os.posix_spawn('/bin/true', ['true'], {})") in REFUSED
    assert site.refusal("import threading; threading.Thread(target=print).start()") == "RuntimeError"


def test_a_fork_bomb_forks_nothing(site: Site) -> None:
    loop = "    try:\n        os.fork()\n    except OSError:\n        count += 1\n"
    code = f"import os\ncount = 0\nfor _ in range(1000):\n{loop}count"
    assert site.value(code) == 1000


def test_code_cannot_signal_the_agent_by_the_library_or_by_system_calls(site: Site) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    try:
        assert site.refusal(f"import os; os.kill({os.getpid()}, {int(signal.SIGUSR1)})") in (
            "PermissionError",
            "ProcessLookupError",
        )
        kill, fork, ptrace = (62, 57, 101) if os.uname().machine == "x86_64" else (129, 220, 117)
        code = (
            "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
            f"[c.syscall({kill}, {os.getpid()}, {int(signal.SIGUSR1)}), c.syscall({fork}, 0, 0, 0, 0, 0),"
            f" c.syscall({ptrace}, 16, {os.getpid()}, 0, 0)]"
        )
        assert site.value(code) == [-1, -1, -1]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert received == []


def test_code_that_takes_too_long_is_ended_and_time_of_calls_does_not_count(site: Site) -> None:
    began = time.monotonic()
    end = site.run("import time\nprint('on', flush=True)\ntime.sleep(100)", timeout_s=0.5)
    assert end.is_late
    assert end.printed.text == "on\n"
    assert time.monotonic() - began < 60


def test_code_that_takes_too_much_memory_gets_an_error(site: Site) -> None:
    end = site.run("x = bytearray(3_000_000_000)")
    assert end.frame is not None
    assert "MemoryError" in end.frame.error


def test_code_that_prints_too_much_is_ended(site: Site) -> None:
    end = site.run("while True:\n    print('x' * 1000)", max_output_bytes=1_000_000)
    assert end.frame is None
    assert "1 MB of output" in end.problem or "1.0 MB of output" in end.problem


def test_a_file_of_the_code_has_a_limit(site: Site) -> None:
    code = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "try:\n    open('a', 'wb', 0).write(b'x' * 3_000_000)\n    open('a', 'ab', 0).write(b'x')\n"
    code += "except OSError as e:\n    name = str(e)\nname"
    assert "too large" in site.value(code, file_bytes=1_000_000)


HOSTILE: dict[str, str] = {
    "no JSON": "b'hello\\n'",
    "another kind": """b'{"kind": "approve", "call": "c1"}\\n'""",
    "more fields": """b'{"kind": "call", "function": "ask", "arguments": {}, "by": "user"}\\n'""",
    "arguments that are no object": """b'{"kind": "call", "function": "ask", "arguments": [1]}\\n'""",
    "nested too deeply": """b'{"kind": "call", "function": "ask", "arguments": ' + b'[' * 100_000 + b'\\n'""",
    "no end": "b'x' * 9_000_000",
}


@pytest.mark.parametrize("frame", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_message_ends_the_code_and_calls_nothing(site: Site, frame: str) -> None:
    code = f"""
import os
content = {frame}
for number in range(3, 64):
    try:
        if os.readlink is None or os.fstat(number).st_mode & 0o170000 == 0o140000:
            while content:
                content = content[os.write(number, content):]
    except OSError:
        pass
import time
time.sleep(60)
"""
    end = site.run(code)
    assert end.frame is None
    assert "message" in end.problem
    assert site.requests == []


def test_code_that_closes_its_socket_is_ended_early(site: Site) -> None:
    end = site.run("import os\nos.closerange(3, 100)\nask('a')")
    assert end.frame is None
    assert site.requests == []


def test_a_long_answer_arrives_whole(site: Site) -> None:
    end = site.run("len(ask('a'))", answer="x" * 3_000_000)
    assert end.frame is not None
    assert end.frame.value == "3000000"


ENDS: dict[str, Callable[[Site], object]] = {
    "well": lambda site: site.run("1"),
    "with an error": lambda site: site.run("1 / 0"),
    "late": lambda site: site.run("while True: pass", timeout_s=0.3),
    "by os._exit": lambda site: site.run("import os; os._exit(3)"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_process_is_left_however_code_ends(site: Site, end: Callable[[Site], object]) -> None:
    end(site)
    wait_for(lambda: not alive("exec(marshal.loads("), lambda: alive("exec(marshal.loads("))
