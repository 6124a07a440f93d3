"""Retrieval: knowledge bases of files and pages, which people, models and programs search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.setting import Setting
from ...extensions.extension import CommandEntry, Extension

if TYPE_CHECKING:
    from ....state.session import SessionSettings
    from ...config.settings import Settings


def _needs_runtime(settings: Settings, session: SessionSettings | None) -> bool:
    """Return whether a session searches knowledge bases. A new one has to find out."""
    return session is None or bool(session.knowledge)


EXTENSION = Extension(
    name="retrieval",
    about="knowledge bases of files and pages, which the model searches and cites",
    page="retrieval.md",
    folders=("agent/knowledge/retrieval", "ui/commands/knowledge/index", "state/search/knowledge_rows.py"),
    settings=(
        Setting(
            "knowledge",
            (),
            "names",
            variable="SANDBUR_KNOWLEDGE",
            is_harmless=True,
            about="the knowledge bases that new sessions search, beside the project's own one",
            after="trials_at_once",
        ),
        Setting(
            "embeddings",
            None,
            "line",
            variable="SANDBUR_EMBEDDINGS",
            about="the model that makes vectors for knowledge bases, such as openai/text-embedding-3-small or"
            " minilm; without one, they are searched by words",
            after="knowledge",
        ),
    ),
    runtime=".agent.knowledge.retrieval.retrieval_runtime:RetrievalRuntime",
    is_used=_needs_runtime,
    of_agent=lambda definition: bool(definition.knowledge),
    verify=".agent.knowledge.retrieval.citations:check_citations",
    commands=(
        CommandEntry(
            name="index",
            home=".ui.commands.knowledge.index.command:IndexCommand",
            summary="add files and pages to knowledge bases, and search, list or update them",
            after="agents",
        ),
    ),
)
