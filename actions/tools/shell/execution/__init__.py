"""Runs a command under a supervisor, and finds out later what became of it."""
