"""The first screen in the README is the first screen of the program."""

import re
import tempfile
from pathlib import Path

from support.places import ROOT
from support.screens.tmux_window import open_terminal


def test_the_first_screen_is_the_one_in_the_readme() -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    # Its path fits on the line, unlike those of pytest.
    with tempfile.TemporaryDirectory() as folder, open_terminal(Path(folder)) as terminal:
        terminal.start("", width=80, ANTHROPIC_API_KEY="x")
        screen = terminal.see("ctx 0%")
    lines = [line.rstrip() for line in screen.replace(folder, "/home/you/your-project").splitlines()]
    assert [line for line in lines if line] == [line for line in shown.splitlines() if line]
