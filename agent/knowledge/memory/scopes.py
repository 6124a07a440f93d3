"""The scopes of memory that hold in a folder, and the virtual paths of their facts below `/memories`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....state.errors import UsageError
from ....state.memory.facts import MEMORIES, Fact, FactScope, ScopeKind, shorten_id
from ...config.paths import repository_root

KINDS = ("user", "project", "agent")
ROOT = MEMORIES.rstrip("/")


class MemoryScopes(NamedTuple):
    """The scopes whose facts a session, or a command in a folder, may use."""

    user: FactScope
    project: FactScope
    agent: FactScope | None = None
    """None: the session belongs to no named agent."""
    kinds: tuple[str, ...] = KINDS
    """The kinds that may be used."""

    @property
    def all(self) -> tuple[FactScope, ...]:
        named = (self.user, self.project, self.agent)
        return tuple(one for one in named if one is not None and one.kind in self.kinds)

    @property
    def usual(self) -> FactScope:
        """The scope of a fact for which none is named: that of the user, if the program named one."""
        first = self.user if self.user.key else self.project
        return first if first in self.all else self.all[0]

    def get(self, kind: str) -> FactScope:
        """Return the scope of a kind; `agent:NAME` is that of any agent. Raises `UsageError`."""
        kind, _, name = kind.partition(":")
        if kind in KINDS and kind not in self.kinds:
            known = ", ".join(one.kind for one in self.all)
            raise UsageError(f"The scope {kind} of memory is not used here.", f"There are: {known}.")
        if kind == "agent" and name:
            return make_agent_scope(name)
        found = next((scope for scope in self.all if scope.kind == kind and not name), None)
        if found is not None:
            return found
        if kind == "agent":
            raise UsageError("The scope agent needs the name of the agent.", "Write it as agent:NAME.")
        raise UsageError(
            f"{kind[:40]!r} is not a scope of memory.", "There are: user, project, and agent:NAME."
        )


def make_agent_scope(name: str) -> FactScope:
    """Return the scope of an agent. Raises `UsageError` for a name that is not valid."""
    if not name.isprintable() or len(name) > 200:
        raise UsageError(f"{name[:40]!r} cannot name an agent.", "Use up to 200 printable characters.")
    return FactScope(kind="agent", key=name)


def find_scopes(cwd: Path, user: str = "", agent: str = "", kinds: Sequence[str] = ()) -> MemoryScopes:
    """Return the scopes of a folder. Its project is the repository that it is in, or else the folder itself.

    `user` is the user of a program, empty for the person at this machine. `agent` is the name of the agent.
    `kinds` are those that may be used; empty: all. Raises `UsageError` for another kind, or if none is left.
    """
    if unknown := [one for one in kinds if one not in KINDS]:
        raise UsageError(f"{unknown[0][:40]!r} is not a scope of memory.", f"There are: {', '.join(KINDS)}.")
    project = FactScope(kind="project", key=str((repository_root(cwd) or cwd).resolve()))
    own = make_agent_scope(agent) if agent else None
    found = MemoryScopes(FactScope(kind="user", key=user), project, own, tuple(kinds) or KINDS)
    if not found.all:
        raise UsageError("The scope agent needs the name of the agent.", "Write Agent(name=...).")
    return found


def widen_scopes(scopes: MemoryScopes, name: str, cwd: Path) -> MemoryScopes:
    """Return the scopes with another project or agent in place of their own: `project:DIR`, `agent:NAME`.

    The folder of the project may be gone. Other names change nothing.
    """
    kind, _, key = name.partition(":")
    if kind == "project" and key:
        folder = (cwd / Path(key).expanduser()).resolve()
        gone = FactScope(kind="project", key=str(folder))
        return scopes._replace(project=find_scopes(folder).project if folder.exists() else gone)
    return scopes._replace(agent=make_agent_scope(key)) if kind == "agent" and key else scopes


def describe_owner(scope: FactScope) -> str:
    """Return whose facts a scope has, as a noun."""
    return "a user" if scope.kind == "user" else f"the {scope.kind} {scope.key}"


def make_foreign_error(fact: Fact, name: str) -> UsageError:
    """Return the error for a fact that a caller named, but that holds elsewhere.

    The error says nothing about the facts of another user.
    """
    if fact.scope.kind == "user":
        return UsageError(f"There is no fact {name[:80]!r}.", "List the facts to see their ids.")
    return UsageError(
        f"Fact {shorten_id(fact.id)} belongs to {describe_owner(fact.scope)}, and does not hold here.",
        f"`sandbur memory` reaches it with --scope {shlex.quote(f'{fact.scope.kind}:{fact.scope.key}')}",
    )


def name_path(fact: Fact) -> str:
    """Return the virtual path of a fact, such as `/memories/project/tests.md`.

    A fact without a path has its id in place of a name.
    """
    return f"{ROOT}/{fact.scope.kind}/{fact.path.removeprefix(MEMORIES) or fact.id}"


class VirtualPath(NamedTuple):
    """A virtual path, taken apart."""

    kind: ScopeKind | None
    """None for `/memories` itself."""
    name: str
    """The part after the scope, without slashes at its ends; empty for the folder of a scope."""

    @property
    def stored(self) -> str:
        """The path as the store has it, without the scope."""
        return f"{MEMORIES}{self.name}"


def parse_path(path: str) -> VirtualPath:
    """Take a virtual path apart. Raises `UsageError` if it is none."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or parts[:1] != [ROOT[1:]] or {".", ".."} & {*parts}:
        raise UsageError(
            f"{path[:80]!r} is not a path of memory.", f"Paths begin with {ROOT}/user/ or {ROOT}/project/."
        )
    if len(parts) == 1:
        return VirtualPath(None, "")
    if parts[1] not in KINDS:
        raise UsageError(
            f"There is no folder {ROOT}/{parts[1][:40]}.", f"There are: {ROOT}/user and {ROOT}/project."
        )
    return VirtualPath(parts[1], "/".join(parts[2:]))
