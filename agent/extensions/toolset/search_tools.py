"""The tool `search_tools`: finds tools by words and brings them into the session, a few at a time."""

import asyncio
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from pydantic import Field

from ....actions.ports import Tool, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import Count, PlainText, ToolArguments
from ....state.messages import Equipment
from .catalogue import first_words
from .word_index import WordIndex

_USUAL, _MOST = 8, 20
_DESCRIPTION = (
    "There are more tools than are described here. Say in a few words what you need, or name tools: those"
    " that fit best can be called from the next message on. Look for all that the work needs at once: each"
    " search that finds something new makes the session read everything anew. The tools:"
)


class SearchToolsArguments(ToolArguments):
    query: PlainText = Field(max_length=2000, description="Words, or names of tools.")
    limit: Count = Field(_USUAL, description=f"How many tools. Default: {_USUAL}, most: {_MOST}.")


class SearchTools(BuiltinTool[SearchToolsArguments]):
    traits = ToolTraits(subject="query", is_quiet=True, equips="tools")

    def __init__(self, tools: Mapping[str, Tool], groups: Collection[str]) -> None:
        """`groups` are active from the beginning."""
        super().__init__("search_tools", _DESCRIPTION, SearchToolsArguments)
        self._tools = dict(tools)
        self._groups = frozenset(groups)

    @cached_property
    def _index(self) -> WordIndex:
        return WordIndex({name: _words(tool.spec) for name, tool in self._tools.items()})

    async def run(self, arguments: SearchToolsArguments, context: ToolContext) -> ToolOutcome:
        most = min(arguments.limit, _MOST)
        found = await asyncio.to_thread(lambda: self._index.best(arguments.query, most))
        if not found:
            return ToolOutcome("ok", f"None of the {len(self._tools):,} tools fits. Try other words.")
        return ToolOutcome("ok", "\n".join(map(self._line, found)), equips=Equipment(tools=tuple(found)))

    def _line(self, name: str) -> str:
        return f"- {name}: {first_words(self._tools[name].spec.description)}{self._needs(name)}"

    def _needs(self, name: str) -> str:
        missing = [group for group in self._tools[name].traits.groups if group not in self._groups]
        return f" (once the group {', '.join(missing)} is active)" if missing else ""


def _words(spec: ToolSpec) -> str:
    """Return what a tool says of itself: its description, and the names of what it takes."""
    properties: Any = spec.parameters.get("properties")
    return f"{spec.description} {' '.join(map(str, properties or ()))}"
