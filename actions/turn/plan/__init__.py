"""Plans that a person approved: how one begins, and what it allows."""
