"""What runs in the supervisor of a command, between fork and exec: the standard library alone."""
