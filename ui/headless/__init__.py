"""Runs without a person at the terminal: one answer as text, JSON or a stream of JSON lines."""
