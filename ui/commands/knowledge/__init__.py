"""The commands of what agents know beyond a session."""
