"""A chat in a real terminal: one tmux window with the command in it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.places import ROOT
from support.required import require

from sandbur.agent.config.data_folder import acknowledge

DEAF_S = 0.3
"""How long to wait before typing, in seconds, because a question ignores keys for a moment."""
ASKS = "Run it? ["


class Terminal:
    """One tmux window with the command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Yolo mode is acknowledged in advance, because most tests are not about this question.
        acknowledge(folder / "data")
        self._sockets = Path(tempfile.mkdtemp(prefix="tmux"))
        self._socket = ""

    def start(self, line: str = "-m demo", width: int = 100, height: int = 40, **env: str) -> None:
        self.open_window(f"{self._command(line, env)}; echo exit=$?; sleep 60", width, height)

    def start_in_shell(self, line: str = "-m demo", is_wrapped: bool = False, **env: str) -> None:
        """Start the command from an interactive bash; with `is_wrapped` as the child of a script."""
        script = self.folder / "sandbur.sh"
        script.write_text(self._command(line, env).replace("&& ", "&& " if is_wrapped else "&& exec ", 1))
        self.open_window("env PS1='shell> ' bash --norc --noprofile -i", 100, 40)
        self.see("shell>")
        self.type(f"bash {shlex.quote(str(script))}")

    def _command(self, line: str, env: dict[str, str]) -> str:
        wanted = {"HOME": str(self.folder), "SANDBUR_HOME": str(self.folder / "data"), "LC_ALL": "C.UTF-8"}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in {**wanted, **env}.items())
        unset = "env -u EDITOR -u VISUAL -u TMUX -u NO_COLOR -u SANDBUR_LEASE_S " + settings
        program = f"{shlex.quote(sys.executable)} -m sandbur.ui.cli.main"
        run = f"{unset} {program} -C {shlex.quote(str(self.folder))} {line}"
        root = shlex.quote(str(ROOT))
        return f"cd {root} && {run}"

    def open_window(self, script: str, width: int, height: int) -> None:
        # Each start has its own socket, because a tmux server that is ending accepts no new window.
        self._socket = self.next_socket
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), script)

    @property
    def next_socket(self) -> str:
        """The socket of the tmux server that the next start makes."""
        return str(self._sockets / str(len(list(self._sockets.iterdir()))))

    def buffer(self) -> str:
        """Return the newest paste buffer of tmux."""
        return self._tmux("show-buffer")

    def keys(self, *names: str) -> None:
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self.send_text(text)
        self._tmux("send-keys", "Enter")

    def send_text(self, text: str) -> None:
        """Type a text without sending it."""
        self._tmux("send-keys", "-l", "--", text)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-500")

    def join_rows(self) -> str:
        """Return the text of the window; rows that the terminal wrapped are joined to one line."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-500")

    def read_colours(self) -> str:
        """Return the text of the window with the sequences of its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def see(self, text: str, seconds: float = 120, after: str = "") -> str:
        """Wait until the screen contains `text`, after the last `after` if given; return the screen."""

        def is_there() -> bool:
            _, found, rest = self.screen().rpartition(after) if after else ("", "all", self.screen())
            return bool(found) and text in rest

        wait(is_there, seconds, lambda: f"{text!r} is not on the screen:\n{self.screen()}")
        return self.screen()

    def pid(self) -> int:
        """Return the process id of the chat itself."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def kill(self) -> None:
        """Kill the chat itself, without warning."""
        os.kill(self.pid(), signal.SIGKILL)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        """End the window and everything in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    def forget(self) -> None:
        shutil.rmtree(self._sockets, ignore_errors=True)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout


@contextmanager
def open_terminal(folder: Path) -> Iterator[Terminal]:
    """Yield a terminal whose folder is `folder`."""
    require("tmux")
    window = Terminal(folder)
    try:
        yield window
    finally:
        window.close()
        window.forget()


def wait(holds: Callable[[], bool], seconds: float, problem: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, problem()
        time.sleep(0.05)


def is_running(command: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return any(line.strip() == command for line in listed.splitlines())
