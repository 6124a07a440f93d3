"""Memory: facts that outlive sessions, which a person and a model look up, correct and forget."""

from ...config.setting import Setting
from ...extensions.extension import CommandEntry, Extension, SlashEntry

EXTENSION = Extension(
    name="memory",
    about="facts that outlive sessions, with their source, which can be corrected and forgotten",
    page="memory.md",
    folders=("agent/knowledge/memory", "ui/commands/knowledge/memory"),
    settings=(
        Setting(
            "memory",
            "off",
            "choice",
            choices=("off", "agent", "static", "both"),
            variable="SANDBUR_MEMORY",
            about="how the model uses memory: `off`; `agent`: by a tool; `static`: facts that match a message"
            " come with it; `both`",
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
    ),
    runtime=".agent.knowledge.memory.memory_runtime:MemoryRuntime",
    is_used=lambda settings, session: settings.of("memory") != "off",
    of_agent=lambda definition: bool(definition.overrides.get("memory")),
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
            usage="[list|search|show|add|edit|forget|review|accept|reject|trace|restore]",
            summary="look at what is remembered, and correct it",
            home=".ui.commands.knowledge.memory.slash:manage_memory",
            editor=".ui.commands.knowledge.memory.slash:manage_memory_in_editor",
            group="Session",
            after="plan",
            complete=".ui.commands.knowledge.memory.slash:list_memory_choices",
        ),
    ),
)
