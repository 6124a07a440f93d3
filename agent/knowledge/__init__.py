"""What agents know beyond one session: facts, and collections of texts that are searched."""
