"""Takes secrets out of what enters a session."""
