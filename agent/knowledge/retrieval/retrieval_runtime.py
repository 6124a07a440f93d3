"""Brings the tool `retrieve` into sessions that have a knowledge base, and into no others."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....actions.ports import ToolSource
from ....state.search import open_knowledge_tables
from ....state.session import SessionSettings
from ...extensions.extension import FindCitedFiles, load
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection
from .scopes import PROJECT_BASE, find_project_scope, list_scopes

if TYPE_CHECKING:
    from ....actions.ports import Model
    from .indexing.picture_describer import PictureDescriber

_TOOL = ".agent.knowledge.retrieval.retrieve_tool"
_LINKS = ".agent.knowledge.retrieval.cited_files:make_link_finder"
_DESCRIBER = ".agent.knowledge.retrieval.indexing.picture_describer:PictureDescriber"
_ROWS = ".state.search.knowledge_rows:KnowledgeRows"
_OF_FOLDER = ".agent.knowledge.retrieval.session_bases:make_tool_source"


class RetrievalRuntime(ExtensionRuntime):
    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        own = tuple(name for one in definition.knowledge for name in one.names)
        wanted = self.process.settings_of_folder(cwd).of("knowledge") if self._is_plain(definition) else ()
        found: tuple[str, ...] = ()
        if self._is_plain(definition):
            find = partial(self._find_names, cwd, wanted)
            found = await self.process.store.database.offload(find)
        names = (*own, *found)
        missing = [name for name in wanted if name not in names]
        notices = (
            f"There is no knowledge base {', '.join(missing)}: add files with `sandbur index add`.",
        ) if missing else ()  # fmt: skip
        if not names:
            return PromptSection(notices=notices)
        text = load(f"{_TOOL}:CITING") if self._is_offered() else ""
        return PromptSection(text, {"knowledge": names}, notices)

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if not session.knowledge:
            return ()
        if definition.knowledge:
            make_source: Any = load(f"{_TOOL}:RetrieveSource")
            return (make_source(definition.knowledge),)
        if not self._is_plain(definition):
            return ()
        cwd = Path(session.cwd)
        settings = self.process.settings_of_folder(cwd)
        make_own: Any = load(_OF_FOLDER)
        return (make_own(self.process.store, settings, self.process.env, cwd, session.knowledge),)

    def make_describer(self, model: str | Model, cwd: Path) -> PictureDescriber:
        """Return what describes the pictures in a folder by a model."""
        make: Any = load(_DESCRIBER)
        return make(self.process, model, cwd)

    def link_finder(self, session: SessionSettings) -> FindCitedFiles | None:
        make: Any = load(_LINKS)
        return make(self.process.store, session).find if session.knowledge else None

    def _is_plain(self, definition: Definition) -> bool:
        """Return whether sessions of an agent search the bases of the person."""
        return self.process.of_command and definition.has_builtin_tools

    def _find_names(self, cwd: Path, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the bases that exist: those of the setting, and the project's own one."""
        if not open_knowledge_tables(self.process.store.database).are_there():
            return ()
        open_rows: Any = load(_ROWS)
        known = open_rows(self.process.store.database, self.process.store.tenant)
        bases = known.list_bases(list_scopes(cwd))
        here = find_project_scope(cwd)
        own = [base.name for base in bases if base.scope == here and base.name == PROJECT_BASE]
        names = {base.name for base in bases}
        return tuple(dict.fromkeys((*own, *(name for name in wanted if name in names))))

    def _is_offered(self) -> bool:
        """Return whether the settings let sessions have the tool."""
        settings, name = self.process.settings, load(f"{_TOOL}:NAME")
        is_chosen = any(fnmatchcase(name, pattern) for pattern in settings.tools or (name,))
        return is_chosen and not any(fnmatchcase(name, pattern) for pattern in settings.disallowed_tools)
