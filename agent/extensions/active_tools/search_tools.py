"""The tool `search_tools`: finds tools by keyword and activates a few of them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from math import log
from typing import Any

from pydantic import Field

from ....actions.ports import Tool, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import Count, PlainText, ToolArguments
from ....state.conversation.messages import Equipment
from .tool_catalogue import first_words

_USUAL, _MOST = 8, 20
_SATURATION = 1.2
_LENGTH_SHARE = 0.75
_NAME_WEIGHT = 4
"""A match in a tool's name counts as much as this number of matches in its text."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_DESCRIPTION = (
    "There are more tools than are described here. Write in a few words what you need, or name tools: the"
    " tools that fit best can be called from the next message on. Search for everything that the work needs"
    " at once: after each search that finds something new, the whole session is read again. The tools:"
)


class SearchToolsArguments(ToolArguments):
    query: PlainText = Field(max_length=2000, description="Words, or names of tools.")
    limit: Count = Field(_USUAL, description=f"The most tools to find. Default: {_USUAL}, limit: {_MOST}.")


class SearchTools(BuiltinTool[SearchToolsArguments]):
    traits = ToolTraits(subject="query", is_quiet=True, equips="tools")

    def __init__(self, tools: Mapping[str, Tool], groups: Collection[str]) -> None:
        """`groups` are the groups that are active when the session begins."""
        super().__init__("search_tools", _DESCRIPTION, SearchToolsArguments)
        self._tools = dict(tools)
        self._groups = frozenset(groups)

    @cached_property
    def _index(self) -> WordIndex:
        return WordIndex({name: _text(tool.spec) for name, tool in self._tools.items()})

    async def run(self, arguments: SearchToolsArguments, context: ToolContext) -> ToolOutcome:
        most = min(arguments.limit, _MOST)
        found = await asyncio.to_thread(lambda: self._index.best(arguments.query, most))
        if not found:
            return ToolOutcome("ok", f"None of the {len(self._tools):,} tools matches. Try other words.")
        return ToolOutcome("ok", "\n".join(map(self._line, found)), equips=Equipment(tools=tuple(found)))

    def _line(self, name: str) -> str:
        return f"- {name}: {first_words(self._tools[name].spec.description)}{self._needs(name)}"

    def _needs(self, name: str) -> str:
        missing = [group for group in self._tools[name].traits.groups if group not in self._groups]
        return f" (once the group {', '.join(missing)} is active)" if missing else ""


def _text(spec: ToolSpec) -> str:
    """Return the searchable text of a tool: its description and the names of its parameters."""
    properties: Any = spec.parameters.get("properties")
    return f"{spec.description} {' '.join(map(str, properties or ()))}"


class WordIndex:
    """A search index with BM25 ranking.

    It is built once over all texts; a query looks only at texts that contain one of its words.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Index the texts under their names, by the words of both."""
        self._names = list(texts)
        self._by_name = {name.lower(): number for number, name in enumerate(texts)}
        self._places: dict[str, dict[int, int]] = {}
        self._lengths: list[int] = []
        for number, (name, text) in enumerate(texts.items()):
            counts = Counter(_words(text))
            for word in _words(name):
                counts[word] += _NAME_WEIGHT
            self._lengths.append(counts.total())
            for word, count in counts.items():
                self._places.setdefault(word, {})[number] = count
        self._usual_length = sum(self._lengths) / max(len(self._lengths), 1) or 1.0

    def best(self, query: str, most: int) -> list[str]:
        """Return at most `most` names of matching texts, best first. A text whose exact name is in the query
        comes before all others."""
        named = (self._by_name.get(part.lower()) for part in re.split(r"[\s,]+", query))
        scores: dict[int, float] = {number: float("inf") for number in named if number is not None}
        for word in set(_words(query)):
            for number, score in self._score_tools(word):
                scores[number] = scores.get(number, 0.0) + score
        ranked = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._names[number] for number in ranked[:most]]

    def _score_tools(self, word: str) -> Iterator[tuple[int, float]]:
        there = self._places.get(word, {})
        rarity = log(1 + (len(self._names) - len(there) + 0.5) / (len(there) + 0.5))
        for number, count in there.items():
            share = 1 - _LENGTH_SHARE + _LENGTH_SHARE * self._lengths[number] / self._usual_length
            yield number, rarity * count * (_SATURATION + 1) / (count + _SATURATION * share)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, including the parts of compound names, in lower case and without the plural
    "s"."""
    for found in _WORD.finditer(text):
        word = found[0].lower()
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
