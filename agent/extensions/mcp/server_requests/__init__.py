"""What a tool server asks of its client: questions to the user, model calls."""
