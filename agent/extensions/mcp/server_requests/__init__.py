"""Requests from a tool server to its client: questions for the user, and model calls."""
