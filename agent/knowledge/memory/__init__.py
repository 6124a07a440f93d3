"""Memory: facts that outlive sessions, which a person and a model look up, correct and forget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.setting import Setting
from ...extensions.extension import CommandEntry, Extension, SlashEntry

if TYPE_CHECKING:
    from ....state.session import SessionSettings
    from ...config.settings import Settings


def find_set_mode(settings: Settings) -> str:
    """Return the mode that somebody set, for a session that was given none when it began; else `off`."""
    return str(settings.of("memory")) if "memory" in settings.sources else "off"


def _is_used(settings: Settings, session: SessionSettings | None) -> bool:
    if session is None:
        return settings.of("memory") != "off"
    return (session.memory or find_set_mode(settings)) != "off"


EXTENSION = Extension(
    name="memory",
    about="facts that outlive sessions, with their source, which can be corrected and forgotten",
    page="memory.md",
    folders=("agent/knowledge/memory", "ui/commands/knowledge/memory"),
    settings=(
        Setting(
            "memory",
            "agent",
            "choice",
            choices=("off", "agent", "static", "both"),
            variable="SANDBUR_MEMORY",
            about="how a new session uses memory: `off`; `agent`: the model has a tool; `static`: facts that"
            " match a message come with it; `both`",
            after="embeddings",
        ),
        Setting(
            "memory_facts",
            5,
            "count",
            variable="SANDBUR_MEMORY_FACTS",
            about="how many facts come with one message at most",
            after="memory",
        ),
        Setting(
            "memory_scopes",
            (),
            "names",
            variable="SANDBUR_MEMORY_SCOPES",
            about="which facts an agent uses: some of `user`, `project` and `agent`; empty: all",
            after="memory_facts",
        ),
    ),
    rewind=".agent.knowledge.memory.memory_rewind:open_rewind",
    runtime=".agent.knowledge.memory.memory_runtime:MemoryRuntime",
    is_used=_is_used,
    of_agent=lambda definition: (
        bool(definition.overrides.get("memory")) or definition.memory_store is not None
    ),
    doctor=".ui.commands.knowledge.memory.findings:find_problems",
    commands=(
        CommandEntry(
            name="memory",
            home=".ui.commands.knowledge.memory.command:MemoryCommand",
            summary="list, search, show, add, correct, forget, review, trace or restore facts",
            after="plan",
        ),
    ),
    slash=(
        SlashEntry(
            name="memory",
            usage="[list|search|show|add|edit|forget|review|accept|reject|trace|restore|page]",
            summary="look at what is remembered, and correct it",
            home=".ui.commands.knowledge.memory.slash:manage_memory",
            editor=".ui.commands.knowledge.memory.slash:manage_memory_in_editor",
            group="Session",
            after="plan",
            complete=".ui.commands.knowledge.memory.slash:list_memory_choices",
        ),
    ),
)
