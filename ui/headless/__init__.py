"""Runs a session without a person at the terminal, with output as text, JSON or JSON lines."""
