"""The sandbox of macOS, Seatbelt: builds the text of a profile. Written from its documentation, and not
tested.
"""

import re
import shutil
from collections.abc import Iterator

from ....workspace.protected.protected_places import PROTECTED_FILES, PROTECTED_FOLDERS, PROTECTED_PATHS
from .plan import SandboxPlan

_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/dtracehelper")


def seatbelt() -> str | None:
    """Return the path of the program that reads profiles, or None."""
    return shutil.which("sandbox-exec", path="/usr/bin")


def profile(plan: SandboxPlan) -> str:
    """Return the profile. Of two rules for the same operation, the later one wins."""
    return "\n".join(_rules(plan)) + "\n"


def _rules(plan: SandboxPlan) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    yield "(deny file-write*)"
    yield from (f'(allow file-write* (literal "{name}"))' for name in _DEVICES)
    for path, access, source in plan.mounts:
        # Paths cannot be mapped here, so commands see the private folder under its own path.
        place = _quote(str(source or path))
        if access == "write":
            yield f"(allow file-read* file-write* (subpath {place}))"
        elif access == "read":
            yield f"(deny file-write* (subpath {place}))"
        else:
            yield f"(deny file-read* file-write* (subpath {place}))"
    # The folder may be in the data of Sandbur, which is hidden.
    yield f"(allow file-read* file-write* (subpath {_quote(str(plan.temp))}))"
    yield from (f"(deny file-write* (subpath {_quote(str(path))}))" for path in plan.absent)
    names = "|".join(map(re.escape, (*PROTECTED_FOLDERS[1:], *PROTECTED_PATHS, *PROTECTED_FILES)))
    for root in plan.roots:
        # This covers files that do not exist yet, at any depth. Git may write `.git` itself.
        yield f'(deny file-write* (regex #"^{re.escape(str(root))}/(.*/)?({names})(/.*)?$"))'
    yield "(deny network-outbound (remote unix-socket))" if plan.has_network else "(deny network*)"
    yield "(deny signal)"
    yield "(allow signal (target same-sandbox))"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
