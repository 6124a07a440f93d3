"""What agents know beyond a session: collections of texts that are searched."""
