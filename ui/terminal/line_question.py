"""A question that is answered by a line, for commands outside of the chat."""

from .terminal import put
from .text.wrap import window_cells, wrap_words


def confirm(question: str) -> bool:
    """Ask a person in the terminal; return whether the answer is yes. The end of the input means no."""
    return _ask_line(f"{question} [y/N] ").lower() in ("y", "yes")


def _ask_line(question: str) -> str:
    """Return the line that a person typed after a question, without blanks around it; empty at the end of the
    input.

    The next line of output begins below the question, even if the person pressed Ctrl-D or Ctrl-C.
    """
    *rows, last = wrap_words(question, window_cells(), "")
    for row in rows:
        put(row)
    try:
        return input(f"{last.rstrip()} ").strip()
    except (EOFError, KeyboardInterrupt) as ended:
        put("")
        if isinstance(ended, KeyboardInterrupt):
            raise
        return ""
