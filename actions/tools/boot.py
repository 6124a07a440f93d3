"""Tells whether the machine was started again: what was not synced before that proves nothing."""

from pathlib import Path


def this_boot() -> str:
    """Return what names the time since the machine was started; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
