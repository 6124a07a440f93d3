"""Read-only commands for services such as containers, clusters and code hosts."""

import re
from collections.abc import Sequence

_CONTAINERS = (
    "ps", "images", "logs", "version", "info", "port", "top", "history", "container ls", "container logs",
    "image ls", "volume ls", "network ls", "compose ps", "compose logs", "compose images", "compose ls",
)  # fmt: skip
_LOOKS = {
    "docker": _CONTAINERS,
    "podman": _CONTAINERS,
    "kubectl": ("get", "describe", "logs", "top", "version", "explain", "api-resources", "cluster-info"),
    "gh": (
        "pr view", "pr list", "pr diff", "pr checks", "pr status", "issue view", "issue list", "issue status",
        "run view", "run list", "release view", "release list", "repo view", "repo list", "workflow list",
    ),
}  # fmt: skip
_WORD = re.compile(r"[a-z][a-z-]*")


def looking_part(words: Sequence[str]) -> str | None:
    """Return the words that show that a command only reads, such as `docker ps`; None if it may do more."""
    known = _LOOKS.get(words[0], ())
    for count in (1, 2):
        words_of_part = " ".join(words[1 : 1 + count])
        if words_of_part in known and all(map(_WORD.fullmatch, words[1 : 1 + count])):
            return f"{words[0]} {words_of_part}"
    return None
