"""Finds every possible outcome of a call at the gate and at `human_confirm`, by running both."""

import inspect
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ....actions.human_confirm import human_confirm
from ....actions.masking.masker import TextMasker
from ....actions.ports import Ports, Tool, Verdict
from ....actions.tools.registry import builtin_tools
from ....actions.turn.calls.proposals import judge
from ....actions.turn.commands import MODES
from ....state.application import ApplicationState, ExecutionMode, PlanTerms
from ....state.calls import CallDecision, Origin, PendingCall, Settlement
from ....state.session import SessionSettings
from ...models.fallback import NoModel
from ...runtime.wiring import call_places, request_settings

CallKind = Literal["undecided", "granted", "ungranted", "refused"]
"""`undecided`: the call waits for a decision. `granted`: the gate or a person allowed it. `ungranted`: it
runs although neither allowed it. `refused`: it never runs."""
_ORIGINS: tuple[Origin, ...] = get_args(Origin)
_ID = "call"
_VERDICTS = (
    Verdict("allow", ""),
    Verdict("allow", "", "rule"),
    Verdict("ask", ""),
    Verdict("ask", "", "rule"),
    Verdict("ask", "", "rule", is_firm=True),
    Verdict("deny", ""),
    Verdict("deny", "", "rule"),
)


class _ConstantGate:
    """A gate that always returns the same verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def judge(
        self,
        tool: Tool,
        arguments: Any,
        mode: ExecutionMode,
        paths: Sequence[str] | None = None,
        plan: PlanTerms | None = None,
    ) -> Verdict:
        return self._verdict


class _NullJournal:
    """A journal that stores nothing, with the methods that a decision needs."""

    async def record_decision(self, call: PendingCall, by: str) -> None:
        pass


class _NullFingerprinter:
    """A fingerprinter that returns no fingerprint."""

    def fingerprint(self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path) -> None:
        return None


def find_gate_outcomes() -> frozenset[CallKind]:
    """Return the kinds that a call can have after the gate judged it."""
    found: set[CallKind] = set()
    for verdict in _VERDICTS:
        ports = _ports(verdict)
        for tool, arguments in _example_calls(ports):
            for mode, origin in product(MODES, _ORIGINS):
                # A call that was not judged yet is handled like a newly proposed call.
                wish = PendingCall(call_id=_ID, tool=tool, arguments=arguments, origin=origin)
                is_approved = origin == "person" and verdict.decision == "ask" and not verdict.is_firm
                state = ApplicationState(execution_mode=mode)
                found.add(_kind(judge(wish, ports, state), verdict.decision == "allow" or is_approved))
    return frozenset(found)


async def find_person_outcomes() -> Mapping[CallKind, frozenset[CallKind]]:
    """Return the kind of a call before `human_confirm` -> the kinds that it can have afterwards."""
    waiting = {"undecided": _calls("undecided"), "granted": _calls("approved"), "refused": _calls("denied")}
    fates = {
        kind: frozenset([after async for after in _find_outcomes(calls)]) for kind, calls in waiting.items()
    }
    return cast("Mapping[CallKind, frozenset[CallKind]]", {**fates, "ungranted": frozenset({"ungranted"})})


async def _find_outcomes(calls: Iterable[PendingCall]) -> AsyncIterator[CallKind]:
    decide: Any = inspect.unwrap(cast(Any, human_confirm))
    for call in calls:
        for verdict in _VERDICTS:
            for decision in _decisions():
                state = ApplicationState(pending_tool_calls=(call,))
                changes = await decide(state, _ports(verdict), decisions=decision)
                (after,) = changes["pending_tool_calls"]
                yield _kind(after, after == call or _is_granted(after, verdict, decision))


def _is_granted(call: PendingCall, verdict: Verdict, decisions: tuple[CallDecision, ...]) -> bool:
    """Return whether a person approved this call and no deny rule matches it."""
    is_decided = any(one.approved or one.settle is not None for one in decisions)
    runs_now = call.kind == "approval" or call.recovery.settled_as == "rerun"
    return call.decided_by == "person" and is_decided and not (runs_now and verdict.decision == "deny")


def _kind(call: PendingCall, is_granted: bool) -> CallKind:
    if call.decision == "undecided":
        return "undecided"
    if call.decision == "approved":
        return "granted" if is_granted else "ungranted"
    return "refused"


def _calls(decision: str) -> Iterator[PendingCall]:
    """Yield a call with this decision that may run, and one whose outcome is unknown."""
    tool, arguments = next(_example_calls(_ports(_VERDICTS[0])))
    for kind in ("approval", "outcome_unknown"):
        yield PendingCall.model_validate(
            {"call_id": _ID, "tool": tool, "arguments": arguments, "decision": decision, "kind": kind}
        )


def _decisions() -> Iterator[tuple[CallDecision, ...]]:
    """Yield the possible decisions about the call: none, each one alone, and each with changed arguments."""
    yield ()
    yield (CallDecision(call_id="another", approved=True),)
    for arguments in (None, next(_example_calls(_ports(_VERDICTS[0])))[1], "no JSON"):
        yield (CallDecision(call_id=_ID, approved=True, arguments=arguments),)
        yield (CallDecision(call_id=_ID, approved=False, arguments=arguments),)
    for settlement in get_args(Settlement):
        yield (CallDecision(call_id=_ID, settle=settlement),)


def _example_calls(ports: Ports) -> Iterator[tuple[str, str]]:
    """Yield tool and arguments of a valid call, of one with bad arguments, and of one with an unknown
    tool."""
    for name, tool in ports.toolbox.items():
        if tool.traits.runs_commands:
            yield name, json.dumps({tool.traits.subject: "true"})
            yield name, "{}"
    yield "no such tool", "{}"


def _ports(verdict: Verdict) -> Ports:
    """Return ports whose gate returns this verdict. Ports that a decision does not use are missing."""
    return _ports_with(verdict, verdict.is_firm)


@cache
def _ports_with(verdict: Verdict, is_firm: bool) -> Ports:
    # `is_firm` is a separate argument for the cache, because verdicts compare equal without it.
    unwritten = cast(Any, _NullJournal())
    settings = SessionSettings.model_validate({"model": "", "cwd": ""})
    toolbox = builtin_tools()
    return Ports(
        session_id="",
        model=NoModel(""),
        requests=request_settings(settings, toolbox, compress_at=1),
        toolbox=toolbox,
        gate=_ConstantGate(verdict),
        fingerprinter=_NullFingerprinter(),
        journal=unwritten,
        trace=unwritten,
        masker=TextMasker(),
        places=call_places(settings, None),
    )
