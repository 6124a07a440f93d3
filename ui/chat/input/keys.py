"""The table of the chat's keys: binding and description of each key at the prompt and during a run."""

import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.keys import Keys

from ...terminal.lines import Line

KeyAction = Literal[
    "send", "new_line", "complete", "history", "search", "edit", "escape", "interrupt", "leave", "mode",
    "output", "thinking", "plan", "redraw", "suspend", "help",
]  # fmt: skip


class Key(NamedTuple):
    action: KeyAction
    label: str
    """The name of the key for people."""
    sequences: tuple[tuple[str, ...], ...]
    """The names of the keys in prompt_toolkit."""
    at_prompt: str
    """A description of its function at the prompt; empty if Sandbur binds no function to the key there."""
    in_run: str


KEYS = (
    Key(
        "send", "Enter", (("enter",),),
        "sends the message", "steers: the model reads it before its next call",
    ),
    Key(
        "new_line", "Ctrl-J", (("c-j",), ("escape", "enter")),
        "begins a new line, as Alt-Enter and \\ Enter do", "begins a new line, as Alt-Enter and \\ Enter do",
    ),
    Key(
        "complete", "Tab", (("tab",),),
        "completes a command, its argument, or a file after @", "queues: sent when the run has ended",
    ),
    Key(
        "history", "Up, Down", (("up",), ("down",)),
        "moves the cursor, and recalls earlier messages of this project",
        "Up on an empty line takes back the last waiting message",
    ),
    Key("search", "Ctrl-R", (("c-r",),), "searches earlier messages, ignoring case", ""),
    Key("edit", "Ctrl-G", (("c-g",),), "opens the text in $VISUAL or $EDITOR", ""),
    Key(
        "escape", "Esc", (("escape",),),
        "twice: goes back to an earlier message", "stops the run and gives the prompt back",
    ),
    Key(
        "interrupt", "Ctrl-C", (("c-c",), ("<sigint>",)),
        "clears the line; twice on an empty line leaves", "clears the line, then stops the run; twice leaves",
    ),
    Key("leave", "Ctrl-D", (("c-d",),), "leaves, on an empty line", ""),
    Key("mode", "Shift-Tab", (("s-tab",),), "changes the mode: interactive, plan, auto-edit", ""),
    Key("output", "Ctrl-O", (("c-o",),), "unfolds what tools wrote", "unfolds what tools wrote"),
    Key(
        "thinking", "Alt-T", (("escape", "t"),),
        "shows what the model thinks, or how long it did", "shows what the model thinks, or how long it did",
    ),
    Key("plan", "Ctrl-T", (("c-t",),), "shows the plan, or hides it", "shows the plan, or hides it"),
    Key("redraw", "Ctrl-L", (("c-l",),), "redraws the screen", "redraws the screen"),
    Key("suspend", "Ctrl-Z", (("c-z",),), "back to the shell; fg returns", "back to the shell; fg returns"),
    Key("help", "?", (("?",),), "on an empty line: shows the keys", "on an empty line: shows the keys"),
)  # fmt: skip

_SIGNS = (
    ("@", "names a file or folder to read"),
    ("/", "begins a command: /help lists them"),
    ("!", "runs a command of yours in the shell"),
)
"""Other input with a special first character."""

Does = Mapping[KeyAction, Callable[[], None]]
"""Action of a key -> a function of the chat, for keys that do not edit the line."""


def sequences_of(action: KeyAction) -> tuple[tuple[str, ...], ...]:
    return next(key.sequences for key in KEYS if key.action == action)


def key_lines(in_run: bool, width: int) -> list[Line]:
    """Return help lines for the keys that are active now."""
    rows = [(key.label, key.in_run if in_run else key.at_prompt) for key in KEYS]
    rows += [] if in_run else _SIGNS
    column = max(len(label) for label, _ in rows) + 2
    if column + max(len(means) for _, means in rows) < width:
        return [("dim", f"{label.ljust(column)}{means}") for label, means in rows if means]
    wrapped = partial(textwrap.wrap, width=max(8, width - 1), initial_indent="    ", subsequent_indent="    ")
    return [("dim", line) for label, means in rows if means for line in (label, *wrapped(means))]


def exits(**how: Any) -> Callable[[KeyPressEvent], None]:
    """Return a key handler that ends its application with a `result` or an `exception`."""

    def act(event: KeyPressEvent) -> None:
        event.app.exit(**how)

    return act


ESCAPE_S = 0.05
"""The bytes of one key arrive together; later bytes are another key."""


def quick_escape(app: Application[Any]) -> None:
    """Limit to `ESCAPE_S` how long `app` waits after Escape for the rest of a key sequence."""
    app.ttimeoutlen = ESCAPE_S
    patience = app.timeoutlen
    processor = app.key_processor

    def limit(_: object) -> None:
        # Other sequences, such as Ctrl-X Ctrl-U, are typed by hand and keep their timeout.
        is_escape = [press.key for press in processor.key_buffer] == [Keys.Escape]
        app.timeoutlen = ESCAPE_S if is_escape else patience

    processor.after_key_press += limit
