"""Prepares a process that runs a command: it reports bugs, and notes its temporary files."""

import os
from contextlib import suppress

from ...agent.config.paths import data_home
from ...state.errors import ConfigError
from ...state.process.temporaries import NOTES, remove_of_killed
from .failure_reports import keep_bug_reports
from .grammar import Command


def prepare_process(command: Command) -> None:
    """Report bugs as the flags ask, note temporary files, and remove those that killed commands left."""
    keep_bug_reports(command)
    # Without a home folder the command itself says what is missing.
    with suppress(ConfigError):
        home = data_home(os.environ)
        NOTES.keep_in(home)
        remove_of_killed(home)
