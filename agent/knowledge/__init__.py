"""What agents know beyond one session."""
