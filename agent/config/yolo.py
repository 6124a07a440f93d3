"""Remembers that the person of this machine has confirmed what yolo mode does."""

import os
from pathlib import Path

from ...state.errors import ConfigError

_NAME = "yolo-acknowledged"


def is_acknowledged(home: Path) -> bool:
    """Return whether yolo mode was acknowledged in this data folder."""
    return (home / _NAME).is_file()


def acknowledge(home: Path) -> None:
    """Record the acknowledgement."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(home / _NAME, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigError(
            f"{home / _NAME} cannot be written: {error.strerror}.", "Check the folder's rights."
        ) from None
