"""Make the pictures of the chat in `docs/captures` from the program itself. Usage: python tests/captures.py

It runs the shipped demo in tmux, in a folder of its own, and keeps what stands on the screen as SVG.
"""

import re
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.text import Text
from support.screens.tmux_window import ASKS, DEAF_S, Terminal, open_terminal

COLUMNS, ROWS = 96, 34
FOLDER = Path(__file__).parent.parent / "docs/captures"


def keep(terminal: Terminal, name: str, title: str, since: str = "") -> None:
    """Write the screen, from the last line `since` on, as a picture; its folder is called a project."""
    lines = terminal.read_colours().replace(str(terminal.folder), "~/project").splitlines()
    starts = [at for at, line in enumerate(lines) if Text.from_ansi(line).plain.strip() == since]
    screen = "\n".join(lines[starts[-1] if since else 0 :])
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.from_ansi(screen.rstrip("\n")))
    picture = console.export_svg(title=title, unique_id=name)
    # No font is fetched from anywhere.
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (FOLDER / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE), "utf-8")
    print(f"{name}.svg: {len(picture):,} characters")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, open_terminal(Path(name)) as terminal:
        terminal.start("demo", width=COLUMNS, height=ROWS)
        terminal.see(ASKS)
        keep(terminal, "question", "a plan, and the question before its first step")
        looks = 0
        while "model calls" not in (screen := terminal.screen()):
            if screen.rstrip().rpartition("\n")[2].startswith(ASKS):
                time.sleep(DEAF_S)
                terminal.keys("y")
            looks += 1
            assert looks < 120, screen
            time.sleep(1)
        terminal.see("/help", after="model calls")
        # Above it stand the file systems of this machine.
        keep(terminal, "answer", "the plan at its end, the answer and the status line", since="Plan")


if __name__ == "__main__":
    main()
