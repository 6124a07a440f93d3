"""Shell commands: read, run under a supervisor, recovered after a crash."""
