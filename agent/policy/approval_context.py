"""Facts for the approval of a call: the reason for the question, its files and hosts, and its sandbox."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from posixpath import lexists, relpath
from typing import Any, NamedTuple

from ...actions.masking.references import mask_call_fields
from ...actions.ports import Ports, Tool
from ...actions.turn.calls.approval_fingerprint import why_incomplete
from ...actions.turn.calls.proposals import judge_and_parse
from ...state.application import ApplicationState
from ...state.calls import PendingCall
from .rules.path_rules import Workspace
from .rules.rules import Call
from .shell.reasons import find_writes

_MOST_PLACES = 8
_MOST_WORDS = 500
_HOST = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://(?:[^/?#\s@'\"]*@)?([^/?#\s'\"\\]{1,253})", re.IGNORECASE)
_UNCONFINED = "off: it runs with your rights"


class ApprovalContext(NamedTuple):
    """Facts about one call besides its arguments. Every field may contain text of the model."""

    why: str = ""
    """Why the call needs approval."""
    leads: tuple[str, ...] = ()
    """Files and folders of the call as far as they are visible, with links resolved. A path inside the
    workspace is relative to the working folder."""
    hosts: tuple[str, ...] = ()
    """The hosts that the arguments of the call name."""
    sandbox: str = ""
    """The sandbox of a command, as a short description; empty for other calls."""
    problem: str = ""
    """Why the call cannot run with these arguments; empty if it can."""
    is_plan: bool = False
    """Whether the call proposes a plan. A question shows it in full: each line may allow something."""
    plan_changes: str = ""
    """How a proposed plan differs from the one that was approved before, one change a line."""
    changes: str = ""
    """The difference of files that the call would write, if its arguments do not show it."""


def build_approval_context(
    call: PendingCall, ports: Ports, state: ApplicationState, is_edited: bool
) -> ApprovalContext:
    """Judge the call by today's rules. A call that was not edited keeps its stored reason."""
    wish = mask_call_fields(call.arguments, ports.masker)
    asked = call.model_copy(update={**wish, "masked": call.masked or wish["masked"]})
    now, arguments = judge_and_parse(asked, ports, state)
    tool = ports.toolbox.get(call.tool)
    is_plan = tool is not None and tool.traits.begins_plan
    if tool is None or now.decision == "invalid":
        return ApprovalContext(problem=now.reason, is_plan=is_plan)
    why = f"it would run without a question now: {now.reason}" if now.decision == "approved" else now.reason
    why = call.reason if call.reason and not is_edited else why
    why = "; ".join(filter(None, (why, why_incomplete(now.binding))))
    # The text of a plan names what its steps may reach; the call itself reaches nothing.
    return ApprovalContext(
        ports.masker.text(why),
        _limit_places(ports, _places(tool, arguments, ports)) if not is_plan else (),
        _limit_places(ports, _hosts(tool, arguments)) if not is_plan else (),
        _sandbox(ports) if tool.traits.runs_commands else "",
        now.reason if now.decision == "denied" else "",
        is_plan,
        now.plan_changes,
        now.changes or ("" if is_edited else call.changes),
    )


def _limit_places(ports: Ports, found: Iterator[str]) -> tuple[str, ...]:
    masked = [ports.masker.text(one) for one in islice(dict.fromkeys(found), _MOST_PLACES + 1)]
    return tuple([*masked[:_MOST_PLACES], "..."] if len(masked) > _MOST_PLACES else masked)


def _sandbox(ports: Ports) -> str:
    return _UNCONFINED if ports.calls.sandbox == "off" else ports.calls.sandbox


def _places(tool: Tool, arguments: Any, ports: Ports) -> Iterator[str]:
    call = Call.of(tool, arguments)
    workspace = Workspace(ports.places.cwd, ports.places.roots)
    if call.is_virtual:
        yield call.subject
        return
    for path in _find_paths(call, workspace):
        try:
            real = workspace.real(path)
        except (ValueError, OSError):  # the path is not valid
            continue
        yield _format_place(real, workspace)


def _find_paths(call: Call, workspace: Workspace) -> Iterator[str]:
    """Yield the paths of a call. For a command these are the paths that it writes, then its words that
    exist."""
    if not call.traits.runs_commands:
        yield from call.paths
        return

    cwd = workspace.real(call.paths[0]) if call.paths else workspace.cwd
    yield from (place for place, _ in find_writes(call.sight, cwd))
    words = (word for seen in call.sight.commands for word in seen.words[1:])
    for word in islice(words, _MOST_WORDS):
        if not word.startswith("-") and "\0" not in word and lexists(workspace.absolute(word)):
            yield word


def _format_place(real: str, workspace: Workspace) -> str:
    return relpath(real, workspace.cwd) if workspace.holds(real) else f"{real} (outside the workspace)"


def _hosts(tool: Tool, arguments: Any) -> Iterator[str]:
    subject: Sequence[str] = _HOST.findall(tool.subject(arguments))
    yield from (host.lower().rstrip(".:") for host in subject)
