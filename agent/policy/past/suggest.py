"""Suggests allow rules that would have avoided many questions and would not have allowed a denied call."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from posixpath import basename
from typing import NamedTuple

from ....actions.ports import BadArguments, Tool
from ....actions.tools.registry import builtin_tools
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...history.reports.past_calls import PastCall
from ..rules.rule_suggestions import NO_PREFIX, rules_for
from .rule_backtest import Backtest

_MOST_GROUPS = 5000
_MOST_CANDIDATES = 40
_MOST_RULES = 10
_LEAST_SAVED = 2
_WORD = re.compile(r"[^\s;&|()<>`$\"']+")


class Suggestion(NamedTuple):
    rule: str
    saved: int
    """The number of questions that the rule avoids, without those that earlier suggestions avoid."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    questions: int
    """The number of approved questions that would be asked again under today's rules."""
    rules: Sequence[Suggestion]
    refused: Sequence[str]
    """The rules that are not suggested, because they would have allowed a denied call."""


Groups = Counter[tuple[str, ...]]
"""The rules that each avoid the same questions -> the number of these questions."""


def suggestions(calls: Iterable[PastCall], denied: Iterable[PastCall], backtest: Backtest) -> Suggestions:
    """Suggest rules. `calls` are the approved calls, `denied` are all calls that were ever denied."""
    toolbox, groups, questions = builtin_tools(), Groups(), 0
    for call in calls:
        if call.then == "approved" and backtest.has_tool(call) and backtest.verdict(call).decision == "ask":
            questions += 1
            rules = () if call.is_edited else tuple(_rules_for(call, backtest, toolbox[call.tool]))
            if rules and (rules in groups or len(groups) < _MOST_GROUPS):
                groups[rules] += 1
    saved = Counter[str]()
    for rules, count in groups.items():
        saved.update(dict.fromkeys(rules, count))
    candidates = [rule for rule, count in saved.most_common(_MOST_CANDIDATES) if count >= _LEAST_SAVED]
    refused = _find_risky_rules(denied, candidates, backtest)
    return Suggestions(questions, _choose_rules(groups, set(candidates) - refused), sorted(refused))


def _rules_for(call: PastCall, backtest: Backtest, tool: Tool) -> Iterator[str]:
    """Yield the rules that would allow this call. A call that could do anything has none."""
    try:
        arguments = tool.parse(call.arguments)
    except BadArguments:
        return
    if tool.traits.runs_commands and _is_far_reaching(tool.subject(arguments)):
        return
    for offer in rules_for(tool, arguments):
        with suppress(UsageError):  # no rule can express some commands
            if backtest.verdict(call, (offer.rule,)).decision == "allow":
                yield offer.rule


def _is_far_reaching(command: str) -> bool:
    """Return whether the command contains a program for which no prefix rule is suggested."""
    names = {basename(word) for word in _WORD.findall(command)}
    return not NO_PREFIX.isdisjoint(names | {name.rstrip("0123456789.") for name in names})


def _find_risky_rules(denied: Iterable[PastCall], rules: Sequence[str], backtest: Backtest) -> set[str]:
    """Return the rules that would allow a denied call which today's rules do not allow."""
    found: set[str] = set()
    for call in denied:
        if not backtest.has_tool(call) or backtest.verdict(call).decision == "allow":
            continue
        for rule in rules:
            if rule not in found and backtest.verdict(call, (rule,)).decision == "allow":
                found.add(rule)
    return found


def _choose_rules(groups: Groups, allowed: Set[str]) -> list[Suggestion]:
    """Choose rules greedily: each avoids the most of the questions that are left; on a tie the narrower
    wins."""
    left = Groups()
    for rules, count in groups.items():
        left[tuple(rule for rule in rules if rule in allowed)] += count
    found: list[Suggestion] = []
    while len(found) < _MOST_RULES:
        saved = Counter[str]()
        for rules, count in left.items():
            saved.update(dict.fromkeys(rules, count))
        best = max(saved, key=lambda rule: (saved[rule], not rule.endswith("*)"), rule), default=None)
        if best is None or saved[best] < _LEAST_SAVED:
            break
        found.append(Suggestion(best, saved[best]))
        left = Groups({rules: count for rules, count in left.items() if best not in rules})
    return found
