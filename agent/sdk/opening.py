"""Opens the session of a program: a new one, or a stored one of the same application and user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from ...state.errors import UsageError, WrongType
from ...state.session import SessionSettings
from ..runtime.runtime import Runtime
from ..session.session import Session

_MOST_ID_CHARS = 64


class SessionArguments(TypedDict, total=False):
    """What a new session keeps; a program finds it again by these: see `Agent.sessions`."""

    app: str
    user: str
    tags: Sequence[str]


def session_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a new session stores of itself; raises `TypeError` for values that are no texts."""
    app, user, tags = given.get("app", ""), given.get("user", ""), given.get("tags", ())
    if isinstance(tags, str) or not all(isinstance(each, str) for each in (app, user, *tags)):
        raise WrongType("`app` and `user` of a session take a text, and `tags` a list of texts.")
    return {"app": app, "user": user, "tags": tuple(dict.fromkeys(tags))}


@dataclass(frozen=True, slots=True)
class Opening:
    """What a program asks for when it enters a session."""

    session_id: str | None
    """None: a new session."""
    variables: Mapping[str, str] | None
    deps: Any
    labels: Mapping[str, Any]
    """The `app`, `user` and `tags` that a new session stores."""

    async def open(self, runtime: Runtime, session_id: str) -> Session:
        """Return the session of this id, created if it does not exist; raises `SandburError`."""
        if not runtime.store.index.exists(session_id):
            return await runtime.create(
                _check_id(session_id), variables=self.variables, deps=self.deps, labels=self.labels
            )
        await runtime.require_free(session_id)
        self._require_owner(session_id, runtime.store.index.settings(session_id))
        return await runtime.resume(session_id, variables=self.variables, deps=self.deps)

    def _require_owner(self, session_id: str, stored: SessionSettings) -> None:
        """Raise `UsageError` for a session of another application or user."""
        for name in ("app", "user"):
            if self.labels[name] and self.labels[name] != getattr(stored, name):
                raise UsageError(
                    f"Session {session_id} does not belong to the {name} {self.labels[name]!r}.",
                    "A session keeps the app and user that it was begun with.",
                )


def _check_id(session_id: str) -> str:
    plain = session_id.isascii() and all(each.isalnum() or each in "-_.:@" for each in session_id)
    if not plain or not 0 < len(session_id) <= _MOST_ID_CHARS:
        raise UsageError(
            f"{session_id[:80]!r} cannot be the id of a session.",
            f"Use up to {_MOST_ID_CHARS} letters, digits and any of - _ . : @",
        )
    return session_id
