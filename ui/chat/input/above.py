"""Shows something above the line that is being typed, while every key keeps its meaning."""

from collections.abc import Awaitable, Callable

from prompt_toolkit.application import get_app, run_in_terminal


def show_above(work: Callable[[], None]) -> Awaitable[None]:
    """Do `work`, which prints, with the line out of its way.

    The terminal is left in raw mode meanwhile: in cooked mode an Enter arrives as Ctrl-J, and begins a line.
    """
    source = get_app().input

    def shown() -> None:
        with source.raw_mode():
            work()

    return run_in_terminal(shown)
