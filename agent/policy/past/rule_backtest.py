"""Backtests rules: judges recorded calls by today's rules and counts the changed verdicts."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple

from ....actions.ports import Gate, Verdict
from ....actions.tools.registry import builtin_tools
from ....state.application import ExecutionMode
from ....state.conversation.messages import find_subject
from ....state.lazy_dataclass import dataclass
from ....state.session import SessionSettings
from ...history.reports.past_calls import PastCall, Then
from ...runtime.wiring import policy_of
from ..judge import Judge

_MOST_KEPT = 2000
_MAX_CHARS = 400
_KEPT_JUDGES = 64
AS_THEN = {"allowed": "allow", "approved": "ask", "declined": "ask", "open": "ask", "refused": "deny"}
"""The recorded decision -> the verdict that the gate must have given."""


class Backtest:
    """Judges recorded calls by today's rules. Paths of a call are resolved in the folders of its session."""

    def __init__(
        self, today: SessionSettings, gate_of: Callable[[SessionSettings], Gate] = policy_of
    ) -> None:
        self._today = today
        self._gate_of = gate_of
        self._toolbox = builtin_tools()
        self._judge = lru_cache(_KEPT_JUDGES)(self._new_judge)

    def has_tool(self, call: PastCall) -> bool:
        return call.tool in self._toolbox

    def verdict(
        self, call: PastCall, more: tuple[str, ...] = (), mode: ExecutionMode | None = None
    ) -> Verdict:
        """Return the verdict with the additional allow rules `more`, in `mode`, or without it in the call's
        mode."""
        judge = self._judge(call.session.cwd, call.session.add_dirs, more)
        return judge.verdict(call.tool, call.arguments, mode or call.mode)

    def _new_judge(self, cwd: str, add_dirs: tuple[str, ...], more: tuple[str, ...]) -> Judge:
        changes = {"cwd": cwd, "add_dirs": add_dirs, "allow": (*self._today.allow, *more)}
        return Judge(self._gate_of(self._today.model_copy(update=changes)), self._toolbox)


class ChangedVerdict(NamedTuple):
    """A recorded call that gets another verdict today than it had then."""

    then: Then
    now: str
    tool: str
    subject: str
    """The subject of the call, shortened; untrusted text."""
    rule: str
    reason: str


@dataclass(slots=True)
class BacktestResult:
    calls: int = 0
    unknown: int = 0
    """The number of calls of tools that no longer exist."""
    verdicts: Counter[tuple[Then, str]] = field(default_factory=Counter[tuple[Then, str]])
    """Pair of the recorded decision and today's verdict -> the number of calls."""
    differences: Counter[ChangedVerdict] = field(default_factory=Counter[ChangedVerdict])
    left_out: int = 0
    """The number of changed calls that `differences` has no room for."""

    @property
    def changed_count(self) -> int:
        return sum(count for (then, now), count in self.verdicts.items() if AS_THEN[then] != now)


def run_backtest(
    calls: Iterable[PastCall], backtest: Backtest, mode: ExecutionMode | None = None
) -> BacktestResult:
    """Judge each recorded call. The memory use does not grow with the number of calls."""
    found = BacktestResult()
    for call in calls:
        if not backtest.has_tool(call):
            found.unknown += 1
            continue
        found.calls += 1
        now = backtest.verdict(call, mode=mode)
        found.verdicts[call.then, now.decision] += 1
        if AS_THEN[call.then] != now.decision:
            _keep(found, _difference(call, now))
    return found


def _keep(found: BacktestResult, difference: ChangedVerdict) -> None:
    if difference in found.differences or len(found.differences) < _MOST_KEPT:
        found.differences[difference] += 1
    else:
        found.left_out += 1


def _difference(call: PastCall, now: Verdict) -> ChangedVerdict:
    subject = find_subject(call.arguments)[:_MAX_CHARS]
    return ChangedVerdict(call.then, now.decision, call.tool, subject, now.rule, now.reason[:_MAX_CHARS])
