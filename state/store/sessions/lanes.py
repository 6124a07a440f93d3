"""Lanes: what a worker must offer to run a session, as one text that an index has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...databases.schema import make_index_key, make_label_keys
from ...errors import UsageError

if TYPE_CHECKING:
    from ...session import SessionSettings

CHANNEL = "sandbur_work"
"""The channel of the hints that a session waits for a worker, or is to stop."""
LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, 9
_LABEL = re.compile(r"[A-Za-z0-9_.:@/-]{1,64}")
_MOST_NEEDS_CHARS = 90
_MOST_AGENT_CHARS, _AGENT_START_CHARS = 128, 80


class Lane(NamedTuple):
    """The sessions of one tenant and one priority that the same workers can run."""

    tenant: str
    needs: frozenset[str]
    """The labels that a worker must have."""
    priority: int
    """From 0 to 9; sessions of a tenant with a higher one are claimed first."""
    agent: str
    """The name of the agent, as `make_agent_key` returns it."""

    def fits(self, agents: Collection[str], labels: Collection[str]) -> bool:
        """Return whether a worker with these agents, by their keys, and labels can run its sessions."""
        return self.agent in agents and self.needs <= set(labels)


def make_lane(tenant: str, settings: SessionSettings) -> str:
    """Return the lane of a session; empty if no worker claims it.

    A sub-agent runs inside the run that started it, and a trial in its copy of the workspace. A session
    without an agent belongs to a person.
    """
    if not settings.agent or settings.spawned_by is not None or settings.trial:
        return ""
    needs = ",".join(sorted(settings.needs))
    return f"{tenant}|{needs}|{settings.priority}|{make_agent_key(settings.agent)}"


def make_place(tenant: str, settings: SessionSettings) -> dict[str, str]:
    """Return the columns of a head by which sessions are found, in the order of the table."""
    labels = make_label_keys(settings.app, settings.user, ())
    folder = make_index_key(settings.cwd)
    lane = make_lane(tenant, settings)
    return {"tenant": tenant, "folder": folder, "app": labels.app, "app_user": labels.user, "lane": lane}


def parse_lane(text: str) -> Lane:
    tenant, needs, priority, agent = text.split("|", 3)
    return Lane(tenant, frozenset(filter(None, needs.split(","))), int(priority), agent)


def make_agent_key(agent: str) -> str:
    """Return the name of an agent as lanes have it: the end of a long one is a hash."""
    agent = agent.encode("utf-8", "backslashreplace").decode().replace("\0", "")
    if len(agent) <= _MOST_AGENT_CHARS:
        return agent
    return f"{agent[:_AGENT_START_CHARS]}#{hashlib.sha256(agent.encode()).hexdigest()[:40]}"


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels without repetitions; raises `UsageError` for a text that cannot be a label."""
    found = tuple(dict.fromkeys(labels))
    for label in found:
        if not _LABEL.fullmatch(label):
            raise UsageError(
                f"{label[:80]!r} cannot be a label.", "Use up to 64 letters, digits and any of _ . : @ / -"
            )
    return found


def check_needs(needs: Iterable[str]) -> tuple[str, ...]:
    """Return the labels that a session needs; raises `UsageError` if they do not fit into its lane."""
    found = check_labels(needs)
    if len(",".join(found)) > _MOST_NEEDS_CHARS:
        raise UsageError(f"The labels {', '.join(found)} are longer than {_MOST_NEEDS_CHARS} characters.")
    return found


def check_priority(priority: int) -> int:
    """Return the priority; raises `UsageError` unless it is from 0 to 9."""
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise UsageError(f"{priority} is not a priority.", "Use 0 to 9; 5 is the usual one.")
    return priority
