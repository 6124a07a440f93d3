"""Rules as a person writes them, `tool` or `tool(glob over a command or path)`, and the parts of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, TypeVar

from ....actions.ports import AsksAboutSome, Tool, ToolTraits, WorksOnFiles, implements
from ....actions.tools.registry import SERVER_PREFIX, load_declared_traits
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ..shell.seen_commands import Sight, look
from .path_rules import is_pattern

PartT = TypeVar("PartT")
_NEAR = 0.85
"""Names that are at least this similar, from 0 to 1, count as misspellings of each other."""
SANDBOXED = "sandboxed"
"""The name in place of that of a tool in an allow rule such as `sandboxed(run_shell_command)`: the sandboxed
commands of the tool in the pattern run without a question.

No tool has this name. So an older version, which does not know the name, allows nothing because of it.
"""
_RULE = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\)\s*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    """The text of the rule."""
    tool: str
    """The name of a tool, or a glob over names."""
    pattern: str | None
    """The glob for the subject of a call; None for every call."""
    source: str = ""
    """The file of the machine's policy that contains the rule; empty for other rules."""

    @property
    def label(self) -> str:
        """Return the rule for a reason, with the policy file that contains it."""
        return f"{self.text} of {self.source}" if self.source else self.text

    def names(self, tool: str) -> bool:
        """Return whether the rule applies to a tool. The name of an MCP server covers all tools of the
        server."""
        if self.tool == tool:
            return True
        if self.tool.startswith(SERVER_PREFIX) and tool.startswith(f"{self.tool}__"):
            return True
        return fnmatchcase(tool, self.tool)


def parse_rule(text: str, tools: Collection[str] | None = None) -> Rule:
    """Parse a rule; raises `UsageError`.

    `tools` are the known names, with which misspellings are detected. Another unknown name may belong to a
    tool that is added later. If `tools` is None, only the form of the rule is checked.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"The rule `{text}` cannot be read.",
            "Write TOOL or TOOL(GLOB), as in run_shell_command(git status*).",
        )
    tool, pattern = found[1], found[2]
    if pattern is not None:
        pattern = pattern.strip()
        if not pattern:
            raise UsageError(
                f"The rule `{text}` has an empty pattern.", f"Write `{tool}` for every call of the tool."
            )
        if not is_pattern(pattern):
            raise UsageError(
                f"The pattern of the rule `{text}` cannot be read.", "Check its square brackets."
            )
    if tools is not None and (meant := _find_similar_tool(tool, tools)):
        raise UsageError(
            f"The rule `{text}` names no tool: there is no `{tool}`.", f"Did you mean `{meant}`?"
        )
    return Rule(text.strip(), tool, pattern)


def normalize_rule(text: str) -> str:
    """Return a rule as it is stored; raises `UsageError`, also for a misspelled tool that ships."""
    return parse_rule(text, load_declared_traits()).text


def parse_rules(
    texts: Iterable[str | tuple[str, str]], tools: Collection[str] | None = None
) -> tuple[Rule, ...]:
    """Return the rules; raises `UsageError`. A rule of the machine's policy is a pair with its file."""
    pairs = ((one, "") if isinstance(one, str) else one for one in texts)
    return tuple(replace(parse_rule(text, tools), source=source) for text, source in pairs)


def parse_sound_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rules that can be read; the others allow nothing."""
    found: list[Rule] = []
    for text in texts:
        with suppress(UsageError):
            found.append(parse_rule(text))
    return tuple(found)


def idle_rules(rules: Iterable[str], tools: Collection[str]) -> list[str]:
    """Return the rules that match none of these tools, and no tool that a session may add later."""
    known = {*tools, *load_declared_traits()}
    read = [parse_rule(text) for text in rules]
    read = [rule for rule in read if rule.tool != SANDBOXED]
    # A configuration may have rules for tool servers that only some folders have.
    idle = (rule for rule in read if not any(map(rule.names, known)))
    return [rule.text for rule in idle if not rule.tool.startswith(SERVER_PREFIX)]


def by_precision(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules sorted, the most specific first."""
    return tuple(sorted(rules, key=_breadth))


def _breadth(rule: Rule) -> tuple[bool, bool, int, bool]:
    pattern = rule.pattern
    if pattern is None:
        return True, True, 0, "*" in rule.tool
    is_literal = literal_of(pattern) is not None
    return False, not is_literal, -len(re.sub(r"[*?\[\]]", "", pattern)), "*" in rule.tool


def find_covering_rules(
    rules: Sequence[Rule], parts: Iterable[PartT], covers: Callable[[str, PartT], bool]
) -> list[Rule]:
    """Return the first covering rule of each part; an empty list if a part is not covered."""
    used: dict[str, Rule] = {}
    for part in parts:
        rule = next((rule for rule in rules if covers(rule.pattern or "", part)), None)
        if rule is None:
            return []
        used.setdefault(rule.text, rule)
    return list(used.values())


def exact_rule(tool: str, subject: str) -> str:
    """Return the rule that covers exactly this command or path, without a wildcard."""
    return f"{tool}({re.sub(r'[*?[]', lambda found: f'[{found[0]}]', subject)})"


@lru_cache(maxsize=1024)
def literal_of(pattern: str) -> str | None:
    """Return the only text that a pattern without wildcards matches; None if it has a wildcard."""
    rest = re.sub(r"\[[*?[]\]", "", pattern)
    return None if re.search(r"[*?[]", rest) else re.sub(r"\[([*?[])\]", r"\1", pattern)


def sandbox_rule(tool: str) -> str:
    """Return the rule that allows all sandboxed commands of a tool."""
    return f"{SANDBOXED}({tool})"


def _find_similar_tool(tool: str, tools: Collection[str]) -> str | None:
    """Return the tool that an unknown name probably means, or None if no name is similar."""
    if any(fnmatchcase(name, tool) for name in tools):
        return None
    called = tool.lower()
    near = [
        name
        for name, traits in load_declared_traits().items()
        if called in traits.also_called and name in tools
    ]
    return next(iter(near or get_close_matches(called, tools, n=1, cutoff=_NEAR)), None)


@dataclass(slots=True)
class Call:
    """The parts of a call that rules are matched with."""

    tool: str
    traits: ToolTraits
    source: Tool
    arguments: Any
    is_read_only: bool
    subject: str
    paths: tuple[str, ...]
    """The paths as the call writes them. For a search this is its folder, by default the working folder."""
    is_virtual: bool = False
    """Whether the subject is a path on a virtual back end, and not on the disk."""
    own_question: str = ""
    """Why the call needs a decision although its tool declares to need none; empty if it needs none."""
    _sight: Sight | None = field(default=None, init=False)

    def is_named_by(self, rule: Rule) -> bool:
        """Return whether a rule applies to the call by the name of its tool, or of another one that writes
        files if their rules apply, too."""
        if rule.names(self.tool):
            return True
        if not self.traits.has_write_rules:
            return False
        return any(rule.names(name) for name, one in load_declared_traits().items() if one.writes_files)

    @classmethod
    def of(cls, tool: Tool, arguments: Any, paths: Sequence[str] | None = None) -> Call:
        # Some calls of a tool that needs no question only read, so plan mode allows them.
        is_mixed = tool.traits.asks == "never" and tool.effect != "read"
        is_read_only = (tool.effect_of(arguments) if is_mixed else tool.effect) == "read"
        paths = tuple(tool.paths(arguments) if paths is None else paths)
        is_virtual = implements(tool, WorksOnFiles) and tool.is_virtual(arguments)
        if is_read_only and not paths and not is_virtual:
            paths = (".",)
        subject = tool.subject(arguments)
        why = tool.why_ask(arguments) if implements(tool, AsksAboutSome) else ""
        return cls(
            tool.spec.name, tool.traits, tool, arguments, is_read_only, subject, paths, is_virtual, why
        )

    @property
    def sight(self) -> Sight:
        """Return the analysis of the command line."""
        if self._sight is None:
            self._sight = look(self.subject)
        return self._sight
