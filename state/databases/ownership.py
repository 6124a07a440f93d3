"""Whose a folder or file is: what another user of the machine owns, that user can change and exchange."""

import os
import pwd
from pathlib import Path

from ..errors import UntrustedFolder


def require_own(path: Path) -> None:
    """Refuse what belongs to neither us nor root; raises `OSError` if it is not there."""
    owner = path.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise UntrustedFolder(
            f"{path} belongs to {_name(owner)}, who could read and change what is kept there.",
            "Use a folder of your own: SANDBUR_HOME names the data folder, --store another store.",
        )


def _name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
