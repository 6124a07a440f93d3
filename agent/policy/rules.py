"""Allow, ask and deny rules as a person writes them: `tool` or `tool(glob over the command or path)`."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ...actions.tools.registry import declared
from ...state.errors import UsageError
from .path_rules import is_pattern

_RULE = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\)\s*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    """As it was written."""
    tool: str
    """A tool's name or a glob over names."""
    pattern: str | None
    """None: every call."""

    def names(self, tool: str) -> bool:
        return fnmatchcase(tool, self.tool)


def parse_rule(text: str, tools: Collection[str] | None = None) -> Rule:
    """Read a rule; `tools` are the names it may speak of, None checks its form only. Raises `UsageError`."""
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
                f"The rule `{text}` has an empty pattern.", f"Write `{tool}` to mean every call."
            )
        if not is_pattern(pattern):
            raise UsageError(
                f"The pattern of the rule `{text}` cannot be read.", "Check its square brackets."
            )
    if tools is not None and not any(fnmatchcase(name, tool) for name in tools):
        raise UsageError(f"The rule `{text}` names no tool: there is no `{tool}`.", _hint(tool, tools))
    return Rule(text.strip(), tool, pattern)


def parse_rules(texts: Iterable[str], tools: Collection[str]) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, tools) for text in texts)


def by_precision(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules, the more specific first."""
    return tuple(sorted(rules, key=_breadth))


def _breadth(rule: Rule) -> tuple[bool, bool, int, bool]:
    pattern = rule.pattern
    if pattern is None:
        return True, True, 0, "*" in rule.tool
    is_literal = literal_of(pattern) is not None
    return False, not is_literal, -len(re.sub(r"[*?\[\]]", "", pattern)), "*" in rule.tool


def exact_rule(tool: str, subject: str) -> str:
    """Return the rule that covers this very command or path and nothing else."""
    return f"{tool}({re.sub(r'[*?[]', lambda found: f'[{found[0]}]', subject)})"


def literal_of(pattern: str) -> str | None:
    """Return the one text that a pattern without wildcards matches; None if it has any."""
    rest = re.sub(r"\[[*?[]\]", "", pattern)
    return None if re.search(r"[*?[]", rest) else re.sub(r"\[([*?[])\]", r"\1", pattern)


def _hint(tool: str, tools: Collection[str]) -> str:
    called = tool.lower()
    near = get_close_matches(called, tools, n=1)
    near += [name for name, traits in declared().items() if called in traits.also_called and name in tools]
    if near:
        return f"Did you mean `{near[0]}`?"
    return f"The tools are: {', '.join(sorted(tools))}."
