"""Imports what the first answer needs while the person still types."""

from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from state.errors import SandburError

if TYPE_CHECKING:
    from agent.runtime import Runtime


def import_session() -> None:
    """Import what opening a session needs."""
    for name in ("agent.session", "agent.graph", "agent.prompts", "agent.wiring"):
        import_module(name)


def warm_up(runtime: "Runtime", model: str) -> None:
    """Import the model's SDK and the markdown renderer in the background; nothing waits for it."""

    def work() -> None:
        import_module("rich.markdown")
        import_module("markdown_it")
        if model == "demo":
            return
        from agent.models.connect import prewarm

        with suppress(SandburError):
            prewarm(model, runtime.env, runtime.settings.providers)

    Thread(target=work, daemon=True).start()
