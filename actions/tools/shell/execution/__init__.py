"""Runs a command under a supervisor, and finds its outcome later if the agent died."""
