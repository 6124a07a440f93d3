"""Names of the files in the folder of a shell command; for the supervisor, so without any import."""

READY = "ready-"
"""And the marker: nobody has started the command yet. Who renames this file to `STARTED` runs it."""
STARTED = "started"
"""Locked as long as the supervisor lives."""
OUTPUT = "output"
ENDED = "ended"
"""How it ended, one fact a line."""
