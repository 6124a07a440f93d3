"""Record the casts in `docs/casts` from the program itself. Usage: python tests/casts.py [NAME...]

Each scene runs the command with the demo model in tmux. What varies is replaced: times, ids, folders, token
counts. A recording is a list of screens at named moments, so a test can record it again and compare.
"""

import os
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.places import ROOT
from support.screens.cast import Cast, Frame, draw_svg, read_asciicast, split_rows, write_asciicast
from support.screens.tmux_window import DEAF_S, Terminal, open_terminal

FOLDER = ROOT / "docs/casts"
COLUMNS = 96
KEY_S, READ_S = 0.09, 1.6
STABLE_LOOKS, LOOK_S = 5, 0.2
ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
FIXED_ID = "3f2a91c4-7d05-4a8e-9b61-2c58e0f4a7d3"
SGR = re.compile(r"\x1b\[[\d;]*m")
VARYING = (
    (r"[\u2801-\u28ff]", "\u2827"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "2026-11-26 09:30"),
    (r"\b(?:\d+ seconds? ago|just now)", "3 seconds ago"),
    (r"\b\d+(\.\d+)?( ?)s\b", r"1.2\2s"),
    (r"\b\d+(\.\d+)?k?( tokens out\b)", r"42\2"),
    (r"\b\d+(\.\d+)?k?( tokens\b(?! out))", r"6.6k\2"),
    (r"\b[0-9a-f]{8}  \d+m\b", "3f2a91c4  0m"),
    (r"\bdemo_[0-9a-f]{16}\b", "demo_28d6b9d2469efcf1"),
    (r"\bctx \d+%", "ctx 3%"),
    (r"(demo · )[0-9a-f]{8}\b", r"\g<1>3f2a91c4"),
)
"""What differs from one recording to the next, and what takes its place."""


class Recorder:
    """Drives a terminal and keeps its screens. With an earlier recording, it waits for its screens."""

    def __init__(self, terminal: Terminal, lines: int, expected: Cast | None = None) -> None:
        self.terminal = terminal
        self.frames: list[Frame] = []
        self.session = ""
        self._expected = expected
        self._seconds = 0.0
        home = terminal.folder
        (home / "bin").mkdir()
        (home / "project").mkdir()
        program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sandbur.ui.cli.main "$@"\n'
        (home / "bin/sandbur").write_text(program)
        (home / "bin/sandbur").chmod(0o755)
        variables = {
            "HOME": str(home), "SANDBUR_HOME": str(home / "data"), "SANDBUR_MODEL": "demo",
            "SANDBUR_SANDBOX": "off", "SANDBUR_LEASE_S": "4", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8",
            "PATH": f"{home}/bin:{os.environ['PATH']}", "TERM": "tmux-256color", "PS1": "$ ",
        }  # fmt: skip
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        shell = "bash --norc --noprofile -i"
        self.terminal.open_window(
            f"cd {shlex.quote(str(home))}/project && env -i {words} {shell}", COLUMNS, lines
        )
        self.terminal.see("$")

    def look(self, seconds: float = READ_S) -> None:
        """Keep the screen as soon as it no longer changes; it stays for some seconds."""
        self.frames.append(Frame(round(self._seconds, 2), self._settle()))
        self._seconds += seconds

    def _settle(self) -> tuple[str, ...]:
        number = len(self.frames)
        wanted = self._expected.frames[number].rows if self._expected else None
        same, before, end = 0, self.read(), time.monotonic() + 120
        while same < STABLE_LOOKS and before != wanted:
            assert time.monotonic() < end, f"frame {number} is another one:\n{self.terminal.screen()}"
            time.sleep(LOOK_S)
            now = self.read()
            same, before = (same + 1 if now == before and wanted is None else 0), now
        return before

    def read(self) -> tuple[str, ...]:
        """Return the rows of the screen without what varies."""
        screen = self.terminal.read_colours().replace(f"{self.terminal.folder}/project", "~/project")
        screen = SGR.sub(r"\g<0>\0", screen)  # a word also begins after a sequence
        for one in set(ID.findall(screen)):
            screen = re.sub("\n?".join(one), _fix_id, screen)
        if self.session:
            screen = screen.replace(f" {self.session[:4]}", " 3f2a")
        for pattern, text in VARYING:
            screen = re.sub(pattern, text, screen)
        return split_rows(screen.replace("\0", ""))

    def type(self, text: str) -> None:
        """Type a line word by word, and send it."""
        self.look(0.6)
        for word in re.findall(r"\S+\s*", text):
            self.terminal.send_text(word)
            self.look(KEY_S * len(word))
        self._seconds += 0.4
        self.terminal.keys("Enter")

    def press(self, key: str) -> None:
        time.sleep(DEAF_S)
        self.terminal.keys(key)

    def see(self, text: str, after: str = "", seconds: float = READ_S) -> None:
        self.terminal.see(text, after=after)
        self.look(seconds)

    def know_session(self) -> None:
        """Read the id of the session from the screen."""
        found = ID.search(self.terminal.screen())
        assert found, self.terminal.screen()
        self.session = found.group()

    def kill(self) -> None:
        """Kill the command that the shell runs."""
        os.kill(self.terminal.pid(), signal.SIGKILL)

    def write(self, name: str, text: str) -> None:
        (self.terminal.folder / "project" / name).write_text(text)


def record_demo(to: Recorder) -> None:
    to.write("deploy.sh", "echo 'uploading 12 files'\nsleep 600\n")
    to.type("sandbur")
    to.see("? keys")
    to.type("run `sh deploy.sh`")
    to.see("Run it? [", seconds=3)
    to.press("y")
    to.see("uploading 12 files")
    to.kill()
    to.see("Killed", seconds=2)
    to.type("clear; sandbur -c")
    to.see("What was the outcome? [", seconds=5)
    to.press("d")
    to.see("What the model should know")
    to.type("the new version is online")
    to.see("? keys", seconds=2)


def record_resume(to: Recorder) -> None:
    to.write("deploy.sh", "echo 'uploading 12 files'\nsleep 600\n")
    to.type("sandbur -p 'run `sh deploy.sh`' --allow 'run_shell_command(sh deploy.sh)'")
    to.see("uploading 12 files")
    to.kill()
    to.see("Killed")
    to.type("sandbur sessions list")
    to.see("interrupted")
    to.type("clear; sandbur -p -c; echo exit code $?")
    to.see("exit code 3", seconds=4)
    to.know_session()
    to.type(f"clear; sandbur settle {to.session[:4]} --as done --result 'the new version is online'")
    to.see("model calls", seconds=2)


def record_plan(to: Recorder) -> None:
    to.type("sandbur --mode plan")
    to.see("? keys")
    to.type("create file notes.txt with hello")
    to.see("[y]", seconds=4)
    to.press("y")
    to.see("model calls", seconds=2)


def record_approval(to: Recorder) -> None:
    to.type("sandbur -p 'create file notes.txt with hello'; echo exit code $?")
    to.see("exit code 3", seconds=4)
    to.know_session()
    to.type(f"clear; sandbur approve {to.session[:4]} --all")
    to.see("model calls")
    to.type("cat notes.txt")
    to.see("hello", after="cat notes.txt", seconds=2)


def _fix_id(found: re.Match[str]) -> str:
    """Return the id of every recording; it is wrapped where the real one was."""
    chars = iter(FIXED_ID)
    return "".join(char if char == "\n" else next(chars) for char in found.group())


TITLES = {
    "demo": "A command is killed in the middle, and the session goes on",
    "resume": "Killed without a terminal, resumed without a terminal",
    "plan": "A plan that is approved, and then binds the calls",
    "approval": "A call that waits for a decision, and is approved later",
}
LINES = {"demo": 26, "resume": 20, "plan": 26, "approval": 12}
SCENES: dict[str, Callable[[Recorder], None]] = {
    "demo": record_demo, "resume": record_resume, "plan": record_plan, "approval": record_approval,
}  # fmt: skip


def record(name: str, expected: Cast | None = None) -> Cast:
    """Record a scene; with an earlier recording, fail where a screen does not become its screen."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        open_terminal(Path(folder)) as terminal,
    ):
        recorder = Recorder(terminal, LINES[name], expected)
        SCENES[name](recorder)
        return Cast(TITLES[name], COLUMNS, LINES[name], tuple(recorder.frames))


def read(name: str) -> Cast:
    return read_asciicast((FOLDER / f"{name}.cast").read_text("utf-8"))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCENES:
        cast = record(name)
        (FOLDER / f"{name}.cast").write_text(write_asciicast(cast), "utf-8")
        picture = draw_svg(cast)
        (FOLDER / f"{name}.svg").write_text(picture, "utf-8")
        print(f"{name}: {len(cast.frames)} frames, {cast.duration_s:.0f} s, {len(picture):,} characters")


if __name__ == "__main__":
    main()
