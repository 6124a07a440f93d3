"""Extraction: after a run, a model looks for facts in its messages, which are proposed to a person."""

from ...config.setting import Setting
from ...extensions.extension import Extension

EXTENSION = Extension(
    name="extraction",
    about="facts that are found in sessions after their runs, and proposed to a person or kept by rule",
    page="memory.md",
    folders=("agent/knowledge/extraction",),
    settings=(
        Setting(
            "memory_extraction",
            "off",
            "choice",
            choices=("off", "propose", "keep"),
            variable="SANDBUR_MEMORY_EXTRACTION",
            about="facts that a model finds in a session after its runs: `off`: none; `propose`: they wait"
            " for a person; `keep`: those that the person wrote are kept, the others wait",
            after="memory_facts",
        ),
        Setting(
            "extraction_model",
            None,
            "line",
            variable="SANDBUR_EXTRACTION_MODEL",
            about="the model that finds them; without it, the model of the session",
            after="memory_extraction",
            earlier_names=("memory_extraction_model", "SANDBUR_MEMORY_EXTRACTION_MODEL"),
        ),
        Setting(
            "extraction_tokens",
            100_000,
            "tokens",
            variable="SANDBUR_EXTRACTION_TOKENS",
            about="how many tokens it may use for one session after a run; the rest comes after the next run",
            after="extraction_model",
            earlier_names=("memory_extraction_tokens", "SANDBUR_MEMORY_EXTRACTION_TOKENS"),
        ),
    ),
    runtime=".agent.knowledge.extraction.extraction_runtime:ExtractionRuntime",
    is_used=lambda settings, session: settings.of("memory_extraction") != "off",
    of_agent=lambda definition: bool(definition.overrides.get("memory_extraction")),
)
